"""The contents of messages: those sent lately from memory, the others from the log.

A receive needs what the core does not keep. Recent messages are in a bounded table; the rest is read where the page
cache has it, at once, and otherwise by a reader thread, while the receive that waits for it is an entry in a list.

A message whose bytes are damaged is never served. The place is named in the log, and the answer has None for it: the
others of the queue, and all other queues, go on.
"""

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Executor, Future
from functools import partial
from pathlib import Path
from typing import Any, Final

from holdfast.backend.disk import Disk
from holdfast.core.errors import CorruptLog
from holdfast.core.log.archive import Found, IndexNeeded, Location
from holdfast.core.log.files import Read
from holdfast.core.log.index import SegmentIndex
from holdfast.core.log.journal import Journal
from holdfast.core.log.segment import key_path, segment_path
from holdfast.core.log.segment_files import load_index
from holdfast.core.queue.cipher import Cipher
from holdfast.core.queue.codec import decode_message, open_sent
from holdfast.core.queue.command import Need
from holdfast.core.queue.record import NO_DIGEST, Message, Sent
from holdfast.core.types import LaneId, Lsn, WallMs
from holdfast.runtime.crypto import KeyFileError, MasterKey
from holdfast.runtime.letter import Letter, PlainLetters
from holdfast.runtime.logs import log

CACHE_BYTES: Final = 67_108_864  # contents of messages sent lately
SHELF_BITS: Final = 4
SHELF_MASK: Final = 15
SHELF_HALF: Final = SHELF_MASK + 1
_EMPTY_SHELF: Final[list[Any]] = [None] * (2 * SHELF_HALF)  # never written to
LETTER_BYTES: Final = 150  # what one costs besides its content
INDEXES_MAX: Final = 4  # of sealed segments, about 6 MiB each
SPAN_BYTES: Final = 1_048_576  # read at once, at most, when messages lie beside each other
RUN_BYTES: Final = 65_536  # the same when there is no waiting for it, and the last of them are only expected
HELD_BYTES: Final = 4_194_304  # of those, at most
AHEAD_BYTES: Final = 2_097_152  # asked of the system behind a read that it had to wait for: about two thousand messages
GAP_BYTES: Final = 4096  # between two of them: a frame's head, or short records of other queues

Place = tuple[LaneId, Lsn]  # where a message's bytes are: its lane, and Header.at
Wanted = Sequence[Place]
Span = tuple[Read, list[Location]]  # one read, and the messages in it


