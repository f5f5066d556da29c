"""A replica that follows: a member, or a learner that catches up. Both do the same; who counts stands in the record.

    Append that follows my end ──▶ write, fdatasync ──▶ Ack          and what is said to be committed is applied
    Append from further on     ──▶ kept for a moment; Pull what lies between
    anything else              ──▶ Pull: the answer brings me onto the leader's log (source.py), or cuts me back to it

Laws
- It acknowledges only in the epoch that it has promised, only what is durable, and only after an Append of that epoch
  fitted its end: its log is then the leader's, up to there.
- A Cut is obeyed only if it names the very end that the log has now, and takes only frames of epochs before its own.
  So one that is late or comes twice does nothing.
- Nothing committed is ever cut off: what can be cut is the tail.
- Starting over, with a copy of the leader's files, is only for who is not a member: a linearizable read of the record
  says so. A member that cannot follow is damaged, and says nothing until it has been let go.
"""

from holdfast.core.coordination.cluster import HostId, LossRecord, encode, loss_key
from holdfast.core.coordination.store import Put, Transaction
from holdfast.core.limits import AHEAD_MAX, MISFITS_MAX, PULL_AFTER
from holdfast.core.log.files import perform
from holdfast.core.log.segment import segment_path
from holdfast.core.replication.catch_up import CatchUp
from holdfast.core.replication.replica_log import SPARE, ReplicaLog, make_zeros
from holdfast.core.replication.replica_message import NOWHERE, Ack, Append, Chunk, Cut, Doubt, Place, Pull, Restart
from holdfast.core.replication.station import Begun, NoticeKind, Station
from holdfast.core.types import Epoch, Instant, Lsn


