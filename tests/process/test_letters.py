"""Contents that are read from the log, wherever their records lie: neighbours at once, the others one by one."""

import random
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from threading import Event

import pytest

from holdfast.backend import letters
from holdfast.backend.disk import Disk, make_folders
from holdfast.backend.letters import Reader
from holdfast.core.limits import RUN_COUNT_MAX, SEGMENT_BYTES
from holdfast.core.log.archive import Location
from holdfast.core.log.files import Work
from holdfast.core.log.index import SegmentIndex
from holdfast.core.log.journal import Journal
from holdfast.core.log.segment import SECTOR
from holdfast.core.log.segment_files import Segment, load_index, prepare_segment
from holdfast.core.queue.plain import SentAll
from holdfast.core.queue.record import NO_DIGEST, Sent
from holdfast.core.types import Epoch, Group, Instant, LaneId, Lsn, Seq, ShardId, WallMs
from holdfast.runtime.crypto import MasterKey
from holdfast.runtime.letter import Letter

LANES = (LaneId(1), LaneId(2))
SENDS = 300


class Log:
    """Messages of two lanes: batches, single ones, and some with more than a body."""

    def __init__(self, root: Path, *, segment_bytes: int = SEGMENT_BYTES) -> None:
        make_folders(root)
        self.root = root
        self.master = MasterKey(bytes(32))
        self.journal = Journal(ShardId(1), Epoch(3), segment_bytes=segment_bytes, reserve_bytes=SECTOR)
        self._segment_bytes = segment_bytes
        self.disk = Disk(root)
        self.letters: dict[tuple[LaneId, Lsn], Letter] = {}
        self._chance = random.Random("letters")
        self._fill()

    def _prepare(self) -> None:
        number = self.journal.start_spare()
        cipher, key = self.master.new_cipher()
        assert self.disk.run(prepare_segment(number, key=key, size=self._segment_bytes))
        self.journal.end_spare(cipher)

    def _fill(self) -> None:
        seqs = dict.fromkeys(LANES, 0)
        for turn in range(SENDS):
            if self.journal.wants_spare():
                self._prepare()
            self.journal.begin(Instant(turn + 1), WallMs(1000 + turn))
            lane = self._chance.choice(LANES)
            contents = [self._chance.randbytes(self._chance.choice((1, 30, 5000))) for _ in range(turn % 4 + 1)]
            first, at = seqs[lane] + 1, self.journal.next_lsn
            seqs[lane] += len(contents)
            sizes = [len(each) for each in contents]
            is_alone = turn % 3 == 0
            if is_alone or not self.journal.holds_all(sizes):
                for number, content in enumerate(contents):
                    group = Group(turn % 2)
                    self.journal.append(
                        Sent(lane, Seq(first + number), group, 1, 0, 0, WallMs(turn), NO_DIGEST, False, content)
                    )
            else:
                self.journal.append_plain(SentAll(lane, Seq(first), WallMs(turn), sizes, contents))
            for number, content in enumerate(contents):
                self.letters[lane, Lsn(at + number)] = Letter(content, WallMs(turn))
            if turn % 5 == 0:
                self._write()
        self._write()

    def _write(self) -> None:
        for operation in self.journal.flush():
            self.disk.execute(operation)
        self.journal.synced()


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Log:
    return Log(tmp_path_factory.mktemp("letters") / "shards" / "0001")


@pytest.fixture(scope="module")
def long_log(tmp_path_factory: pytest.TempPathFactory) -> Log:
    """In many segments; all but the last have their indexes in files only."""
    made = Log(tmp_path_factory.mktemp("letters") / "shards" / "0001", segment_bytes=64 * SECTOR)
    for stem in made.journal.sealed_without_index():
        made.disk.run(made.journal.write_index(stem))
        made.journal.indexed(stem)
    assert len(made.journal.segments) > 5
    return made


@pytest.fixture
def reader(log: Log) -> Iterator[Reader]:
    yield from reader_of(log)


@pytest.fixture
def long_reader(long_log: Log) -> Iterator[Reader]:
    yield from reader_of(long_log)


def reader_of(log: Log) -> Iterator[Reader]:
    """Whose thread's work is waited for."""

    def fail(problem: BaseException) -> None:
        raise problem

    with ThreadPoolExecutor(1) as thread:
        made = Reader(
            log.root,
            log.journal,
            log.master,
            thread=thread,
            to_loop=lambda work, *arguments: work(*arguments),
            fail=fail,
        )
        yield made
    made.close()


def read(reader: Reader, wanted: list[tuple[LaneId, Lsn]]) -> list[Letter | None]:
    """As a receive does."""
    answers: list[list[Letter | None]] = []
    lane, ats = wanted[0][0], [at for _, at in wanted]
    if all(each == lane for each, _ in wanted) and (at_once := reader.at_once(lane, ats)) is not None:
        return [*at_once]
    reader.letters(wanted, answers.append)
    while not answers:  # it comes from the thread
        reader._threads.submit(int).result(timeout=60)
    (answer,) = answers
    return answer


