"""The mutants. Each function changes the core in this process for good; its first line says what it weakens."""

import struct
from collections.abc import Callable
from typing import Any, Final

import msgspec

from holdfast.core.limits import TIMER_STEP
from holdfast.core.log import compaction, journal, recovery, replay, segment_files, snapshot
from holdfast.core.log.files import SyncDir, Work
from holdfast.core.log.journal import Journal
from holdfast.core.log.primary import Primary
from holdfast.core.log.room import Lobby
from holdfast.core.log.segment import Damaged, Frame
from holdfast.core.queue import codec, handle, receive, shard, state
from holdfast.core.queue.command import Delete, Need, Receive
from holdfast.core.queue.record import Received, Refused
from holdfast.core.types import Instant, Lsn, ShardId
from tests.sim import request, runner

BEYOND: Final = Lsn(1 << 60)
NOTHING: Final = Refused(ShardId(99), 1)  # a record that matters to nobody
_HEAD: Final = struct.Struct("<IIIIIQqQQ")  # of a frame


def instead(where: Any, name: str) -> Callable[[Callable[..., Any]], None]:
    """Puts the decorated function in the place of `where.name`; its first parameter is what was there."""

    def put(function: Callable[..., Any]) -> None:
        old = getattr(where, name)

        def weakened(*args: Any, **more: Any) -> Any:
            return function(old, *args, **more)

        setattr(where, name, weakened)

    return put


# Replies


def acknowledge_before_fsync() -> None:
    """replies leave when their records are appended"""

    @instead(Primary, "replies")
    def _(_: Any, self: Any) -> list[Any]:
        ready, self._ready = list(self._ready), []
        for bound in (self._bound, self._bound_local):
            while bound:
                ready.append(bound.popleft()[1:])
        return ready


def empty_reply_leaves_early() -> None:
    """a reply that wrote nothing does not wait for what it was decided on"""

    @instead(Primary, "submit")
    def _(submit: Any, self: Any, *args: Any, **more: Any) -> None:
        self.before = self.journal.next_lsn
        submit(self, *args, **more)
        self.before = -1

    @instead(Primary, "_reply")
    def _(reply: Any, self: Any, token: Any, answer: Any, **more: Any) -> None:
        if token is not None and getattr(self, "before", -1) == self.journal.next_lsn:
            self._ready.append((token, answer))
        else:
            reply(self, token, answer, **more)


def delete_answered_early() -> None:
    """the reply to a delete does not wait for the disk"""

    @instead(Primary, "_decide")
    def _(decide: Any, self: Any, command: Any, token: Any, wait_s: int) -> None:
        decide(self, command, token, wait_s)
        if isinstance(command, Delete) and self._bound and self._bound[-1][1] is token:
            self._ready.append(self._bound.pop()[1:])


def arrival_answered_early() -> None:
    """the target of a move answers before it has committed the message"""

    @instead(Primary, "_reply")
    def _(reply: Any, self: Any, token: Any, answer: Any, **more: Any) -> None:
        if isinstance(token, request.Settling):
            self._ready.append((token, answer))
        else:
            reply(self, token, answer, **more)


# Decisions


def uncommitted_handed_out() -> None:
    """receives see messages that are not committed"""

    @instead(shard.Shard, "decide")
    def _(decide: Any, self: Any, command: Any, _: Any) -> Any:
        return decide(self, command, BEYOND)


def fifo_lease_not_logged() -> None:
    """a FIFO receive changes the state, and something else is written"""

    @instead(Primary, "_execute")
    def _(execute: Any, self: Any, command: Any) -> Any:
        lane = self.shard.lanes.get(command.lane) if isinstance(command, Receive) else None
        if lane is None or not lane.is_fifo:
            return execute(self, command)
        decided = self.shard.decide(command, self.committed)
        if isinstance(decided, Need):
            return decided
        for record in decided[0]:
            written = NOTHING if isinstance(record, Received) else record
            self.journal.append(written)
            self.shard.apply(written)
            if isinstance(record, Received):
                self.shard._effects[Received](record)
        return decided[1]


def foreign_receipt_accepted() -> None:
    """a receipt may name another message than the one at its place"""

    @instead(handle, "_refusal")
    def _(refusal: Any, lane: Any, receipt: Any, lease: Any) -> Any:
        return refusal(lane, msgspec.structs.replace(receipt, epoch=lease.epoch, lsn=lease.lsn), lease)