class LetterCache:
    """By log position, which only rises. They stand on shelves, each for a few positions; the oldest shelf goes first,
    and the last one stays.

    A shelf has two halves. The first holds letters, or only the content of one that has no more than that and a time;
    the time is in the other half then. Most are never asked for, and a letter costs when it is made and when it goes.
    """

    __slots__ = ("_bytes", "_bytes_max", "_last", "_order", "_shelf", "_shelves", "_used")

    def __init__(self, bytes_max: int = CACHE_BYTES) -> None:
        self._shelves: dict[int, list[Any]] = {}
        self._order: deque[tuple[int, int]] = deque()  # numbers of shelves that are no longer filled, and their bytes
        self._shelf: list[Any] = []  # the one that is filled
        self._last = -1  # its number
        self._used = 0  # its bytes
        self._bytes = 0  # of all others
        self._bytes_max = bytes_max

    def put(self, at: Lsn, letter: Letter) -> None:
        if at >> SHELF_BITS != self._last:
            self._begin(at >> SHELF_BITS)
        self._shelf[at & SHELF_MASK] = letter
        self._used += len(letter.content) + LETTER_BYTES
        self._make_room()

    def put_all(self, first: Lsn, contents: list[bytes], wall: WallMs) -> None:
        """Letters of log positions that follow each other."""
        at: int = first
        stamp: Any = wall  # one object for all of them
        for content in contents:
            if at >> SHELF_BITS != self._last:
                self._begin(at >> SHELF_BITS)
            self._shelf[at & SHELF_MASK] = content
            self._shelf[(at & SHELF_MASK) + SHELF_HALF] = stamp
            self._used += len(content) + LETTER_BYTES
            at += 1
        self._make_room()

    def _make_room(self) -> None:
        while self._bytes + self._used > self._bytes_max and self._order:
            number, used = self._order.popleft()
            del self._shelves[number]
            self._bytes -= used

    def _begin(self, number: int) -> None:
        if self._last >= 0:
            self._order.append((self._last, self._used))
        self._bytes += self._used
        self._last, self._used = number, 0
        self._shelf = self._shelves[number] = [None] * (2 * SHELF_HALF)

    def get_all(self, places: Iterable[int]) -> list[Letter | None]:
        """Of these log positions; neighbours stand on one shelf."""
        found: list[Letter | None] = []
        last, shelf = -1, _EMPTY_SHELF
        for at in places:
            if at >> SHELF_BITS != last:
                last = at >> SHELF_BITS
                shelf = self._shelves.get(last, _EMPTY_SHELF)
            held: Any = shelf[at & SHELF_MASK]
            found.append(Letter(held, shelf[(at & SHELF_MASK) + SHELF_HALF]) if type(held) is bytes else held)
        return found

    def get_plain(self, places: Iterable[int]) -> PlainLetters | None:
        """As `get_all`, if only contents stand there."""
        contents: list[bytes] = []
        walls: list[WallMs] = []
        last, shelf = -1, _EMPTY_SHELF
        for at in places:
            if at >> SHELF_BITS != last:
                last = at >> SHELF_BITS
                shelf = self._shelves.get(last, _EMPTY_SHELF)
            held: Any = shelf[at & SHELF_MASK]
            if type(held) is not bytes:
                return None
            contents.append(held)
            walls.append(shelf[(at & SHELF_MASK) + SHELF_HALF])
        return PlainLetters(contents, walls)


