"""One shard in one life of a process: what a shell does around the core's Primary, in virtual time.

Recovery, then turns: commands are decided, one flush is under way, replies leave when the core gives them out. Beside
that, as machines that yield file operations: spare segments, indexes, snapshots, removal, compaction, cold reads.
"""

import errno
from collections.abc import Generator
from typing import TYPE_CHECKING, Any, Final

from holdfast.core.errors import CorruptLog
from holdfast.core.log.archive import Archive, Found, IndexNeeded, Location
from holdfast.core.log.compaction import Choice, Compaction
from holdfast.core.log.draft import Drafts
from holdfast.core.log.files import FileOp, Read, Work, Write
from holdfast.core.log.index import SegmentIndex
from holdfast.core.log.primary import Primary
from holdfast.core.log.recovery import Recovered, recover
from holdfast.core.log.segment import key_path
from holdfast.core.log.segment_files import load_index, prepare_segment
from holdfast.core.log.snapshot import Advanced, advance_snapshot, keep_snapshot, remove_old
from holdfast.core.queue.cipher import Cipher
from holdfast.core.queue.codec import decode_message
from holdfast.core.queue.columns import DeletedAll
from holdfast.core.queue.command import Arrive, ArriveReply, Command, Delivery, Handover, Need, Settle
from holdfast.core.queue.outbox import Entry, Outgoing
from holdfast.core.queue.receipt import message_id_bytes
from holdfast.core.queue.record import NO_DIGEST, Message, Sent
from holdfast.core.queue.shard import Shard
from holdfast.core.types import Header, Instant, LaneId, Lsn, ShardId
from tests.sim.cipher import KEY_BYTES, SimCipher, unwrap, wrap
from tests.sim.clock import OwnTime
from tests.sim.log import stamp_of_write
from tests.sim.request import Request, Settling, batches, columns_of
from tests.sim.world import MS, SECOND, Violation

if TYPE_CHECKING:
    from tests.sim.host import Host, Process

INDEXES_MAX: Final = 4  # of sealed segments in memory
LOADS_MAX: Final = 200  # indexes one question may need; more means that it is never answered
TURNS_MAX: Final = 4000  # of a loop in a second; more means that it spins
CHORES_EVERY: Final = 150 * MS
RETRY: Final = SECOND  # a full disk is tried again


