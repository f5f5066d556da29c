"""The mutants of replication. Each function changes the core in this process for good; its first line says how.

The first ten are those of REPLICATION §6: each is known to lose acknowledged messages.
"""

from collections.abc import Callable
from typing import Any, Final

import msgspec

from holdfast.core.coordination.asking import Outcome
from holdfast.core.coordination.cluster import Member
from holdfast.core.limits import SECOND
from holdfast.core.log.archive import Archive
from holdfast.core.log.files import SyncDir, Work, perform
from holdfast.core.log.primary import Primary
from holdfast.core.queue.command import Delete, Receive
from holdfast.core.replication import enrolment, leader, replica_recovery
from holdfast.core.replication.candidate import Candidate
from holdfast.core.replication.leader import Leader
from holdfast.core.replication.proposal import Proposal
from holdfast.core.replication.reconfiguration import Reconfiguration
from holdfast.core.replication.replica import Replica
from holdfast.core.replication.replica_log import ReplicaLog
from holdfast.core.replication.replica_message import Ack, Append
from holdfast.core.replication.roll import Roll
from holdfast.core.replication.standby import Standby
from holdfast.core.replication.station import Station
from holdfast.core.types import Lsn
from tests.sim.cluster import cluster
from tests.sim.cluster.plan import RESTLESS, ROLLED_BACK
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


def no_fencing() -> None:
    """a member goes on taking frames of an epoch below its promise"""

    @instead(Replica, "_answer_old")
    def _(answer_old: Any, self: Any, sender: Any, message: Any) -> None:
        if not isinstance(message, Append) or self._standby is None:
            answer_old(self, sender, message)
            return
        station, promise = self._station, self._station.promise
        station.promise = message.epoch
        self._standby.append(sender, message)
        station.promise = promise

    @instead(Replica, "_depose")
    def _(depose: Any, self: Any, why: str) -> None:
        if self._station.record.primary != self._station.me.host:  # it does not listen to members
            depose(self, why)


def promise_not_persisted() -> None:
    """a promise is kept in memory only"""

    @instead(Station, "raise_promise")
    def _(raise_promise: Any, self: Any, epoch: Any, then: Any) -> None:
        if not self.promise:  # a first one there must be
            raise_promise(self, epoch, then)
            return
        self.promising = epoch

        def done(_: None) -> None:
            self.promise = epoch
            then()

        self.enqueue(lambda: (perform(()), ()), done)


def life_ignored() -> None:
    """all disks of a host pass for the same one"""

    @instead(enrolment._Desk, "_fetch")
    def _(fetch: Any, *args: Any) -> Any:
        record = yield from fetch(*args)
        return msgspec.structs.replace(record, created=1) if record is not None else None


def rolled_back_disk_accepted() -> None:
    """the count of starts is not compared, so an old copy of a disk passes for it"""

    @instead(enrolment, "_is_known")
    def _(_: Any, held: Any, record: Any, found: Any) -> bool:
        return bool(held.life == record.created and found.host == held.host)


def page_cache_is_trusted_by_members() -> None:
    """a replica's recovery does not write the tail again"""

    @instead(replica_recovery, "write_again")
    def _(_: Any, __: Any) -> Work[None]:
        yield SyncDir("segments")
        yield SyncDir("keys")


# Commit


