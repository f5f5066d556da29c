"""Compaction: what lives in an old segment is written again, no more, and then the segment can go."""

import random
from collections.abc import Container

import pytest

from holdfast.core.errors import CorruptLog
from holdfast.core.limits import STRETCH_BITS
from holdfast.core.log import compaction
from holdfast.core.log.archive import Found, IndexNeeded, Location
from holdfast.core.log.compaction import Choice, Compaction, Step
from holdfast.core.log.index import SegmentIndex
from holdfast.core.log.primary import Primary
from holdfast.core.log.recovery import recover
from holdfast.core.log.segment import segment_path
from holdfast.core.log.segment_files import Segment, load_index, prepare_segment
from holdfast.core.log.snapshot import advance_snapshot, remove_old
from holdfast.core.queue.codec import decode_message
from holdfast.core.queue.command import (
    Accepted,
    Command,
    Configure,
    Delete,
    Delivery,
    Done,
    Need,
    Receive,
    Send,
)
from holdfast.core.queue.record import NO_DIGEST, Moved, Record
from holdfast.core.queue.shard import Shard
from holdfast.core.types import Cause, Epoch, Header, Instant, LaneConfig, LaneId, Lsn, Receipt, WallMs
from tests.core.memory_disk import LANE, RESERVE, SEGMENT, SHARD, Book, Host, MemoryDisk, Plain, sent

STRETCH = 1 << STRETCH_BITS


def old_log() -> Host:
    """Two lanes in several sealed segments; of the first segment's messages few live."""
    host = Host(MemoryDisk())
    for _ in range(6):
        host.send(30)
        host.write(sent(host.seq, b"other", lane=LaneId(9)))
    host.write_indexes()
    host.delete(*(seq for seq in range(1, 80) if seq % 20))
    return host


def compaction_of(host: Host, segment: Segment, key: bytes | None = None) -> Compaction:
    cipher = Plain(key) if key is not None else host.journal.ciphers[segment.stem]
    return Compaction(SHARD, segment, live=host.book.live, cipher=cipher, is_alive=host.book.is_alive)


def steps(host: Host, machine: Compaction) -> list[Step]:
    made = [host.disk.run(machine.step())]
    while not made[-1].is_over:
        made.append(host.disk.run(machine.step()))
    return made


def submit(host: Host, made: list[Step]) -> int:
    """As the owner does: what is alive is written again."""
    count = 0
    for step in made:
        if step.compact is None:
            continue
        for header, message in step.compact.messages:
            assert host.book.is_alive(message.lane, header)
            copy: Record = Moved(message.lane, header, Cause.NONE, message.wall, NO_DIGEST, message.content)
            host.write(copy)
            count += 1
    return count


def content_at(host: Host, lane: LaneId, at: Lsn) -> bytes:
    place = host.journal.locate(lane, at)
    if isinstance(place, IndexNeeded):
        segment = next(each for each in host.journal.segments if each.stem == place.stem)
        place = host.journal.locate(lane, at, {place.stem: host.disk.run(load_index(SHARD, segment))})
    assert isinstance(place, Location)
    data = host.disk.get(place.path)[place.offset : place.offset + place.length]
    return decode_message(data, place.epoch, at, cipher=host.journal.ciphers[place.stem]).content


def test_the_living_messages_of_a_segment_and_only_they_are_written_again() -> None:
    host = old_log()
    segment = host.journal.segments[0]
    living = {key for key, header in host.book.messages.items() if header.at <= segment.last}
    made = steps(host, compaction_of(host, segment))
    moved = [(message.lane, header.seq) for step in made if step.compact for header, message in step.compact.messages]
    assert sorted(moved) == sorted(living)
    assert [lane for lane, _ in moved] == sorted(lane for lane, _ in moved)  # lane after lane
    assert submit(host, made) == len(living)
    for lane, seq in living:
        header = host.book.messages[lane, seq]
        assert header.at > segment.last
        assert content_at(host, lane, header.at) == (b"other" if lane == LaneId(9) else bytes([seq % 251]) * 100)
    assert [step.compact for step in steps(host, compaction_of(host, segment))] == [None]