class Reader:
    """Reads messages and indexes of one shard. Belongs to the loop; its own thread does what takes long.

    `on_done` of every request is called in the loop, at once or later.
    """

    def __init__(
        self,
        root: Path,
        journal: Journal,
        master: MasterKey,
        *,
        thread: Executor,
        to_loop: Callable[..., Any],
        fail: Callable[[BaseException], None],
    ) -> None:
        self.cache = LetterCache()
        self._journal = journal
        self._master = master
        self._at_once = Disk(root)  # used in the loop
        self._in_thread = Disk(root)  # used in the thread
        self._threads = thread
        self._to_loop = to_loop
        self._fail = fail
        self._indexes: dict[str, SegmentIndex] = {}  # loaded ones, least recently loaded first
        self._loading: dict[str, list[Callable[[], None]]] = {}  # by stem: who waits for its index
        self._ciphers: dict[str, Cipher] = {}  # of segments of earlier starts
        self._held: dict[int, Letter] = {}  # by log position: read together with others, and not asked for yet
        self._held_bytes = 0  # how much was read since this was empty

    def close(self) -> None:
        self._at_once.close()
        self._in_thread.close()

    # letters

    def at_once(self, lane: LaneId, ats: list[Any]) -> Sequence[Letter] | None:
        """Of messages of one lane, if they can be had without waiting. None: one cannot, or is damaged: `letters`."""
        plain = self.cache.get_plain(ats)
        if plain is not None:
            return plain
        found = self.cache.get_all(ats)
        if None in found:
            found = self._with_held(ats, found)
            missing = [at for at, letter in zip(ats, found, strict=True) if letter is None]
            if missing and not self._read_run(lane, missing):
                return None
            found = self._with_held(ats, found) if missing else found
        return found  # type: ignore[return-value]  # mypy does not see that none is None

    def _with_held(self, ats: list[Any], found: list[Letter | None]) -> list[Letter | None]:
        held = self._held
        return [letter if letter is not None else held.pop(at, None) for at, letter in zip(ats, found, strict=True)]

    def letters(self, wanted: Wanted, on_done: Callable[[list[Letter | None]], None]) -> None:
        """None: that message is damaged."""
        cached = self.cache.get_all([at for _, at in wanted])
        missing = [place for place, letter in zip(wanted, cached, strict=True) if letter is None]
        done = partial(_merge, cached, on_done)
        self._locate(missing, [], lambda located: self._read(missing, located, _decode_letter, done))

    def _read_run(self, lane: LaneId, ats: list[Any]) -> bool:
        """Neighbours that the page cache has, as the messages of a receive from a deep queue mostly are, and those that
        will be asked for next: they are held until then. False: there is more to it, or one of them is damaged."""
        run = self._journal.locate_run(lane, ats, self._indexes, RUN_BYTES)
        if run is None:
            return False
        _, offsets, lengths = run.places
        first = offsets[0]
        size = offsets[-1] + lengths[-1] - first
        if size > RUN_BYTES and (size > SPAN_BYTES or size - sum(lengths) > GAP_BYTES * len(ats)):
            return False
        data = self._at_once.read_now(run.path, first, size)
        if data is None:
            return False
        try:
            contents, walls = open_sent(data, first, run.places, run.epoch, cipher=self.cipher(run.stem))
        except CorruptLog:
            return False
        self._hold(run.places[0], [Letter(content, wall) for content, wall in zip(contents, walls, strict=True)], size)
        return len(contents) >= len(ats)

    def _hold(self, ats: Sequence[int], letters: list[Letter], size: int) -> None:
        """Those that nobody came for go when many have come after them."""
        self._held_bytes += size
        if self._held_bytes > HELD_BYTES:
            self._held.clear()
            self._held_bytes = size
        self._held.update(zip(ats, letters, strict=False))

    def messages(self, wanted: Wanted, on_done: Callable[[list[Message | None]], None]) -> None:
        """Whole records, read from the log. None: that one is damaged."""
        self._locate(wanted, [], lambda located: self._read(wanted, located, _decode_whole, on_done))

    def _locate(self, wanted: Wanted, located: list[Location], on_done: Callable[[list[Location]], None]) -> None:
        """One after the other: together they may need more indexes than are kept."""
        for lane, at in wanted[len(located) :]:
            place = self._journal.locate(lane, at, self._indexes)
            if isinstance(place, IndexNeeded):
                self._load_index(place.stem, lambda: self._locate(wanted, located, on_done))
                return
            located.append(place)
        on_done(located)

    def _read(
        self,
        wanted: Wanted,
        located: list[Location],
        decode: Callable[[bytes, Location, Lsn, Cipher], Any],
        on_done: Callable[[list[Any]], None],
    ) -> None:
        spans = spanned(located)
        data: list[bytes] = []
        for span, _ in spans:
            read = self._at_once.read_now(span.path, span.offset, span.length)
            if read is None:
                break
            data.append(read)
        else:
            on_done(self._open(wanted, spans, data, decode))
            return
        self._later(
            lambda: self._fetch([span for span, _ in spans]),
            lambda data: on_done(self._open(wanted, spans, data, decode)),
        )

    def _fetch(self, reads: list[Read]) -> list[bytes]:
        """In the thread. What is wanted next lies behind the last of them: the system may begin to read it."""
        last = reads[-1]
        self._in_thread.expect(last.path, last.offset + last.length, AHEAD_BYTES)
        return [self._in_thread.execute(read) for read in reads]

    def _open(
        self,
        wanted: Wanted,
        spans: list[Span],
        data: list[bytes],
        decode: Callable[[bytes, Location, Lsn, Cipher], Any],
    ) -> list[Any]:
        """What `decode` makes of each; None: it is damaged, and it is said where."""
        opened: list[Any] = []
        for (span, within), read in zip(spans, data, strict=True):
            for place in within:
                lane, at = wanted[len(opened)]
                start = place.offset - span.offset
                try:
                    cipher = self.cipher(place.stem)
                    opened.append(decode(read[start : start + place.length], place, at, cipher))
                except (ValueError, IndexError, CorruptLog) as problem:
                    opened.append(None)
                    self._tell_damage(lane, at, place, problem)
        return opened

    def _tell_damage(self, lane: LaneId, at: Lsn, place: Location, problem: Exception) -> None:
        log.error(
            "a message is damaged and is not served; see docs/OPERATING.md",
            shard=self._journal.shard,
            lane=lane,
            lsn=at,
            file=place.path,
            bytes=f"{place.offset}-{place.offset + place.length}",
            reason=str(problem),
        )

    def cipher(self, stem: str) -> Cipher:
        cipher = self._journal.ciphers.get(stem) or self._ciphers.get(stem)
        if cipher is None:
            wrapped = self._at_once.execute(Read(key_path(stem), 0, 1024))
            try:
                cipher = self._ciphers[stem] = self._master.cipher(wrapped)
            except KeyFileError as problem:
                raise CorruptLog(f"{key_path(stem)}: {problem}") from None
        return cipher

    def forget(self, stem: str) -> None:
        """The segment is gone."""
        self._indexes.pop(stem, None)
        self._ciphers.pop(stem, None)
        self._at_once.forget(segment_path(stem))
        self._threads.submit(self._in_thread.forget, segment_path(stem))

    # headers

    def headers(self, need: Need, on_done: Callable[[Found], None]) -> None:
        found = self._journal.headers(need, self._indexes)
        if isinstance(found, IndexNeeded):
            self._load_index(found.stem, lambda: self.headers(need, on_done))
        else:
            on_done(found)

    def _load_index(self, stem: str, on_done: Callable[[], None]) -> None:
        """Once, for all that come for it meanwhile."""
        if stem in self._loading:
            self._loading[stem].append(on_done)
            return
        self._loading[stem] = [on_done]
        segment = next(each for each in self._journal.segments if each.stem == stem)

        def keep(index: SegmentIndex) -> None:
            if len(self._indexes) >= INDEXES_MAX:
                del self._indexes[next(iter(self._indexes))]
            self._indexes[stem] = index
            for done in self._loading.pop(stem):
                done()

        self._later(lambda: self._in_thread.run(load_index(self._journal.shard, segment)), keep)

    def _later(self, work: Callable[[], Any], on_done: Callable[[Any], None]) -> None:
        def finish(future: Future[Any]) -> None:
            self._to_loop(self._finish, future, on_done)

        self._threads.submit(work).add_done_callback(finish)

    def _finish(self, future: Future[Any], on_done: Callable[[Any], None]) -> None:
        problem = future.exception()
        if problem is not None:
            self._fail(problem)
        else:
            on_done(future.result())