def majority_commits() -> None:
    """most members are enough to commit, and a candidate trusts its own log alone"""

    @instead(Roll, "reached")
    def _(reached: Any, self: Any, durable: Any) -> Any:
        reached(self, durable)
        places = sorted([durable, *(peer.acked for peer in self.members())], reverse=True)
        return places[len(places) // 2]

    _no_longer_log_is_fetched()


def _no_longer_log_is_fetched() -> None:
    @instead(Candidate, "_choose")
    def _(choose: Any, self: Any) -> None:
        answers, self._answers = self._answers, {}
        choose(self)
        self._answers = answers


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


def outcome_assumed_void() -> None:
    """a compare-and-swap whose outcome is unknown is taken not to have happened"""

    @instead(Proposal, "_settled")
    def _(settled: Any, self: Any, number: Any, outcome: Any) -> None:
        if outcome is Outcome.UNKNOWN and not self._is_over:
            self._end(self._on_void)
        else:
            settled(self, number, outcome)


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


def candidate_levels_nobody() -> None:
    """a candidate takes who promised for who has its log"""

    @instead(Candidate, "_advance")
    def _(advance: Any, self: Any) -> None:
        if self.is_sure:
            self._level.update({member.host: member for member in self._others if member.host in self._answers})
        advance(self)


def candidate_serves_early() -> None:
    """a candidate serves before its compare-and-swap is certain"""

    @instead(Candidate, "_propose")
    def _(propose: Any, self: Any) -> None:
        propose(self)
        self._proposal._end(self._proposal._on_done)


def members_apply_early() -> None:
    """members apply what they receive, committed or not"""

    @instead(ReplicaLog, "commit")
    def _(commit: Any, self: Any, _: Any) -> None:
        commit(self, self.end.lsn)


def snapshots_of_members_pass_commit() -> None:
    """index files and snapshots may cover what is not committed"""

    @instead(Archive, "sealed_upto")
    def _(_: Any, self: Any) -> Lsn:
        sealed = [each.last for each in self.segments if each is not self._active]
        return max(sealed, default=Lsn(0))


def suffix_kept() -> None:
    """a member whose log goes beyond the primary's keeps it, and says that it has the primary's"""

    @instead(Standby, "append")
    def _(append: Any, self: Any, sender: Any, message: Any) -> None:
        if message.before < self.log.end and not message.data:
            self._meet(sender)
            self._is_matched = True
            place = message.before
            self._station.send(sender, Ack(self._station.promise, self._station.me.life, place))
            return
        append(self, sender, message)

    @instead(Standby, "cut")
    def _(_: Any, self: Any, sender: Any, __: Any) -> None:
        self._meet(sender)


def loss_not_noted() -> None:
    """a fail-over does not say what asynchronous queues may have lost"""

    @instead(Candidate, "_doubts")
    def _(*_: Any) -> tuple[()]:
        return ()

    @instead(Standby, "_note_loss")
    def _(*_: Any) -> None:
        pass


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


# Replies


def fifo_lease_not_replicated() -> None:
    """the reply to a FIFO receive waits for the primary's disk only"""

    @instead(Primary, "_is_local")
    def _(is_local: Any, self: Any, command: Any) -> bool:
        return isinstance(command, Receive) or is_local(self, command)


def delete_answered_before_commit() -> None:
    """the reply to a delete waits for the primary's disk only"""

    @instead(Primary, "_decide")
    def _(decide: Any, self: Any, command: Any, token: Any, wait_s: int) -> None:
        decide(self, command, token, wait_s)
        if isinstance(command, Delete) and self._bound and self._bound[-1][1] is token:
            self._bound_local.append(self._bound.pop())


def lonely_primary_hands_out() -> None:
    """a primary that does not hear its members goes on handing out"""
    leader.UNSURE_AFTER = 3600 * SECOND  # type: ignore[attr-defined]


def asynchronous_lag_unbounded() -> None:
    """asynchronous queues go on while their members lag behind"""
    leader.ASYNC_LAG = 3600 * SECOND  # type: ignore[attr-defined]
    leader.REPLICA_PATIENCE = 3600 * SECOND  # type: ignore[attr-defined]


WEAKENINGS: Final[dict[str, Callable[[], None]]] = {
    function.__name__.replace("_", "-"): function
    for function in (
        acknowledged_before_fsync,
        no_fencing,
        promise_not_persisted,
        life_ignored,
        majority_commits,
        truncated_at_the_high_water_mark,
        learners_lag_is_ignored,
        outcome_assumed_done,
        frames_go_on_while_members_change,
        snapshots_of_members_pass_commit,
        outcome_assumed_void,
        rolled_back_disk_accepted,
        page_cache_is_trusted_by_members,
        primary_commits_alone,
        too_few_members_serve,
        candidate_levels_nobody,
        candidate_serves_early,
        members_apply_early,
        suffix_kept,
        loss_not_noted,
        dedup_forgotten_at_fail_over,
        requests_forgotten_at_fail_over,
        time_of_another_clock,
        fifo_lease_not_replicated,
        delete_answered_before_commit,
        lonely_primary_hands_out,
        asynchronous_lag_unbounded,
    )
}

# What has to happen for some of them to matter, where it seldom happens by chance: the troubles of `rough` (plan.py).
TROUBLES: Final = {
    "page-cache-is-trusted-by-members": (RESTLESS,),
    "rolled-back-disk-accepted": (ROLLED_BACK,),
}