def test_a_step_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    host = old_log()
    segment = host.journal.segments[1]
    whole = steps(host, compaction_of(host, segment))
    assert len(whole) == 1
    assert whole[0].compact is not None
    monkeypatch.setattr(compaction, "STEP_ENTRIES", 10)
    by_entries = steps(host, compaction_of(host, segment))
    monkeypatch.setattr(compaction, "STEP_ENTRIES", 512)
    monkeypatch.setattr(compaction, "STEP_BYTES", 500)
    by_bytes = steps(host, compaction_of(host, segment))
    for made in (by_entries, by_bytes):
        assert len(made) > 5
        assert all(len(step.compact.messages) <= 10 for step in made if step.compact)
        together = [each for step in made if step.compact for each in step.compact.messages]
        assert tuple(together) == whole[0].compact.messages


def test_a_message_that_dies_between_two_steps_is_not_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compaction, "STEP_ENTRIES", 10)
    host = old_log()
    segment = host.journal.segments[1]
    machine = compaction_of(host, segment)
    host.disk.run(machine.step())
    host.book.messages.clear()
    assert all(step.compact is None for step in steps(host, machine))


def test_a_damaged_index_is_no_obstacle() -> None:
    host = old_log()
    segment = host.journal.segments[0]
    whole = steps(host, compaction_of(host, segment))
    path = f"index/{segment.stem}.idx"
    data = host.disk.get(path)
    host.disk.put(path, data[:200] + b"?" + data[201:])
    assert steps(host, compaction_of(host, segment)) == whole


def test_a_damaged_segment_without_its_index_is_corrupt() -> None:
    host = old_log()
    segment = host.journal.segments[0]
    path = segment_path(segment.stem)
    data = host.disk.get(path)
    for at in (3, 700):
        disk = host.disk.copy()
        disk.put(path, data[:at] + b"?" + data[at + 1 :])
        disk.put(f"index/{segment.stem}.idx", b"")
        with pytest.raises(CorruptLog, match=f"{path} from byte .*sealed"):
            disk.run(compaction_of(host, segment).step())


def test_a_living_message_that_cannot_be_read_stops_the_host() -> None:
    host = old_log()
    segment = host.journal.segments[0]
    with pytest.raises(CorruptLog, match=rf"{segment_path(segment.stem)} bytes \d+–\d+, lsn 20: a living message"):
        steps(host, compaction_of(host, segment, b"another key"))


# --- choosing ------------------------------------------------------------------------------------------


def sealed(number: int, *, used: int = 1000, has_index_file: bool = True) -> Segment:
    first = Lsn(number * STRETCH or 1)
    last = Lsn((number + 1) * STRETCH - 1)
    return Segment(str(number), Epoch(1), first, last, used, has_index_file=has_index_file)


def pick(segments: list[Segment], live: dict[int, int], *, done: Container[str] = ()) -> Segment | None:
    """At the second look, nothing having changed."""
    choice = Choice()
    assert choice.pick(segments, live, done=done) is None
    chosen = choice.pick(segments, live, done=done)
    assert not choice.is_waiting
    return chosen


def test_the_oldest_segment_with_little_life_is_picked() -> None:
    log = [sealed(number) for number in range(4)]
    assert pick(log, {0: 251, 1: 250, 2: 9, 3: 1}) is log[1]
    assert pick(log, {0: 251, 1: 250, 2: 9}, done=("1",)) is log[2]


def test_dead_segments_full_ones_the_newest_and_those_without_index_are_not_picked() -> None:
    log = [sealed(0), sealed(1), sealed(2, has_index_file=False), sealed(3)]
    assert pick(log, {0: 0, 1: 999, 2: 1, 3: 1}) is None
    assert pick([], {}) is None


def test_a_segment_that_is_being_emptied_is_left_alone_until_it_rests() -> None:
    log, choice = [sealed(number) for number in range(3)], Choice()
    assert (choice.pick(log, {0: 200, 1: 260}, done=()), choice.is_waiting) == (None, True)
    assert (choice.pick(log, {0: 179, 1: 240}, done=()), choice.is_waiting) == (None, True)  # more than a tenth is gone
    assert (choice.pick(log, {0: 150, 1: 239}, done=()), choice.is_waiting) == (log[1], True)  # another one rests
    assert (choice.pick(log, {0: 149, 1: 239}, done=("1",)), choice.is_waiting) == (log[0], False)
    assert (choice.pick(log, {1: 239}, done=("0", "1")), choice.is_waiting) == (None, False)


