"""Contents that are read from the log, wherever their records lie: neighbours at once, the others one by one."""

import random
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from holdfast.backend.disk import Disk, make_folders
from holdfast.backend.letters import Reader
from holdfast.core.limits import SEGMENT_BYTES
from holdfast.core.log.journal import Journal
from holdfast.core.log.segment_files import prepare_segment
from holdfast.core.queue.plain import SentAll
from holdfast.core.queue.record import NO_DIGEST, Sent
from holdfast.core.types import Epoch, Group, Instant, LaneId, Lsn, Seq, ShardId, WallMs
from holdfast.runtime.crypto import MasterKey
from holdfast.runtime.letter import Letter

LANES = (LaneId(1), LaneId(2))
SENDS = 300


class Log:
    """Messages of two lanes in one segment: batches, single ones, and some with more than a body."""

    def __init__(self, root: Path) -> None:
        make_folders(root)
        self.root = root
        self.master = MasterKey(bytes(32))
        self.journal = Journal(ShardId(1), Epoch(3))
        self.disk = Disk(root)
        self.letters: dict[tuple[LaneId, Lsn], Letter] = {}
        self._chance = random.Random("letters")
        number = self.journal.start_spare()
        cipher, key = self.master.new_cipher()
        assert self.disk.run(prepare_segment(number, key=key, size=SEGMENT_BYTES))
        self.journal.end_spare(cipher)
        self._fill()

    def _fill(self) -> None:
        seqs = dict.fromkeys(LANES, 0)
        for turn in range(SENDS):
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


@pytest.fixture
def reader(log: Log) -> Iterator[Reader]:
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
    answers: list[list[Letter | None]] = []
    reader.letters(wanted, answers.append)
    reader._threads.shutdown()  # the answer may come from the thread
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


def test_a_damaged_neighbour_is_left_out_and_the_others_are_served(log: Log, reader: Reader) -> None:
    lane = LANES[0]
    wanted = [place for place in log.letters if place[0] == lane][100:110]
    place = log.journal.locate(lane, wanted[4][1], {})
    path = log.root / place.path  # type: ignore[union-attr]  # it is in the segment that grows, whose index is there
    data = bytearray(path.read_bytes())
    middle = place.offset + place.length - 1  # type: ignore[union-attr]
    data[middle] ^= 1
    path.write_bytes(data)
    try:
        found = read(reader, wanted)
    finally:
        data[middle] ^= 1
        path.write_bytes(data)
    expected: list[Letter | None] = [log.letters[each] for each in wanted]
    expected[4] = None
    assert found == expected
