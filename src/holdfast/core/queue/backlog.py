"""The part of a lane that was never handed out: a stream that is read in order, mostly not in memory.

    done or leased │ held: passed over, one by one │ cursor │ window: loaded headers │ just log │ last

What must be remembered is small: the cursor, the few sequence numbers below it that were passed over (`held`) or above
it that are gone already (`gone`), where in the log to find the rest (`firsts` → `hints`, one pair per stretch of the
log) and how many bytes lie in each stretch. A run, from one of `firsts` to the next, lies in one stretch. The window
is a cache of headers: it can be dropped at any time and loaded again from the segments' indexes, so it is no part of
the replicated state.

Laws: only `append`, `take`, `remove`, `relocate`, `trim` and `park` change replicated state, and none of them needs
the window. Memory: about 40 bytes per 4096 messages.
"""

from array import array
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from heapq import heappop, heappush
from typing import Final

from holdfast.core.limits import IN_FLIGHT_MAX, LOAD_MAX, STRETCH_BITS, WINDOW_MAX
from holdfast.core.queue.command import Need
from holdfast.core.queue.wheel import NEVER
from holdfast.core.queue.window import Window
from holdfast.core.types import Header, Instant, LaneId, Lsn, Seq
from holdfast.core.untouched import UNTOUCHED, own

_NO_PLACES: Final = array("Q")  # shared by all lanes without a backlog, replaced by the first message
_NO_TIMES: Final = array("q")
COPIED: Final = 1 << 63  # in a hint: what is found from there on are copies that compaction made, and no others


