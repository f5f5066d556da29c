"""Who is alive, as far as one host can tell, and what is wrong with a shard's primary.

Laws
- Nobody is suspected for what may be the listener's own fault: a pause of its own excuses everybody's silence, and one
  that hears less than half of the hosts whose leases live takes itself to be cut off.
- A primary that the manager does not hear, but a member does, is alive.
- Suspicion is about when to try. Trying in vain costs a pause; safety never depends on it.
"""

from collections.abc import Collection, Iterator, Mapping
from enum import StrEnum

from holdfast.core.coordination.cluster import HostId, Member, ShardRecord, ShardState
from holdfast.core.coordination.cluster_view import ClusterView
from holdfast.core.coordination.heartbeat import Heartbeat, Role, ShardReport
from holdfast.core.limits import (
    HEARTBEAT_INTERVAL,
    NOT_LEADING_PATIENCE,
    RECOVERY_PATIENCE,
    STALL_PATIENCE,
    SUSPECT_AFTER,
    SUSPECT_AFTER_MAX,
)
from holdfast.core.types import Epoch, Lsn, ShardId
from holdfast.core.values import Form


class Trouble(StrEnum):
    """Why a shard needs another primary."""

    SILENT = "nobody hears its primary"
    OTHER_DISK = "its primary came back with another disk"
    DAMAGED = "its primary's log is damaged"
    NOT_LEADING = "its primary lives and does not lead"
    STALLED = "it commits nothing"
    SLOW = "its recovery takes too long"


PATIENCE = {Trouble.NOT_LEADING: NOT_LEADING_PATIENCE, Trouble.SLOW: RECOVERY_PATIENCE}  # of the others: none


class _Heard(Form):
    beat: Heartbeat | None
    at: int
    reports: dict[ShardId, ShardReport]
    gap_us: int = HEARTBEAT_INTERVAL  # usual time between heartbeats


class _Progress(Form):
    committed: Lsn
    since: int  # when something was last committed, or nothing waited for it
    epoch: Epoch


class Hearing:
    """What the heartbeats of all hosts say, as heard by one."""

    def __init__(self) -> None:
        self._heard: dict[HostId, _Heard] = {}
        self._progress: dict[ShardId, _Progress] = {}

    def expect(self, hosts: Collection[HostId], now: int) -> None:
        """From now on the silence of these counts."""
        for host in hosts:
            self._heard.setdefault(host, _Heard(None, now, {}))

    def forgive(self, longer_than: int, now: int) -> None:
        """Silence so long was perhaps not meant for this listener: it counts from now."""
        for heard in self._heard.values():
            if now - heard.at > longer_than:
                heard.at = now

    def keep_only(self, hosts: Collection[HostId]) -> None:
        for host in [each for each in self._heard if each not in hosts]:
            del self._heard[host]

    def hear(self, beat: Heartbeat, now: int) -> None:
        heard = self._heard.setdefault(beat.host, _Heard(None, now, {}))
        if heard.beat is not None:
            if (beat.life, beat.boot, beat.number) <= (heard.beat.life, heard.beat.boot, heard.beat.number):
                return
            heard.gap_us += (min(now - heard.at, SUSPECT_AFTER) - heard.gap_us) // 8
        heard.beat, heard.at = beat, now
        heard.reports = {each.shard: each for each in beat.shards}
        for report in beat.shards:
            self._follow(report, now)

    def _follow(self, report: ShardReport, now: int) -> None:
        if report.role not in (Role.PRIMARY, Role.MEMBER):
            return
        held = self._progress.get(report.shard)
        is_idle = report.role is Role.PRIMARY and report.appended <= report.committed
        if held is None or report.epoch > held.epoch:
            self._progress[report.shard] = _Progress(report.committed, now, report.epoch)
        elif report.epoch == held.epoch and (report.committed > held.committed or is_idle):
            held.committed, held.since = max(held.committed, report.committed), now

    def excuse(self, pause: int) -> None:
        """The listener itself was not awake for so long."""
        for heard in self._heard.values():
            heard.at += pause
        for progress in self._progress.values():
            progress.since += pause

    def silence(self, host: HostId, now: int) -> int:
        heard = self._heard.get(host)
        return now - heard.at if heard else SUSPECT_AFTER_MAX

    def is_heard(self, host: HostId, now: int) -> bool:
        heard = self._heard.get(host)
        if heard is None or heard.beat is None:
            return False
        return now - heard.at < min(max(SUSPECT_AFTER, 4 * heard.gap_us), SUSPECT_AFTER_MAX)

    def count_heard(self, now: int) -> int:
        return sum(self.is_heard(each, now) for each in self._heard)

    def is_silent(self, host: HostId, now: int) -> bool:
        """Not the same as "not heard": a host that has not had the time to be heard is neither."""
        return not self.is_heard(host, now) and self.silence(host, now) >= SUSPECT_AFTER

    def beat_of(self, host: HostId) -> Heartbeat | None:
        heard = self._heard.get(host)
        return heard.beat if heard else None

    def report_of(self, member: Member, shard: ShardId) -> ShardReport | None:
        """What the member says of the shard; None: nothing, or another disk speaks."""
        heard = self._heard.get(member.host)
        if heard is None or heard.beat is None or heard.beat.life != member.life:
            return None
        return heard.reports.get(shard)

    def reports(self, shard: ShardId, record: ShardRecord, now: int) -> Iterator[tuple[Member, ShardReport]]:
        """Of members that are heard."""
        for member in record.members:
            report = self.report_of(member, shard)
            if report is not None and self.is_heard(member.host, now):
                yield member, report

    def primaries(self, shards: Mapping[ShardId, ShardRecord]) -> Iterator[tuple[ShardId, ShardReport]]:
        """What those said last who lead, by the record and by their own word."""
        for shard, record in shards.items():
            member = next((each for each in record.members if each.host == record.primary), None)
            report = self.report_of(member, shard) if member is not None else None
            if report is not None and report.role is Role.PRIMARY and report.epoch == record.epoch:
                yield shard, report

    def is_stalled(self, shard: ShardId, record: ShardRecord, now: int) -> bool:
        progress = self._progress.get(shard)
        if progress is None or progress.epoch != record.epoch or now - progress.since < STALL_PATIENCE:
            return False
        return any(report.appended > progress.committed for _, report in self.reports(shard, record, now))


