"""What a seat does beside its replica's steps: reads, spares, index files, snapshots, compaction, the scrub.

Damage that a read or the scrub meets is told to the replica, which fetches the segment from a peer. What was asked for
has no answer then; nobody else brings the bytes back.
"""

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Final, TypeVar

from holdfast.core.errors import CorruptLog
from holdfast.core.log.files import Work
from holdfast.core.log.journal import Journal
from holdfast.core.log.scrub import scrub
from holdfast.core.log.segment_files import prepare_segment
from holdfast.core.log.snapshot import Advanced, advance_snapshot
from holdfast.core.queue.command import Need
from holdfast.core.queue.outbox import Outgoing
from holdfast.core.queue.record import Message
from holdfast.core.queue.shard import Shard
from holdfast.core.replication.damaged import Damaged
from holdfast.core.replication.replica import Replica
from holdfast.core.replication.station import Event, Scrubbed, Tick
from holdfast.core.types import LaneId, Lsn, ShardId
from tests.sim.cipher import KEY_BYTES, SimCipher, wrap
from tests.sim.runner import RETRY, Runner
from tests.sim.world import MS, SECOND

if TYPE_CHECKING:
    from tests.sim.cluster.node import Node, NodeProcess

Result = TypeVar("Result")
SCRUB_EVERY: Final = 3 * SECOND  # in runs where bits flip; days in earnest


class Upkeep(Runner):
    def __init__(self, process: "NodeProcess", node: "Node", shard: ShardId) -> None:
        super().__init__(process, node, shard)
        self.daemon, self.node = process, node  # process and host, as what they are here
        self.cluster = node.cluster
        self.replica: Replica | Damaged | None = None
        self.reign = 0  # of this shard's primaries; 0: does not lead
        self._lives = 0  # replicas so far: what was begun for an older one is void
        self._is_at_chores = False
        self._scrub_at = 0
        self._deferred: list[Callable[[], None]] = []

    def step(self, event: Event) -> None:
        raise NotImplementedError

    # Damage

    def _harmed(self, problem: CorruptLog) -> None:
        """A read has met it, in the segment that was looked at last."""
        self.cluster.checkers.damaged(self.node, problem)
        self.process.call(0, self._tell_harmed, (self.reading,))

    def _tell_harmed(self, stems: tuple[str, ...]) -> None:
        self.world.note(f"{self.node.name} {self.shard} harmed {stems}")
        self.world.count("segments found harmed", len(stems))
        for stem in stems:
            self._ciphers.pop(stem, None)
        self.step(Scrubbed(stems))

    def _departing(self, wanted: list[tuple[LaneId, Lsn]]) -> Work[list[Message] | None]:
        return self._or_harm(self._messages(wanted))

    def _depart(self, due: list[Outgoing], messages: list[Message] | None) -> None:
        if messages is not None:
            super()._depart(due, messages)
        else:
            self.process.call(RETRY, self._hand_again, self._lives)

    def _hand_again(self, life: int) -> None:
        if life == self._lives:
            self._is_handing = False

    def _or_harm(self, work: Work[Result]) -> Work[Result | None]:
        """None: it lies in damaged bytes."""
        try:
            return (yield from work)
        except CorruptLog as problem:
            self._harmed(problem)
            return None

    def _scrub(self) -> Work[None]:
        if not self.node.plan.flip_s or self.world.now < self._scrub_at:
            return
        self._scrub_at = self.world.now + SCRUB_EVERY
        report = yield from scrub(self.shard, is_live=True)
        files = [harm.path.partition("/") for harm in report.harms]
        stems = tuple(name.partition(".")[0] for folder, _, name in files if folder in ("segments", "keys"))
        if stems:
            self.cluster.checkers.damaged(self.node, CorruptLog(f"scrub: {report.harms[0].problem}"))
            self._tell_harmed(stems)

    # Headers and spares, for the life that asked for them

    def _headers(self, need: Need) -> Work[None]:
        life = self._lives
        found = yield from self._or_harm(self._find_headers(need))
        if found is None:
            self.process.call(RETRY, self._look_again, need, life)
        elif life == self._lives and isinstance(self.replica, Replica):
            self.replica.loaded(need, found.headers, found.upto)
            self.wake()

    def _look_again(self, need: Need, life: int) -> None:
        if life == self._lives:
            self.process.run(self.shard, self._headers(need), lambda _: None)

    def _prepare_spare(self) -> None:
        life = self._lives
        journal = self._journal()
        self._is_sparing = True
        key = self.world.rng.randbytes(KEY_BYTES)
        work = prepare_segment(journal.start_spare(), key=wrap(key), size=self.node.plan.segment_bytes)

        def done(is_made: bool) -> None:
            if life != self._lives:
                return
            self._is_sparing = False
            journal.end_spare(SimCipher(key, self.node.seals) if is_made else None, wrap(key))
            if is_made:
                self.step(Tick())
            else:
                self._is_sparing = True
                self.process.call(RETRY, self._spare_again, life)

        def late(is_made: bool) -> None:
            self.process.call(self.world.between(0, longer), done, is_made)

        longer = self.node.plan.spare_ms * MS
        self.process.run(self.shard, work, late if longer else done)

    def _spare_again(self, life: int) -> None:
        if life == self._lives:
            self._prepare_spare()

    def _journal(self) -> Journal:
        assert isinstance(self.replica, Replica)
        assert self.replica.primary is not None, "who leads has a journal"
        return self.replica.primary.journal

    # Chores: never while the files are being replaced

    def _chores(self) -> Work[bool]:
        """True: later, for the disk is full or damaged."""
        is_full = yield from self._or_harm(super()._chores())
        yield from self._scrub()
        return is_full is None or is_full

    def _do_chores(self) -> None:
        if not isinstance(self.replica, Replica) or self._is_copying():
            self._chores_done(False)
            return
        self._is_at_chores = True
        self.process.run(self.shard, self._chores(), self._chores_ended)

    def _chores_ended(self, is_full: bool) -> None:
        self._is_at_chores = False
        deferred, self._deferred = self._deferred, []
        for action in deferred:
            action()
        self._chores_done(is_full)

    def _is_copying(self) -> bool:
        return isinstance(self.replica, Replica) and self.replica.is_copying

    def _when_quiet(self, action: Callable[[], None]) -> None:
        """Now, or when the chores have ended."""
        if self._is_at_chores:
            self._deferred.append(action)
        else:
            action()

    def _replay_aside(self, upto: Lsn) -> Work[Advanced | None]:
        """All members of a shard do the same with the same bytes."""
        make = partial(advance_snapshot, self.shard, upto, machine=Shard)
        return self.cluster.recall.work(("snapshot", self.shard, upto), make)

    def _compact(self) -> Work[None]:
        if self.reign and isinstance(self.replica, Replica) and self.replica.primary is not None:
            yield from super()._compact()