class Backlog:
    __slots__ = (
        "bytes_at",
        "count",
        "cursor",
        "deadline",
        "firsts",
        "gone",
        "held",
        "hints",
        "is_grouped",
        "lane",
        "last",
        "times",
        "window",
    )

    def __init__(self, lane: LaneId, *, is_grouped: bool) -> None:
        self.lane = lane
        self.is_grouped = is_grouped
        self.cursor = Seq(1)  # nothing from here on was handed out
        self.last = Seq(0)
        self.count = 0
        self.held: dict[Seq, None] = UNTOUCHED
        self.gone: dict[Seq, None] = UNTOUCHED
        self.firsts = _NO_PLACES  # from this sequence number on …
        self.hints = _NO_PLACES  # … messages are found from this log position on
        self.times = _NO_TIMES  # and none of them was queued before this instant
        self.bytes_at: dict[int, int] = UNTOUCHED  # stretch of the log -> bytes of messages there
        self.deadline = NEVER  # no time to live here ends before this instant
        self.window: Window | None = None

    # Replicated state

    def append(self, header: Header) -> None:
        seq = header.seq
        stretch = header.at >> STRETCH_BITS
        if not self.firsts:
            self.firsts, self.hints, self.times = array("Q"), array("Q"), array("q")
            self.bytes_at = {}
        self.bytes_at[stretch] = self.bytes_at.get(stretch, 0) + header.size
        if self.count and self.hints[-1] >> STRETCH_BITS == stretch:
            self.times[-1] = min(self.times[-1], header.time)
        else:
            self.firsts.append(seq)
            self.hints.append(header.at)
            self.times.append(header.time)
        window = self.window
        if not self.count:
            self.deadline = NEVER
            if window is None:
                window = self.window = Window(seq)
        if header.deadline and header.deadline < self.deadline:
            self.deadline = header.deadline
        self.count += 1
        self.last = seq
        if window is not None and window.next == seq and len(window.queue) < WINDOW_MAX:
            window.next = Seq(seq + 1)
            if self.is_grouped or header.deadline:
                window.add(header, is_grouped=self.is_grouped, is_held=False)
            else:
                window.tail = header
                window.queue.append(header)

    def keeps(self, seq: Seq, first: Lsn, last: Lsn) -> int:
        """Of how many messages that come together, from `seq` on, headers are needed: by the window, or by `append`."""
        if not self._is_one_run(first, last):
            return last - first + 1
        window = self.window
        return max(0, WINDOW_MAX - len(window.queue)) if window is not None and window.next == seq else 0

    def _is_one_run(self, first: Lsn, last: Lsn) -> bool:
        stretch = last >> STRETCH_BITS
        is_growing = self.count > 0 and not self.is_grouped
        return is_growing and first >> STRETCH_BITS == stretch == self.hints[-1] >> STRETCH_BITS

    def append_run(self, headers: Sequence[Header], last: Header, *, count: int, size: int) -> None:
        """As `append` of `count` messages that follow each other, were queued at one instant, and have `size` bytes in
        all and no time to live. `headers`: of the first ones, as many as it `keeps`."""
        if not self._is_one_run(Lsn(last.at - count + 1), last.at):
            for header in headers:
                self.append(header)
            return
        stretch = last.at >> STRETCH_BITS
        self.bytes_at[stretch] = self.bytes_at.get(stretch, 0) + size
        self.times[-1] = min(self.times[-1], last.time)
        self.count += count
        self.last = last.seq
        if headers and self.window is not None:
            self.window.next = Seq(headers[-1].seq + 1)
            self.window.tail = headers[-1]
            self.window.queue.extend(headers)

    def skip(self, seq: Seq) -> None:
        """This sequence number is not part of the stream: it waits elsewhere."""
        if self.window is not None and self.window.next == seq:
            self.window.next = Seq(seq + 1)
        if not self.count:
            self.cursor = Seq(seq + 1)
        self.last = seq

    def park(self, seqs: Iterable[Seq]) -> None:
        self.held = own(self.held)
        for seq in seqs:
            self.held[seq] = None

    def take(self, header: Header) -> None:
        """Handed out. Everything between the cursor and it has been parked or is gone."""
        stretch = header.at >> STRETCH_BITS
        left = self.bytes_at[stretch] - header.size
        if left:
            self.bytes_at[stretch] = left
        else:
            del self.bytes_at[stretch]
        self.count -= 1
        seq = header.seq
        if seq >= self.cursor:
            self._advance(Seq(seq + 1))
        else:
            del self.held[seq]
        window = self.window
        if window is None:
            return
        if window.queue and window.queue[0].seq == seq and not self.is_grouped:
            window.queue.popleft()
        else:
            window.discard(header, self.cursor)

    def is_running(self) -> bool:
        """Is what waits just what follows the cursor, and the window with it?"""
        window = self.window
        if self.is_grouped or self.held or self.gone:
            return False
        return window is None or not window.queue or window.queue[0].seq == self.cursor

    def take_run(self, count: int, sizes: dict[int, int]) -> None:
        """As `take` of each of the next `count` messages, if `is_running`. `sizes`: their bytes by stretch."""
        for stretch, size in sizes.items():
            self._forget(stretch, size, 0)
        self.count -= count
        self._advance(Seq(self.cursor + count))
        if self.window is not None:
            queue = self.window.queue
            for _ in range(min(count, len(queue))):
                queue.popleft()

    def remove(self, header: Header) -> None:
        """Gone without being handed out; others before it may still wait."""
        self._forget(header.at >> STRETCH_BITS, header.size, 1)
        seq = header.seq
        if seq == self.cursor:
            self._advance(Seq(seq + 1))
        elif seq > self.cursor:
            self.gone = own(self.gone)
            self.gone[seq] = None
        else:
            del self.held[seq]
        if self.window is not None:
            self.window.discard(header, self.cursor)

    def trim(self, last: Seq, stretch: int, *, count: int, size: int) -> None:
        """Everything up to `last` is gone. O(messages loaded)."""
        self._forget(stretch, size, count)
        for seq in [seq for seq in self.held if seq <= last]:
            del self.held[seq]
        if last >= self.cursor:
            self._advance(Seq(last + 1))
        window = self.window
        if window is not None:
            for header in [*window.parked.values(), *window.queue]:
                if header.seq <= last:
                    window.discard(header, self.cursor)
            window.next = max(window.next, self.floor())

    def relocate(self, old: Header, new: Header) -> None:
        """Compaction wrote the message again at the end of the log."""
        self._forget(old.at >> STRETCH_BITS, old.size, 0)
        stretch = new.at >> STRETCH_BITS
        self.bytes_at[stretch] = self.bytes_at.get(stretch, 0) + new.size
        self._map(new)
        self.window = None

    def clear(self) -> None:
        self.count = 0
        self.cursor = Seq(self.last + 1)
        self.held.clear()
        self.gone.clear()
        self.bytes_at = UNTOUCHED
        self.firsts, self.hints, self.times = _NO_PLACES, _NO_PLACES, _NO_TIMES
        self.window = None

    def restore(self, firsts: Sequence[int], hints: Sequence[int], times: Sequence[int]) -> None:
        """Where the messages are, out of a snapshot. What is shared while there are none stays so."""
        if firsts:
            self.firsts, self.hints, self.times = array("Q", firsts), array("Q", hints), array("q", times)

    def _forget(self, stretch: int, size: int, count: int) -> None:
        left = self.bytes_at[stretch] - size
        if left:
            self.bytes_at[stretch] = left
        else:
            del self.bytes_at[stretch]
        self.count -= count

    def _advance(self, cursor: Seq) -> None:
        gone = self.gone
        if gone:
            for seq in range(self.cursor, cursor):
                gone.pop(Seq(seq), None)
            while cursor in gone:
                del gone[cursor]
                cursor = Seq(cursor + 1)
        self.cursor = cursor
        firsts = self.firsts
        if len(firsts) > 1 and firsts[1] <= cursor:
            floor = self.floor()
            while len(firsts) > 1 and firsts[1] <= floor:
                del firsts[0], self.hints[0], self.times[0]

    def _map(self, new: Header) -> None:
        """From new.seq on the log position is new.at; behind it again what was there before."""
        firsts, hints, times = self.firsts, self.hints, self.times
        at = bisect_right(firsts, new.seq) - 1
        hint, time, copied = hints[at], times[at], COPIED | new.at
        continues = firsts[at] == new.seq and at > 0 and hints[at - 1] >> STRETCH_BITS == copied >> STRETCH_BITS
        if continues:  # the message before it was moved into this stretch, too
            del firsts[at], hints[at], times[at]
            at -= 1
        elif firsts[at] == new.seq:
            hints[at] = copied
        else:
            at += 1
            firsts.insert(at, new.seq)
            hints.insert(at, copied)
            times.insert(at, time)
        following = Seq(new.seq + 1)
        if following <= self.last and (at + 1 == len(firsts) or firsts[at + 1] != following):
            firsts.insert(at + 1, following)
            hints.insert(at + 1, hint)
            times.insert(at + 1, time)

    # Reading

    def floor(self) -> Seq:
        """The oldest sequence number that may still wait here."""
        return next(iter(self.held), self.cursor)

    def hint_of(self, seq: Seq) -> Lsn:
        return Lsn(self.hints[max(0, bisect_right(self.firsts, seq) - 1)] & ~COPIED) if self.hints else Lsn(0)

    def has(self, seq: Seq) -> bool:
        """Waits here, unless it waits aside. For a number below the cursor the answer is exact."""
        if seq < self.cursor:
            return seq in self.held
        return seq <= self.last and seq not in self.gone

    def oldest(self) -> Instant:
        """When the first message here was queued, or an earlier instant while it is not in memory."""
        window = self.window
        if window is not None and window.parked:
            return next(iter(window.parked.values())).time
        if window is not None and window.queue:
            return window.queue[0].time
        return Instant(self.times[0]) if self.count else NEVER

    def next_deadline(self) -> Instant:
        """When a time to live ends here: exact for what is in memory, an earlier instant when nothing is."""
        if self.window is None:
            return self.deadline
        return self.window.deadlines[0][0] if self.window.deadlines else NEVER

    def need(self) -> Need | None:
        """What to load next, if there is more than the window holds."""
        if not self.count:
            return None
        first = self.floor() if self.window is None else max(self.window.next, self.floor())
        if first > self.last or (self.window is not None and self.window.size() >= IN_FLIGHT_MAX):
            return None
        at = max(0, bisect_right(self.firsts, first) - 1)
        last = self.firsts[at + 1] - 1 if at + 1 < len(self.firsts) else self.last
        lsn, tail = self.hints[at] & ~COPIED, self.window.tail if self.window is not None else None
        if tail is not None and tail.seq >= self.firsts[at]:
            lsn = max(lsn, tail.at + 1)
        return Need(self.lane, Lsn(lsn), first, Seq(last), LOAD_MAX, self._end(at))

    def need_from(self, first: Seq, count_max: int) -> Need | None:
        """What lies from `first` on, as far as one run goes, for a look; None behind the last message."""
        if not self.count or first > self.last:
            return None
        at = max(0, bisect_right(self.firsts, first) - 1)
        last = self.firsts[at + 1] - 1 if at + 1 < len(self.firsts) else self.last
        return Need(self.lane, Lsn(self.hints[at] & ~COPIED), first, Seq(last), count_max, self._end(at), True)

    def need_one(self, seq: Seq) -> Need:
        """The header of a single message that waits here."""
        at = max(0, bisect_right(self.firsts, seq) - 1)
        return Need(self.lane, Lsn(self.hints[at] & ~COPIED), seq, seq, 1, self._end(at))

    def _end(self, at: int) -> Lsn:
        """Copies do not lie in the order of sequence, with newer messages between them; but all in one stretch."""
        hint = self.hints[at]
        return Lsn(((hint & ~COPIED) | (1 << STRETCH_BITS) - 1) if hint & COPIED else 0)

    def load(self, need: Need, headers: Iterable[Header], upto: Seq) -> None:
        if need != self.need():
            return  # not what is missing any more: loaded meanwhile, or the window was dropped, or bytes have moved
        window = self.window
        if window is None:
            window = self.window = Window(need.first)
        if self.is_grouped or self.held or self.gone or window.next < self.cursor:
            self._load_some(window, headers, upto)
        else:  # all of them wait, in order
            first = window.next
            fresh = [header for header in headers if not header.is_aside]
            if fresh and (fresh[0].seq < first or fresh[-1].seq > upto):
                fresh = [header for header in fresh if first <= header.seq <= upto]
            window.queue.extend(fresh)
            window.tail = fresh[-1] if fresh else window.tail
            for header in fresh if self.deadline != NEVER else ():
                if header.deadline:
                    heappush(window.deadlines, (header.deadline, header.seq, header))
        window.next = Seq(upto + 1)

    def _load_some(self, window: Window, headers: Iterable[Header], upto: Seq) -> None:
        for header in headers:
            seq = header.seq
            if not header.is_aside and window.next <= seq <= upto and self.has(seq):
                window.add(header, is_grouped=self.is_grouped, is_held=seq < self.cursor)

    def group_up(self) -> None:
        """The first message with a group came: from now on headers are kept by group, too."""
        self.is_grouped = True
        window = self.window
        if window is not None:
            self.window = Window(window.next)
            for header in [*window.parked.values(), *window.queue]:
                self.window.add(header, is_grouped=True, is_held=header.seq < self.cursor)

    def overdue(self, now: Instant) -> Iterator[Header]:
        """Loaded messages whose time to live is over."""
        window = self.window
        while window is not None and window.deadlines and window.deadlines[0][0] <= now:
            _, seq, header = heappop(window.deadlines)
            if self.has(seq):
                yield header