@pytest.mark.parametrize("seed", range(30))
def test_letters_are_what_was_sent_wherever_they_lie(log: Log, reader: Reader, seed: int) -> None:
    """Runs of one lane, runs with gaps, of both lanes, backwards; and some that the cache has."""
    chance = random.Random(seed)
    places = [place for place in log.letters if seed % 3 or place[0] == LANES[0]]
    start, step = chance.randrange(len(places) - 40), chance.choice((1, 1, 2, 7))
    wanted = places[start : start + 10 * step : step]
    if seed % 5 == 4:
        chance.shuffle(wanted)
    if seed % 2:
        for _, at in sorted(chance.sample(wanted, 3), key=lambda place: place[1]):
            reader.cache.put(at, Letter(b"cached", WallMs(7)))
    found = read(reader, wanted)
    cached = reader.cache.get_all([at for _, at in wanted])
    assert found == [held or log.letters[place] for held, place in zip(cached, wanted, strict=True)]


@contextmanager
def damaged(log: Log, reader: Reader, lane: LaneId, at: Lsn) -> Iterator[None]:
    place = log.journal.locate(lane, at, reader._indexes)
    assert isinstance(place, Location)
    path = log.root / place.path
    data = bytearray(path.read_bytes())
    end = place.offset + place.length - 1
    data[end] ^= 1
    path.write_bytes(data)
    try:
        yield
    finally:
        data[end] ^= 1
        path.write_bytes(data)


def test_a_damaged_neighbour_is_left_out_and_the_others_are_served(log: Log, reader: Reader) -> None:
    lane = LANES[0]
    wanted = [place for place in log.letters if place[0] == lane][100:110]
    with damaged(log, reader, lane, wanted[4][1]):
        found = read(reader, wanted)
    expected: list[Letter | None] = [log.letters[each] for each in wanted]
    expected[4] = None
    assert found == expected


def test_who_reads_in_order_gets_every_letter_and_few_reads_are_made(long_log: Log, long_reader: Reader) -> None:
    """By turns from both lanes, as many at a time as it may be, over all segments."""
    chance = random.Random("in order")
    left = {lane: [place for place in long_log.letters if place[0] == lane] for lane in LANES}
    held = 0
    while any(left.values()):
        lane = chance.choice([lane for lane in LANES if left[lane]])
        count = chance.randint(1, 10)
        wanted, left[lane] = left[lane][:count], left[lane][count:]
        held += all(at in long_reader._held for _, at in wanted)
        assert read(long_reader, wanted) == [long_log.letters[place] for place in wanted]
    assert held > 20, "some were read together with others before them"
    assert long_reader._held == {}, "what was asked for is not held any longer"


def test_letters_that_are_only_expected_and_damaged_do_no_harm_before_they_are_asked_for(
    long_log: Log, long_reader: Reader
) -> None:
    lane = LANES[0]
    places = [place for place in long_log.letters if place[0] == lane]
    read(long_reader, places[:1])  # now the index is there
    with damaged(long_log, long_reader, lane, places[5][1]):
        read(long_reader, places[1:2])
        assert read(long_reader, places[2:4]) == [long_log.letters[place] for place in places[2:4]]
        assert set(long_reader._held) == {places[4][1]}, "up to the damage"
        found = read(long_reader, places[4:8])
    assert found == [long_log.letters[place] if place != places[5] else None for place in places[4:8]]


def test_what_is_held_for_nobody_goes(long_log: Log, long_reader: Reader, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(letters, "HELD_BYTES", 1)
    lane = LANES[0]
    places = [place for place in long_log.letters if place[0] == lane]
    for first in range(0, 40, 2):
        assert read(long_reader, places[first : first + 2]) == [
            long_log.letters[place] for place in places[first : first + 2]
        ]
        assert len(long_reader._held) <= RUN_COUNT_MAX


def test_an_index_is_loaded_once_for_all_that_wait_for_it(
    long_log: Log, long_reader: Reader, monkeypatch: pytest.MonkeyPatch
) -> None:
    loaded: list[str] = []

    def load(shard: ShardId, segment: Segment) -> Work[SegmentIndex]:
        loaded.append(segment.stem)
        return load_index(shard, segment)

    monkeypatch.setattr(letters, "load_index", load)
    wanted = [place for place in long_log.letters if place[0] == LANES[0]][:3]
    answers: list[list[Letter | None]] = []
    gate = Event()
    long_reader._threads.submit(gate.wait)
    for _ in range(5):
        long_reader.letters(wanted, answers.append)
    gate.set()
    while len(answers) < 5:
        long_reader._threads.submit(int).result(timeout=60)
    assert answers == [[long_log.letters[place] for place in wanted]] * 5
    assert loaded == [long_log.journal.segments[0].stem]