def test_where_nothing_lives_nothing_is_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compaction, "STRETCH_BITS", 5)  # the first segment has three of these
    host = old_log()
    segment = host.journal.segments[0]
    live: dict[int, int] = {}
    for header in host.book.messages.values():
        live[header.at >> 5] = live.get(header.at >> 5, 0) + header.size
    del live[1]
    asked: list[int] = []

    def is_alive(lane: LaneId, header: Header) -> bool:
        asked.append(header.at)
        return host.book.is_alive(lane, header)

    machine = Compaction(SHARD, segment, live=live, cipher=host.journal.ciphers[segment.stem], is_alive=is_alive)
    made = steps(host, machine)
    moved = [header.at for step in made if step.compact for header, _ in step.compact.messages]
    assert moved == [header.at for header in living_in(host, segment) if header.at >> 5 != 1]
    assert moved
    assert {at >> 5 for at in asked} == {at >> 5 for at in range(segment.first, segment.last + 1)} - {1}


def living_in(host: Host, segment: Segment) -> list[Header]:
    """By lane, then by place."""
    found = [(lane, header.at, header) for (lane, _), header in host.book.messages.items() if header.at <= segment.last]
    return [header for _, _, header in sorted(found, key=lambda each: each[:2])]


def test_after_compaction_and_two_snapshots_the_segment_is_gone_and_its_messages_are_not() -> None:
    host = Host(MemoryDisk())
    host.send(40)
    while host.book.lsn < 2 * STRETCH:
        host.delete(*(seq for seq in range(1, 400) if seq != 7))
    host.write_indexes()
    chosen = pick(host.journal.segments, host.book.live)
    assert chosen is host.journal.segments[0]
    submit(host, steps(host, compaction_of(host, chosen)))
    gone: list[str] = []
    for _ in range(3):
        while host.book.lsn % STRETCH < STRETCH - 400:
            host.delete(*range(100, 500))
        host.delete(*range(100, 500))
        host.write_indexes()
        done = host.disk.run(advance_snapshot(SHARD, host.journal.sealed_upto(), machine=Book))
        assert done is not None
        for stem in done.stems:
            host.journal.forget(stem)
        host.disk.run(remove_old(done))
        gone += done.stems
    assert chosen.stem in gone
    again = Host(host.disk)
    header = again.book.messages[LANE, sent(7).seq]
    assert content_at(host, LANE, header.at) == bytes([7]) * 100


# --- the whole, with the shard itself -------------------------------------------------------------------