def _merge(
    cached: list[Letter | None], on_done: Callable[[list[Letter | None]], None], letters: list[Letter | None]
) -> None:
    found = iter(letters)
    on_done([letter if letter is not None else next(found) for letter in cached])


def spanned(located: Iterable[Location]) -> list[Span]:
    """The reads that fetch these, in order: one for neighbours, which is what messages of a busy queue are."""
    groups: list[list[Location]] = []
    for place in located:
        if groups and _is_next(groups[-1], place):
            groups[-1].append(place)
        else:
            groups.append([place])
    return [(_around(group), group) for group in groups]


def _is_next(within: list[Location], place: Location) -> bool:
    first, last = within[0], within[-1]
    gap = place.offset - last.offset - last.length
    is_short = place.offset + place.length - first.offset <= SPAN_BYTES
    return place.path == last.path and 0 <= gap <= GAP_BYTES and is_short


def _around(within: list[Location]) -> Read:
    first, last = within[0], within[-1]
    return Read(first.path, first.offset, last.offset + last.length - first.offset)


def _decode_whole(data: bytes, place: Location, at: Lsn, cipher: Cipher) -> Message:
    return decode_message(data, place.epoch, at, cipher=cipher)


def _decode_letter(data: bytes, place: Location, at: Lsn, cipher: Cipher) -> Letter:
    contents, walls = open_sent(data, 0, ((at,), (0,), (len(data),)), place.epoch, cipher=cipher)
    if contents:
        return Letter(contents[0], walls[0])
    message = decode_message(data, place.epoch, at, cipher=cipher)
    if isinstance(message, Sent):
        return Letter(message.content, message.wall)
    message_id = b"" if message.message_id == NO_DIGEST else message.message_id
    return Letter(message.content, WallMs(message.wall), message_id, message.cause)