class Runner:
    archive: Archive  # what it has of the log
    primary: Primary  # while it leads

    def __init__(self, process: "Process", host: "Host", shard: ShardId) -> None:
        self.process = process
        self.host = host
        self.world = host.world
        self.shard = shard
        self.inbox: list[Request] = []
        self.is_ready = False
        self._indexes: dict[str, SegmentIndex] = {}  # least recently loaded first
        self._ciphers: dict[str, Cipher] = {}
        self._internal: list[tuple[Command, Any]] = []
        self._is_waking = False
        self._turns = self._second = 0  # turns in the current second
        self._is_handing = False
        self._is_sparing = False
        self._alarm_at = 0
        self._stamp = 0
        self._snapshot_lsn = Lsn(0)
        self._compacted_at = Lsn(0)
        self._compacted: dict[str, None] = {}
        self._choice = Choice()
        self._drafts: Drafts | None = None  # of a shard without members
        self.reading = ""  # the segment that was looked into last

    # Start

    def recover(self) -> None:
        plan = self.host.plan
        work = recover(
            self.shard,
            machine=Shard,
            identity=b"sim",
            segment_bytes=plan.segment_bytes,
            reserve_bytes=plan.reserve_bytes,
        )
        self.process.run(self.shard, work, self._recovered)

    def _recovered(self, recovered: Recovered[Shard]) -> None:
        journal = self.archive = recovered.journal
        self.primary = Primary(recovered.shard, journal)
        self._drafts = Drafts(self.primary.shard, journal)
        self._time = OwnTime(self.host.clock, journal.stamp)
        self.host.witness.recovered(self.host, self.shard, self.primary)
        self.world.note(f"{self.shard} recovered lsn {journal.appended} torn {recovered.torn_bytes}")
        self._prepare_spare()

    def _serve(self) -> None:
        self.is_ready = True
        self.process.call(self.world.between(0, CHORES_EVERY), self._do_chores)
        self.wake()

    def own(self) -> Instant:
        """Cluster time, as it is counted here."""
        return self._time.now()

    # The loop

    def wake(self) -> None:
        """A turn follows, when all that arrives meanwhile is there."""
        if not self._is_waking:
            self._is_waking = True
            self.process.call(self.world.between(20, 200), self._turn)

    def _turn(self) -> None:
        self._is_waking = False
        self._count_turn()
        own, wall = self.own(), self.host.clock.wall()
        primary = self.primary
        inbox, self.inbox = self.inbox, []
        for request in inbox:
            request.begun, request.own_begun = self.world.now, own
            self.host.witness.begun(request)
        for batch in batches(inbox):
            if len(batch) > 1:
                columns = columns_of(batch)
                if columns is None or primary.submit_plain(columns, batch, own, wall) is None:
                    primary.submit_all([request.command for request in batch], batch, own, wall)
            else:
                primary.submit(batch[0].command, batch[0], own, wall, wait_s=batch[0].wait_s)
        internal, self._internal = self._internal, []
        for command, token in internal:
            primary.submit(command, token, own, wall)
        primary.tick(own, wall)
        self._flush()
        self._after()

    def _count_turn(self) -> None:
        second = self.world.now // SECOND
        self._turns = self._turns + 1 if second == self._second else 1
        self._second = second
        if self._turns > TURNS_MAX:
            raise Violation("liveness", f"the loop of shard {self.shard} spins")

    def tell(self, command: Command, token: Any) -> None:
        """A command from inside the host."""
        self._internal.append((command, token))
        self.wake()

    def cancel(self, request: Request) -> None:
        self.inbox = [each for each in self.inbox if each is not request]
        self.primary.cancel(request)

    def _flush(self) -> None:
        operations = self.primary.flush()
        if operations:
            written = next(op for op in operations if isinstance(op, Write))
            self._stamp = stamp_of_write(written.offset, written.data)
            self.process.run(self.shard, _in_turn(operations), self._synced)

    def _synced(self, _: None) -> None:
        self.primary.synced()
        self.host.witness.synced(self.host, self.shard, self.primary, self._stamp)
        self.primary.tick(self.own(), self.host.clock.wall())
        self._flush()
        self._after()

    def _after(self) -> None:
        primary = self.primary
        for token, answer in primary.replies():
            self._reply(token, answer)
        for need in primary.needs():
            self.process.run(self.shard, self._headers(need), lambda _: None)
        if primary.shard.outboxes:
            self._send_outgoing()
        if self.primary.journal.wants_spare() and not self._is_sparing:
            self._prepare_spare()
        self._arm()

    def _arm(self) -> None:
        """One alarm, moved only when it would ring too late."""
        at = self.world.now + self._time.until(self.primary.deadline())
        if not self.world.now <= self._alarm_at <= at:
            self._alarm_at = at
            self.process.call(at - self.world.now, self._ring, at)

    def _ring(self, at: int) -> None:
        if at == self._alarm_at:
            self._alarm_at = -1
            self.wake()

    # Replies

    def _reply(self, token: Any, answer: Any) -> None:
        if isinstance(token, list):
            for each, outcome in zip(token, answer.apart() if isinstance(answer, DeletedAll) else answer, strict=True):
                self._reply(each, outcome)
            return
        if isinstance(token, Settling):
            if isinstance(answer, ArriveReply):
                self._settle(token.source, answer)
            return
        request: Request = token
        request.own_ended = self.own()
        request.answer = answer
        if isinstance(answer, Delivery) and answer.messages:
            lane: LaneId = request.command.lane  # type: ignore[union-attr]
            headers = [each.header for each in answer.messages]
            messages = self.process.run_now(self.shard, self._messages([(lane, each.at) for each in headers]))
            pairs = zip(headers, messages, strict=True)
            request.contents = [(message.content, self._message_id(header, message)) for header, message in pairs]
        self.process.answer(request)

    def _message_id(self, header: Header, message: Message) -> bytes:
        if isinstance(message, Sent) or message.message_id == NO_DIGEST:
            return message_id_bytes(self.shard, header.epoch, header.lsn)
        return message.message_id

    # Reads. Those of a delivery take no time here, so that checkers see replies in the order of their decisions.

    def _messages(self, wanted: list[tuple[LaneId, Lsn]]) -> Work[list[Message]]:
        messages = []
        for lane, at in wanted:
            place = yield from self._locate(lane, at)
            self.reading = place.stem
            data = yield Read(place.path, place.offset, place.length)
            cipher = yield from self._cipher(place.stem)
            try:
                messages.append(decode_message(data, place.epoch, at, cipher=cipher))
            except ValueError as problem:
                raise CorruptLog(f"{place.path} byte {place.offset}: {problem}") from problem
        return messages

    def _locate(self, lane: LaneId, at: Lsn) -> Work[Location]:
        while isinstance(place := self.archive.locate(lane, at, self._indexes), IndexNeeded):
            yield from self._load_index(place.stem)
        return place

    def _headers(self, need: Need) -> Work[None]:
        found = yield from self._find_headers(need)
        self.primary.loaded(need, found.headers, found.upto, self.own(), self.host.clock.wall())
        self.wake()

    def _find_headers(self, need: Need) -> Work[Found]:
        loads = 0
        while isinstance(found := self.archive.headers(need, self._indexes), IndexNeeded):
            yield from self._load_index(found.stem)
            loads += 1
            if loads > LOADS_MAX:
                raise Violation("liveness", f"{need} asks for more indexes than memory holds, again and again")
        return found

    def _load_index(self, stem: str) -> Work[None]:
        segment = next(each for each in self.archive.segments if each.stem == stem)
        self.reading = stem
        index = yield from load_index(self.shard, segment)
        if len(self._indexes) >= INDEXES_MAX:
            del self._indexes[next(iter(self._indexes))]
        self._indexes[stem] = index

    def _cipher(self, stem: str) -> Work[Cipher]:
        cipher = self.archive.ciphers.get(stem) or self._ciphers.get(stem)
        if cipher is None:
            path = key_path(stem)
            cipher = SimCipher(unwrap((yield Read(path, 0, 1024)), path), self.host.seals)
            self._ciphers[stem] = cipher
        return cipher

    # Moves between shards

    def _send_outgoing(self) -> None:
        if self._is_handing or not any(outbox.entries for outbox in self.primary.shard.outboxes.values()):
            return
        due = self.primary.outgoing(self.own())
        if due:
            self._is_handing = True
            wanted = [(each.entry.lane, each.entry.header.at) for each in due]
            self.process.run(self.shard, self._departing(wanted), lambda messages: self._depart(due, messages))

    def _departing(self, wanted: list[tuple[LaneId, Lsn]]) -> Work[list[Message] | None]:
        return self._messages(wanted)

    def _depart(self, due: list[Outgoing], messages: list[Message] | None) -> None:
        assert messages is not None, "a host stops that cannot read them"
        self._is_handing = False
        world, plan = self.world, self.host.plan
        delay = world.between(100, 2 * MS)
        for outgoing, message in zip(due, messages, strict=True):
            handover = outgoing.handover(message)
            delay += 1
            for _ in range(1 + world.chance(plan.hand_over_twice)):
                if world.chance(plan.hand_over_loss) and not self.host.is_healed:
                    world.fault("hand-over lost")
                    continue
                late = world.between(0, 3 * SECOND) if world.chance(plan.hand_over_twice / 4) else 0
                self.process.call(delay + late, self._arrive, handover, outgoing.entry)

    def _arrive(self, handover: Handover, entry: Entry) -> None:
        target = self.process.runners[entry.target.shard]
        if target.is_ready:
            target.tell(Arrive(handover), Settling(self.shard))

    def _settle(self, source: ShardId, reply: ArriveReply) -> None:
        world, plan = self.world, self.host.plan
        if world.chance(plan.hand_over_loss) and not self.host.is_healed:
            world.fault("hand-over lost")
            return
        settle = Settle(reply.target, reply.number, reply.is_refused)
        for _ in range(1 + world.chance(plan.hand_over_twice)):
            self.process.call(world.between(100, 2 * MS), self.process.runners[source].tell, settle, None)

    # Spares

    def _prepare_spare(self) -> None:
        self._is_sparing = True
        number = self.primary.journal.start_spare()
        key, plan = self.world.rng.randbytes(KEY_BYTES), self.host.plan
        work = prepare_segment(number, key=wrap(key), size=plan.segment_bytes)
        delay = self.world.between(0, plan.spare_ms * MS) if plan.spare_ms else 0
        self.process.run(self.shard, work, lambda is_made: self.process.call(delay, self._spare, is_made, key))

    def _spare(self, is_made: bool, key: bytes) -> None:
        self.primary.journal.end_spare(SimCipher(key, self.host.seals) if is_made else None)
        if is_made:
            self._is_sparing = False
        else:
            self.process.call(RETRY, self._prepare_spare)
        if not self.is_ready:
            self._serve()

    # Indexes, snapshots, removal, compaction

    def _do_chores(self) -> None:
        self.process.run(self.shard, self._chores(), self._chores_done)

    def _chores_done(self, is_full: bool) -> None:
        pause = self.world.lazily(CHORES_EVERY)
        delay = RETRY if is_full else self.world.between(pause // 2, pause * 2)
        self.process.call(delay, self._do_chores)

    def _chores(self) -> Work[bool]:
        """One after the other. Answers whether the disk was full; then it is tried again later."""
        try:
            yield from self._write_indexes()
            yield from self._advance_snapshot()
            yield from self._compact()
        except OSError as problem:
            if problem.errno != errno.ENOSPC:
                raise
            return True
        return False

    def _write_indexes(self) -> Work[None]:
        for stem in self.archive.sealed_without_index():
            yield from self.archive.write_index(stem)
            self.archive.indexed(stem)

    def _advance_snapshot(self) -> Work[None]:
        draft = self._drafts.take() if self._drafts is not None else None
        if draft is not None:
            self.world.count("drafts kept")
            yield from self._advance(draft.head.lsn, keep_snapshot(draft.head, draft.body, draft.live))
            return
        upto = self.archive.sealed_upto()
        fresh = [each for each in self.archive.segments if self._snapshot_lsn < each.last <= upto]
        if len(fresh) >= self.host.plan.snapshot_every:
            yield from self._advance(upto, self._replay_aside(upto))

    def _replay_aside(self, upto: Lsn) -> Work[Advanced | None]:
        return advance_snapshot(self.shard, upto, machine=Shard)

    def _advance(self, upto: Lsn, work: Work[Advanced | None]) -> Work[None]:
        advanced = yield from work
        self._snapshot_lsn = upto
        if advanced is None:
            return
        self.world.note(f"{self.shard} snapshot {advanced.lsn} removes {len(advanced.stems)}")
        self.world.count("snapshots")
        self.world.count("segments removed", len(advanced.stems))
        self.archive.snapshotted(advanced.lsn)
        for stem in advanced.stems:
            self.archive.forget(stem)
            self._indexes.pop(stem, None)
        yield from remove_old(advanced)

    def _compact(self) -> Work[None]:
        if self.primary.journal.appended == self._compacted_at:
            return  # nothing has changed
        live = self.primary.shard.live
        segment = self._choice.pick(self.archive.segments, live, done=self._compacted)
        if segment is None:
            if not self._choice.is_waiting:
                self._compacted_at = self.primary.journal.appended
            return
        self.reading = segment.stem
        cipher = yield from self._cipher(segment.stem)
        compaction = Compaction(self.shard, segment, live=live, cipher=cipher, is_alive=self.primary.shard.is_alive)
        is_over = False
        while not is_over:
            step = yield from compaction.step()
            is_over = step.is_over
            if step.compact is not None:
                self.tell(step.compact, None)
                self.world.count("compactions")
        self._compacted[segment.stem] = None


def _in_turn(operations: tuple[FileOp, ...]) -> Generator[FileOp, Any, None]:
    yield from operations