class Standby:
    def __init__(self, station: Station, log: ReplicaLog) -> None:
        self.log = log
        self.leader = HostId("")  # who sent the last message of a leader
        self.heard = station.now
        self.time = Instant(0)  # cluster time, as the leader last told it: the log's own is as old as its last frame
        self._time_of = Epoch(0)  # which leader's that is: one who comes later may have begun with less
        self.catch_up: CatchUp | None = None
        self._station = station
        self._is_matched = False  # this log is the leader's, up to its end
        self._committed = Lsn(0)  # as the leader says
        self._goal = NOWHERE  # the leader's log goes at least up to here
        self._ahead: dict[Place, Append] = {}
        self._asked: Instant | None = None  # when a Pull was sent that has not been answered
        self._at = Instant(0)  # when the leader sent the last of its Appends, by its clock
        self._misfits = 0  # in a row: bytes that do not follow what is here
        self._is_writing = False
        self._is_cutting = False
        self._is_preparing = False

    @property
    def is_settled(self) -> bool:
        """Everything received is durable, and nothing is under way."""
        return not (self._is_writing or self._is_cutting or self.log.has_pending)

    def fence(self) -> None:
        """A higher epoch was promised: what is not being written yet is forgotten, and a new leader has to be met."""
        self.log.drop_pending()
        self._is_matched = False
        self._ahead.clear()
        self._asked, self._goal, self._at = None, NOWHERE, Instant(0)
        if self.catch_up is not None:  # the old files are gone, the new ones not there yet
            self._station.end()

    # The leader's messages, of the epoch that was promised

    def append(self, sender: HostId, message: Append) -> None:
        self._meet(sender)
        self._at = max(self._at, message.at)
        if message.epoch != self._time_of:
            self._time_of, self.time = message.epoch, Instant(0)
        self.time = max(self.time, message.time)
        if self._is_cutting or self.catch_up is not None:
            return
        end = self.log.end
        self._goal = max(self._goal, message.before)
        if message.before == end:
            self._follow(message)
        elif message.before > end and message.data:
            if len(self._ahead) < AHEAD_MAX:
                self._ahead[message.before] = message
            self.pull(sender)
        elif message.before < end and self._is_matched:
            self._acknowledge()  # it came twice, or was overtaken
        else:
            self.pull(sender)

    def adopt(self, sender: HostId, message: Append) -> None:
        """What this host, a candidate, has asked another member for. It is no order, and not acknowledged."""
        self._asked = None
        if message.before == self.log.end and not self._accept(message) and self.log.has_pending:
            self._write()
        if message.data:
            self.pull(sender)

    def _meet(self, sender: HostId) -> None:
        self.leader, self.heard = sender, self._station.now

    def _follow(self, message: Append) -> None:
        self._is_matched, self._asked = True, None
        if problem := self._accept(message):
            self._misfits += 1
            self._station.notice(NoticeKind.DAMAGED, f"what follows lsn {self.log.end.lsn} does not fit: {problem}")
            self._station.send(self.leader, Doubt(self._station.promise, message.stem))
            self.pull(self.leader, is_lost=self._misfits >= MISFITS_MAX)
            return
        self._misfits = 0
        while (following := self._ahead.pop(self.log.end, None)) is not None:
            self._accept(following)
        if self._ahead:
            self._ahead = {place: each for place, each in self._ahead.items() if place > self.log.end}
        self._committed = max(self._committed, message.committed)
        self.log.commit(self._committed)
        if self.log.has_pending:
            self._write()
        else:
            self._acknowledge()
        if message.data and self.log.end < self._goal:
            self.pull(self.leader)

    def _accept(self, message: Append) -> str:
        return self.log.accept(message.stem, message.data, message.key) if message.data else ""

    def pull(self, host: HostId, *, is_lost: bool = False) -> None:
        """Asks for what follows, unless that was done just now."""
        now = self._station.now
        if self._asked is None or now - self._asked >= PULL_AFTER:
            self._asked = now
            self._station.send(host, Pull(self._station.promise, self.log.end, is_lost))

    def cut(self, sender: HostId, message: Cut) -> None:
        self._meet(sender)
        log = self.log
        is_old = message.end != log.end or log.epoch >= message.epoch
        if is_old or not self.is_settled or self.catch_up is not None:
            return
        self._asked = None
        place = log.find(message.stem, message.offset)
        if place is None:
            self.pull(sender, is_lost=True)
            return
        self._note_loss(place.lsn)
        self._is_cutting, self._is_matched = True, False

        def begin() -> Begun:
            return log.cut(place, self._station.promise), ()

        def done(_: None) -> None:
            self._is_cutting = False
            self.pull(sender)

        self._station.enqueue(begin, done)

    def _note_loss(self, after: Lsn) -> None:
        """Nobody was told of what is cut off, except by asynchronous queues: those get to know what it was."""
        station, end = self._station, self.log.end
        lost = f"lsn {after + 1}–{end.lsn} were never committed and go into quarantine"
        station.notice(NoticeKind.TRUNCATED, lost, first=after + 1, last=end.lsn)
        if self.log.has_async and end.lsn > after:
            loss = LossRecord(self.log.epoch, after, last=end.lsn)
            note = Put(loss_key(station.shard, loss.epoch, station.me.host), encode(loss))
            station.transact(Transaction((), (note,)), lambda _: None)

    def restart(self, sender: HostId, message: Restart) -> None:
        self._meet(sender)
        if message.end == self.log.end and self.is_settled and self.catch_up is None:
            sealed = self._sealed()
            if sealed is not None and self.log.end.lsn > sealed:
                self._note_loss(sealed)
            self.catch_up = CatchUp(self._station, sender, message)

    def _sealed(self) -> Lsn | None:
        """Where the epoch that this log ends in was sealed. None: the record does not say any more."""
        record, epoch = self._station.record, self.log.epoch
        ranges = record.ranges if record is not None else ()
        return next((each.end for each in ranges if each.epoch == epoch), None)

    def chunk(self, sender: HostId, message: Chunk) -> None:
        self._meet(sender)
        if self.catch_up is not None:
            self.catch_up.chunk(sender, message)

    # The disk

    def _write(self) -> None:
        if self._is_writing:
            return
        self._is_writing = True
        place = self.log.durable

        def begin() -> Begun:
            nonlocal place
            if not self.log.has_pending:  # forgotten meanwhile
                return perform(()), ()
            work, place = self.log.flush()
            return work, ((self.leader, self._ack(place)),) if self._is_matched else ()

        def done(_: None) -> None:
            self._is_writing = False
            self.log.synced(place)
            self.log.commit(self._committed)
            if self.log.has_pending:
                self._write()
            self._prepare()

        self._station.enqueue(begin, done)

    def _prepare(self) -> None:
        """Zeros for the next segment, while the present one fills."""
        if self._is_preparing or self.log.has_spare or self.log.end.offset < self._station.segment_bytes // 4:
            return
        self._is_preparing = True

        def done(_: None) -> None:
            self._is_preparing = False
            self.log.has_spare = True

        self._station.read(make_zeros(segment_path(SPARE), self._station.segment_bytes), done)

    def _acknowledge(self) -> None:
        self._station.send(self.leader, self._ack(self.log.durable))

    def _ack(self, durable: Place) -> Ack:
        return Ack(self._station.promise, self._station.me.life, durable, self._at, self.log.covered)