def is_cut_off(host: HostId, view: ClusterView, hearing: Hearing, *, now: int) -> bool:
    """Whether it is more likely that `host` is apart than that all those are dead which it does not hear."""
    others = [each for each in view.hosts if each != host]
    silent = sum(hearing.is_silent(each, now) for each in others)
    return 2 * (len(others) - silent + 1) < len(others) + 1


def trouble_of(shard: ShardId, view: ClusterView, hearing: Hearing, *, now: int) -> Trouble | None:
    record = view.shards[shard]
    primary = next((each for each in record.members if each.host == record.primary), None)
    if primary is None or (beat := hearing.beat_of(primary.host)) is None or not hearing.is_heard(primary.host, now):
        is_lost = hearing.is_silent(record.primary, now) or record.primary not in view.hosts
        if is_lost and not _is_heard_by_members(shard, record, hearing, now=now):
            return Trouble.SILENT
        if record.state is ShardState.RECOVERING:
            return Trouble.SLOW
        return Trouble.STALLED if hearing.is_stalled(shard, record, now) else None
    if beat.life != primary.life:
        return Trouble.OTHER_DISK
    report = hearing.report_of(primary, shard)
    if report is None:
        return Trouble.NOT_LEADING
    if report.role is Role.DAMAGED:
        return Trouble.DAMAGED
    return _trouble_leading(shard, record, report, hearing=hearing, now=now)


def _trouble_leading(
    shard: ShardId, record: ShardRecord, report: ShardReport, *, hearing: Hearing, now: int
) -> Trouble | None:
    is_current = report.epoch == record.epoch
    if record.state is ShardState.RECOVERING:
        is_at_it = is_current and report.role in (Role.CANDIDATE, Role.PRIMARY)
        return Trouble.SLOW if is_at_it else Trouble.NOT_LEADING
    if not is_current or report.role is not Role.PRIMARY:
        return Trouble.NOT_LEADING
    return Trouble.STALLED if hearing.is_stalled(shard, record, now) else None


def _is_heard_by_members(shard: ShardId, record: ShardRecord, hearing: Hearing, *, now: int) -> bool:
    """Members say how long ago they heard their primary; the time since they said it counts as well."""
    return any(
        member.host != record.primary
        and report.epoch == record.epoch
        and report.silence_us + hearing.silence(member.host, now) < SUSPECT_AFTER
        for member, report in hearing.reports(shard, record, now)
    )


def candidates_of(
    shard: ShardId, view: ClusterView, hearing: Hearing, *, led: Mapping[HostId, int], now: int
) -> list[Member]:
    """Members of the last configuration that may take the shard over: the longest log first, then who led it last, then
    who leads least.

    Each is heard, has the disk of that configuration, started as the store knows it, and vouches for its log.
    """
    record = view.shards[shard]
    fit = [
        (report.log_epoch, report.durable, member)
        for member, report in hearing.reports(shard, record, now)
        if report.role is not Role.DAMAGED and _is_itself(member, view, hearing)
    ]
    fit.sort(key=lambda each: (-each[0], -each[1], *_rank(each[2].host, record, led)))
    return [member for _, _, member in fit]


def _rank(host: HostId, record: ShardRecord, led: Mapping[HostId, int]) -> tuple[bool, int, HostId]:
    return host != record.primary, led.get(host, 0), host


def _is_itself(member: Member, view: ClusterView, hearing: Hearing) -> bool:
    beat = hearing.beat_of(member.host)
    disk = view.disks.get(beat.disk) if beat else None
    if beat is None or disk is None:
        return False
    return (disk.host, disk.life) == (member.host, member.life) and beat.boot in (disk.last_boot, disk.pending_boot)