def lease_too_short() -> None:
    """the end of a lease is rounded down to the timers' grid"""

    @instead(receive, "on_grid")
    def _(_: Any, instant: int) -> Instant:
        return Instant(instant // TIMER_STEP * TIMER_STEP)


def outbox_before_commit() -> None:
    """departures are handed over before they are committed"""

    @instead(Primary, "outgoing")
    def _(outgoing: Any, self: Any, own: Any) -> Any:
        lsns = [entry.lsn for outbox in self.shard.outboxes.values() for entry in outbox.entries.values()]
        committed, self.journal.committed = self.journal.committed, max([self.journal.committed, *lsns])
        due = outgoing(self, own)
        self.journal.committed = committed
        return due


def arrivals_not_numbered() -> None:
    """a hand-over that came before is taken again"""

    @instead(shard, "decide_arrive")
    def _(decide: Any, *args: Any) -> Any:
        _, _, inboxes, command, _ = args
        inbox = inboxes.get(command.handover.source)
        if inbox is not None and command.handover.number == inbox.last:
            inbox.last -= 1
        return decide(*args)


# The log


def nonce_repeated() -> None:
    """only six bits of the lsn go into the nonce"""

    @instead(journal, "encode")
    def _(_: Any, record: Any, epoch: Any, lsn: int, *, cipher: Any) -> bytes:
        return codec.encode(record, epoch, Lsn(lsn & 63), cipher=cipher)

    for module in (compaction, runner):

        @instead(module, "decode_message")
        def _(_: Any, data: bytes, epoch: Any, lsn: int, *, cipher: Any) -> Any:
            return codec.decode_message(data, epoch, Lsn(lsn & 63), cipher=cipher)


def folders_not_synced() -> None:
    """a segment is put into use without syncing its folder"""

    @instead(Journal, "_put_into_use")
    def _(put: Any, self: Any, *args: Any) -> Any:
        return [op for op in put(self, *args) if not isinstance(op, SyncDir)]


def snapshot_past_commit() -> None:
    """a snapshot may cover what is written and not synced"""

    @instead(Journal, "sealed_upto")
    def _(sealed_upto: Any, self: Any) -> Any:
        return self.segments[-1].last if self.segments and self.is_flushing else sealed_upto(self)


def segment_unlinked_early() -> None:
    """segments go as soon as the newest snapshot covers them, whatever lives in them"""

    @instead(snapshot, "removable")
    def _(_: Any, segments: Any, **__: Any) -> tuple[str, ...]:
        return tuple(segment.stem for segment in segments[:-1])


# Recovery


def page_cache_is_trusted() -> None:
    """recovery does not write the tail again"""

    @instead(recovery, "write_again")
    def _(_: Any, __: Any) -> Work[None]:
        yield SyncDir("keys")


def torn_tail_accepted() -> None:
    """a frame's checksum is not looked at"""

    @instead(segment_files, "decode_frame")
    def _(decode_frame: Any, data: bytes, offset: int) -> Any:
        try:
            return decode_frame(data, offset)
        except Damaged:
            length, crc, *fields = _HEAD.unpack_from(data, offset) if len(data) - offset >= _HEAD.size else (0, 0)
            if length < _HEAD.size or offset + length > len(data):
                raise
            return Frame(*(length, crc, *fields, data[offset + 8 : offset + length]))


def rot_taken_for_a_torn_tail() -> None:
    """damage at the end of the log is cut off, whatever a later frame says"""

    @instead(replay, "judge")
    def _(judge: Any, *args: Any, **more: Any) -> Any:
        damage = judge(*args, **more)
        return msgspec.structs.replace(damage, is_rot=False) if damage is not None else None


def time_starts_anew() -> None:
    """cluster time begins at zero after a restart"""

    @instead(Journal, "__init__")
    def _(init: Any, self: Any, *args: Any, **more: Any) -> None:
        init(self, *args, **{**more, "stamp": Instant(0)})


def dedup_forgotten() -> None:
    """deduplication ids are not in snapshots, so a restart forgets the older ones"""

    @instead(state, "dump_lane")
    def _(dump_lane: Any, *args: Any) -> Any:
        return msgspec.structs.replace(dump_lane(*args), dedup=b"")


def sequence_restarts() -> None:
    """after a restart the last sequence number is given again"""

    def restart(lane: Any) -> None:
        lane.last_seq = max(0, lane.last_seq - 1)

    _at_start(restart)


def leases_forgotten() -> None:
    """a restart ends all leases"""

    def end(lane: Any) -> None:
        lane.elapse(Instant(1 << 61))

    _at_start(end)


def _at_start(change: Callable[[Any], None]) -> None:
    @instead(Primary, "__init__")
    def _(init: Any, self: Any, found: Any, log: Any) -> None:
        init(self, found, log)
        for lane in found.lanes.values():
            change(lane)


def tick_never_rests() -> None:
    """something is due at once, always, once a lane was looked after"""

    @instead(Primary, "deadline")
    def _(deadline: Any, self: Any) -> Instant | None:
        return self.shard.now if self._ticked else deadline(self)  # type: ignore[no-any-return]


def lobby_is_forgotten() -> None:
    """a send that waits for the next segment is never looked after"""

    @instead(Lobby, "leave")
    def _(_: Any, self: Any, *__: Any) -> list[Any]:
        self.clear()
        return []


WEAKENINGS: Final[dict[str, Callable[[], None]]] = {
    function.__name__.replace("_", "-"): function
    for function in (
        acknowledge_before_fsync,
        empty_reply_leaves_early,
        delete_answered_early,
        arrival_answered_early,
        uncommitted_handed_out,
        fifo_lease_not_logged,
        foreign_receipt_accepted,
        lease_too_short,
        outbox_before_commit,
        arrivals_not_numbered,
        nonce_repeated,
        folders_not_synced,
        snapshot_past_commit,
        segment_unlinked_early,
        page_cache_is_trusted,
        torn_tail_accepted,
        rot_taken_for_a_torn_tail,
        time_starts_anew,
        dedup_forgotten,
        sequence_restarts,
        leases_forgotten,
        tick_never_rests,
        lobby_is_forgotten,
    )
}
