"""When a shard needs another primary, and who that should be.

    trouble (suspicion.py) ── has held for its patience ──▶ a candidate? ──yes──▶ Appoint
                                                                 └───────no──▶ Stuck, said now and then

Laws
- Only a member of the last configuration, with the disk of that configuration, is appointed; of those the one with the
  longest log, but who was tried already comes last.
- Tries for one shard back off, also when they succeed: a shard that has been active for a while starts anew.
- A record that changed a moment ago is a sign of life of whoever changed it, and gives an appointed one time to begin.
- Too few hosts for a configuration: nothing is tried, since no candidate could serve.
"""

from collections import Counter
from collections.abc import Callable, Iterator

import msgspec

from holdfast.core.cluster.suspicion import PATIENCE, Hearing, Trouble, candidates_of, trouble_of
from holdfast.core.coordination.cluster import HostId, Member, ShardRecord, ShardState
from holdfast.core.coordination.cluster_view import ClusterView
from holdfast.core.limits import (
    COMPLAIN_INTERVAL,
    FAIL_OVER_BACKOFF,
    FAIL_OVER_BACKOFF_MAX,
    FAILED_MEMORY,
    STEADY_AFTER,
    SUSPECT_AFTER,
)
from holdfast.core.types import Epoch, ShardId


class Appoint(msgspec.Struct, frozen=True):
    shard: ShardId
    member: Member
    reason: str


class Stuck(msgspec.Struct, frozen=True):
    shard: ShardId
    reason: str


class _Tries(msgspec.Struct):
    """Fail-overs of one shard since it was last steady."""

    count: int
    at: int
    tried: list[HostId]
    active_since: int | None = None


class _Seen(msgspec.Struct):
    trouble: Trouble
    epoch: Epoch
    since: int


class FailOver:
    def __init__(self, view: ClusterView, hearing: Hearing) -> None:
        self._view = view
        self._hearing = hearing
        self.forget()

    def forget(self) -> None:
        """What was seen in an earlier office is worth nothing in a later one."""
        self._troubles: dict[ShardId, _Seen] = {}
        self._tries: dict[ShardId, _Tries] = {}
        self._complained: dict[ShardId, int] = {}
        self._epochs: dict[ShardId, tuple[Epoch, ShardState, int]] = {}  # as last seen, and since when
        self._failed: dict[HostId, int] = {}  # appointed, and did not become primary; when it was given up

    def failed(self, now: int) -> list[HostId]:
        """Hosts that lately could not take over a shard."""
        return [host for host, at in self._failed.items() if now - at < FAILED_MEMORY]

    def look(self, is_free: Callable[[ShardId], bool], now: int) -> Iterator[Appoint | Stuck]:
        """`is_free`: nothing else is being done to the shard. Appointments of one look are spread over the hosts."""
        led = Counter(each.primary for each in self._view.shards.values())
        for shard in sorted(self._view.shards):
            trouble = self._lasting_trouble(shard, now)
            if trouble is not None and is_free(shard) and not self._is_backing_off(shard, now):
                found = self._choose(shard, trouble, led=led, now=now)
                if isinstance(found, Appoint):
                    led[found.member.host] += 1
                if found is not None:
                    yield found

    # whether

    def _lasting_trouble(self, shard: ShardId, now: int) -> Trouble | None:
        record = self._view.shards[shard]
        trouble = trouble_of(shard, self._view, self._hearing, now=now)
        is_news = self._is_news(shard, record, now)
        if trouble is None or (trouble is Trouble.SILENT and is_news):
            self._troubles.pop(shard, None)
            self._calm_down(shard, record, now)
            return None
        seen = self._troubles.get(shard)
        if seen is None or (seen.trouble, seen.epoch) != (trouble, record.epoch):
            seen = self._troubles[shard] = _Seen(trouble, record.epoch, now)
        patience = PATIENCE.get(trouble, 0)
        tries = self._tries.get(shard)
        if tries is not None and trouble is Trouble.SLOW:
            patience <<= min(tries.count - 1, 4)
        return trouble if now - seen.since >= patience else None

    def _is_news(self, shard: ShardId, record: ShardRecord, now: int) -> bool:
        """Whether its record changed a moment ago: what the members say is then still about the epoch before."""
        held = self._epochs.get(shard)
        if held is None or held[:2] != (record.epoch, record.state):
            # What a new manager finds is no news: it may have been so for long.
            since = now if held else now - SUSPECT_AFTER
            held = self._epochs[shard] = (record.epoch, record.state, since)
        return now - held[2] < SUSPECT_AFTER

    def _calm_down(self, shard: ShardId, record: ShardRecord, now: int) -> None:
        tries = self._tries.get(shard)
        if tries is None or record.state is not ShardState.ACTIVE:
            return
        tries.active_since = tries.active_since or now
        if now - tries.active_since >= STEADY_AFTER:
            del self._tries[shard]

    def _is_backing_off(self, shard: ShardId, now: int) -> bool:
        tries = self._tries.get(shard)
        if tries is None:
            return False
        return now - tries.at < min(FAIL_OVER_BACKOFF << min(tries.count, 8), FAIL_OVER_BACKOFF_MAX)

    # who

    def _choose(self, shard: ShardId, trouble: Trouble, *, led: Counter[HostId], now: int) -> Appoint | Stuck | None:
        record = self._view.shards[shard]
        fit = candidates_of(shard, self._view, self._hearing, led=led, now=now)
        if trouble is not Trouble.NOT_LEADING:
            fit = [each for each in fit if each.host != record.primary]
        if not fit or self._hearing.count_heard(now) < record.min_members:
            why = "no member of its last configuration can take over" if not fit else "too few hosts are alive"
            return self._complain(shard, f"{trouble}, and {why}", now)
        if record.state is ShardState.RECOVERING:
            self._failed[record.primary] = now
        tries = self._tries.get(shard) or _Tries(0, now, [])
        fresh = [each for each in fit if each.host not in tries.tried]
        candidate = (fresh or fit)[0]
        tried = [*tries.tried, candidate.host] if fresh else [candidate.host]
        self._tries[shard] = _Tries(tries.count + 1, now, tried)
        return Appoint(shard, candidate, trouble)

    def _complain(self, shard: ShardId, reason: str, now: int) -> Stuck | None:
        if now - self._complained.get(shard, now - COMPLAIN_INTERVAL) < COMPLAIN_INTERVAL:
            return None
        self._complained[shard] = now
        return Stuck(shard, reason)
