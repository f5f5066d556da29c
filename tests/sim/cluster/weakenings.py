"""The mutants of replication. Each function changes the core in this process for good; its first line says how."""

from collections.abc import Callable
from typing import Any, Final

import msgspec

from holdfast.core import enrolment
from holdfast.core.archive import Archive
from holdfast.core.candidate import Candidate
from holdfast.core.cluster import Member
from holdfast.core.command import Receive
from holdfast.core.coordination import Outcome
from holdfast.core.leader import Leader
from holdfast.core.primary import Primary
from holdfast.core.proposal import Proposal
from holdfast.core.reconfiguration import Reconfiguration
from holdfast.core.roll import Roll
from holdfast.core.station import Station
from holdfast.core.types import Lsn
from tests.sim.cluster import cluster
from tests.sim.weakenings import instead

# Disks and promises


def acknowledged_before_fsync() -> None:
    """what members send when a write is durable leaves when the write begins"""

    @instead(Station, "_start")
    def _(start: Any, self: Any) -> None:
        start(self)
        if self.out.job is not None:
            self.out.at_once += self.out.job.after
            self.out.job = msgspec.structs.replace(self.out.job, after=())


# Commit


def rolled_back_disk_accepted() -> None:
    """the count of starts is not compared, so an old copy of a disk passes for it"""

    @instead(enrolment, "_is_known")
    def _(_: Any, held: Any, record: Any, found: Any) -> bool:
        return bool(held.life == record.created and found.host == held.host)


def primary_commits_alone() -> None:
    """what is durable on the primary is acknowledged"""

    @instead(Roll, "reached")
    def _(reached: Any, self: Any, durable: Any) -> Any:
        reached(self, durable)
        return durable


def learners_lag_is_ignored() -> None:
    """a learner becomes a member before it has caught up"""

    @instead(Reconfiguration, "_ready")
    def _(_: Any, self: Any) -> list[Member]:
        return [peer.member for peer in self._leader.roll.peers.values() if not peer.is_member]

    @instead(Roll, "are_level")
    def _(_: Any, *__: Any) -> bool:
        return True


def too_few_members_serve() -> None:
    """one disk is enough for a configuration"""

    @instead(cluster, "first_record")
    def _(first_record: Any, members: Any, **_: Any) -> Any:
        return first_record(members, min_members=1)


def frames_go_on_while_members_change() -> None:
    """the primary makes frames between the proposal of a change and its outcome"""

    Reconfiguration.is_paused = property(lambda _: False)  # type: ignore[assignment, method-assign]

    @instead(Leader, "reign")
    def _(_: Any, self: Any, record: Any) -> None:
        self._record = record
        self.roll.set_members(record.members, self._station.now)
        self._is_fresh = True


def outcome_assumed_done() -> None:
    """a compare-and-swap whose outcome is unknown is taken to have happened"""

    @instead(Proposal, "_settled")
    def _(settled: Any, self: Any, number: Any, outcome: Any) -> None:
        settled(self, number, Outcome.DONE if outcome is Outcome.UNKNOWN else outcome)


# Fail-over


def truncated_at_the_high_water_mark() -> None:
    """a candidate cuts its log back to what it knows to be committed"""

    @instead(Candidate, "_choose")
    def _(_: Any, self: Any) -> None:
        log = self._standby.log
        self._answers.clear()
        self._source = None

        def done(_: None) -> None:
            self._standby._is_cutting = False

        self._standby._is_cutting = True
        self._station.enqueue(lambda: (log.cut(log.base, self._station.promise), ()), done)
        self._enter(type(self.phase).REACHING)


def candidate_serves_early() -> None:
    """a candidate serves before its compare-and-swap is certain"""

    @instead(Candidate, "_propose")
    def _(propose: Any, self: Any) -> None:
        propose(self)
        self._proposal._end(self._proposal._on_done)


def snapshots_of_members_pass_commit() -> None:
    """index files and snapshots may cover what is not committed"""

    @instead(Archive, "sealed_upto")
    def _(_: Any, self: Any) -> Lsn:
        sealed = [each.last for each in self.segments if each is not self._active]
        return max(sealed, default=Lsn(0))


def dedup_forgotten_at_fail_over() -> None:
    """a new primary knows no deduplication ids"""

    def forget(state: Any) -> None:
        for lane in state.lanes.values():
            lane.dedup = None

    _at_take_over(forget)


def requests_forgotten_at_fail_over() -> None:
    """a new primary does not know which requests were carried out"""

    def forget(state: Any) -> None:
        state.requests = type(state.requests)()

    _at_take_over(forget)


def fifo_lease_not_replicated() -> None:
    """the reply to a FIFO receive waits for the primary's disk only"""

    @instead(Primary, "_is_local")
    def _(is_local: Any, self: Any, command: Any) -> bool:
        return isinstance(command, Receive) or is_local(self, command)


def time_of_another_clock() -> None:
    """a new primary takes its own clock for cluster time"""

    @instead(Leader, "__init__")
    def _(init: Any, self: Any, station: Any, *args: Any, **more: Any) -> None:
        init(self, station, *args, **more)
        self._stamp = max(self._stamp, self._since)


def _at_take_over(change: Callable[[Any], None]) -> None:
    @instead(Leader, "__init__")
    def _(init: Any, self: Any, *args: Any, **more: Any) -> None:
        init(self, *args, **more)
        change(self.primary.shard)


WEAKENINGS: Final[dict[str, Callable[[], None]]] = {
    function.__name__.replace("_", "-"): function
    for function in (
        acknowledged_before_fsync,
        truncated_at_the_high_water_mark,
        learners_lag_is_ignored,
        outcome_assumed_done,
        frames_go_on_while_members_change,
        candidate_serves_early,
        snapshots_of_members_pass_commit,
        rolled_back_disk_accepted,
        primary_commits_alone,
        too_few_members_serve,
        dedup_forgotten_at_fail_over,
        requests_forgotten_at_fail_over,
        fifo_lease_not_replicated,
        time_of_another_clock,
    )
}