class Life:
    """A real shard on a disk in memory, run as a host runs it, with one standard queue."""

    def __init__(self, disk: MemoryDisk, own: int) -> None:
        self.disk = disk
        work = recover(SHARD, machine=Shard, identity=b"host", segment_bytes=SEGMENT, reserve_bytes=RESERVE)
        recovered = disk.run(work)
        self.shard, self.journal = recovered.shard, recovered.journal
        self.primary = Primary(self.shard, self.journal)
        self.own = max(own, self.journal.stamp)

    def submit(self, command: Command, token: object) -> None:
        if self.journal.wants_spare():
            number = self.journal.start_spare()
            key = f"{self.journal.epoch}.{number}".encode()
            assert self.disk.run(prepare_segment(number, key=key, size=SEGMENT))
            self.journal.end_spare(Plain(key))
        self.own += 1000
        self.primary.submit(command, token, Instant(self.own), WallMs(self.own))

    def answers(self) -> list[tuple[object, object]]:
        """Everything that can be answered, with all headers loaded that are asked for."""
        answers: list[tuple[object, object]] = []
        for _ in range(100):
            if ops := self.primary.flush():
                self.disk.do_all(ops)
                self.primary.synced()
            answers += self.primary.replies()
            needs = self.primary.needs()
            if not needs and self.journal.durable == self.journal.appended:
                break
            for need in needs:
                found = self.headers(need)
                self.primary.loaded(need, found.headers, found.upto, Instant(self.own), WallMs(0))
        return answers

    def headers(self, need: Need) -> Found:
        index: dict[str, SegmentIndex] = {}
        while isinstance(found := self.journal.headers(need, index), IndexNeeded):
            index = {found.stem: self.index(found.stem)}
        return found

    def index(self, stem: str) -> SegmentIndex:
        segment = next(each for each in self.journal.segments if each.stem == stem)
        return self.disk.run(load_index(SHARD, segment))

    def content(self, at: Lsn) -> bytes:
        place = self.journal.locate(LANE, at)
        if isinstance(place, IndexNeeded):
            place = self.journal.locate(LANE, at, {place.stem: self.index(place.stem)})
        assert isinstance(place, Location)
        data = self.disk.get(place.path)[place.offset : place.offset + place.length]
        cipher = Plain(self.disk.get(f"keys/{place.stem}.key"))
        return decode_message(data, place.epoch, at, cipher=cipher).content

    def receive(self, timeout_s: int) -> list[tuple[Receipt, bytes]]:
        self.submit(Receive(LANE, 10, timeout_s), "receive")
        ((_, answer),) = self.answers()
        assert isinstance(answer, Delivery)
        headers = [(each.header, each.number) for each in answer.messages]
        return [(Receipt(LANE, h.seq, h.epoch, h.lsn, number), self.content(h.at)) for h, number in headers]

    def compact_all(self) -> None:
        for stem in self.journal.sealed_without_index():
            self.disk.run(self.journal.write_index(stem))
            self.journal.indexed(stem)
        for segment in self.journal.segments[:-2]:
            cipher = Plain(self.disk.get(f"keys/{segment.stem}.key"))
            machine = Compaction(SHARD, segment, live=self.shard.live, cipher=cipher, is_alive=self.shard.is_alive)
            is_over = not segment.has_index_file
            while not is_over:
                step = self.disk.run(machine.step())
                is_over = step.is_over
                if step.compact is not None:
                    self.submit(step.compact, None)
                    self.answers()

    def snapshot(self) -> None:
        done = self.disk.run(advance_snapshot(SHARD, self.journal.sealed_upto(), machine=Shard))
        if done is not None:
            for stem in done.stems:
                self.journal.forget(stem)
            self.disk.run(remove_old(done))


def at_rest(shard: Shard) -> bytes:
    """Its state at one instant, whatever it was asked since the last record."""
    twin = Shard.restore(shard.dump())
    twin.begin(Epoch(99), Instant(10**12), WallMs(0))
    return twin.dump()


@pytest.mark.parametrize("seed", range(4))
def test_a_shard_keeps_its_messages_through_copies_snapshots_and_power_cuts(seed: int) -> None:
    chance, disk = random.Random(seed), MemoryDisk()
    kept: dict[bytes, None] = {}
    life = Life(disk, 0)
    life.submit(Configure(LANE, LaneConfig()), "configure")
    life.answers()
    for _ in range(4):
        for _ in range(chance.randrange(20, 40)):
            for _ in range(chance.randrange(12)):
                content = b"%d." % chance.getrandbits(64) + b"c" * chance.randrange(300)
                life.submit(Send(LANE, content, content, len(content)), content)
            for token, answer in life.answers():
                assert isinstance(answer, Accepted)
                kept[token] = None  # type: ignore[index]
            for receipt, content in life.receive(chance.choice((0, 1, 600))):
                assert content in kept
                if chance.random() < 0.5:
                    life.submit(Delete(LANE, receipt), "delete")
                    assert [type(answer) for _, answer in life.answers()] == [Done]
                    del kept[content]
            if chance.random() < 0.1:
                chance.choice((life.compact_all, life.snapshot))()
        life.submit(Send(LANE, b"unheard", b"unheard", 7), "unheard")
        ops = life.primary.flush()
        disk.do_all(ops[: chance.randrange(len(ops))])
        before = life
        disk.cut_power(lambda _: chance.random() < 0.5)
        life = Life(disk, life.own)
        if life.shard.lsn == before.shard.lsn:
            assert at_rest(life.shard) == at_rest(before.shard)
            kept[b"unheard"] = None
    life.own += 10**10
    received: dict[bytes, None] = {}
    while batch := life.receive(43_200):
        received |= dict.fromkeys(content for _, content in batch)
    assert kept.keys() <= received.keys() <= kept.keys() | {b"unheard"}
