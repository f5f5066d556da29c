"""A look at a lane's messages that changes nothing, neither its state nor what it keeps in memory.

Messages that were handed out and those that wait aside are in memory. Of the others the window has the first few; what
lies deeper is looked up, one run of the log after the other (`Need.is_look`), and shown without entering the window.

Laws: a look that takes more than one Need goes on where it stopped, for the same command; a header that was found is
shown only if its message still waits at that place.
"""

import heapq
from collections.abc import Sequence

from holdfast.core.limits import PEEK_MAX, PEEKS_MAX
from holdfast.core.queue.command import Need, Peek, Peeked, PeekReply
from holdfast.core.queue.lane import Lane
from holdfast.core.queue.moment import Moment
from holdfast.core.queue.record import Record
from holdfast.core.types import Cause, Header, Instant, Seq
from holdfast.core.values import Form


class _Look(Form):
    """How far a peek has come in the stream."""

    first: Seq  # the next to look up
    found: list[Header]


class Looks:
    """Peeks that wait for headers, and the headers that came last."""

    def __init__(self) -> None:
        self._waiting: dict[Peek, _Look] = {}
        self._need: Need | None = None
        self._headers: Sequence[Header] = ()
        self._upto = Seq(0)

    def load(self, need: Need, headers: Sequence[Header], upto: Seq) -> None:
        """The commands that asked for this are decided again before anything else is loaded."""
        self._need, self._headers, self._upto = need, headers, upto

    def decide(self, lane: Lane, command: Peek, moment: Moment) -> tuple[tuple[Record, ...], PeekReply] | Need:
        """In order of sequence. O(leases + window): for people who look, not for consumers."""
        count_max = min(command.count_max, PEEK_MAX)
        look = self._waiting.pop(command, None) or _begin(lane, command)
        while len(look.found) < count_max and (need := lane.backlog.need_from(look.first, count_max)) is not None:
            if need != self._need:
                self._wait(command, look)
                return need
            look.found += [header for header in self._headers if look.first <= header.seq <= self._upto]
            look.first = Seq(self._upto + 1)
        shown = [_waiting(lane, header, moment.now) for header in look.found if _is_there(lane, header)]
        shown += _apart(lane, command.after, count_max=count_max, now=moment.now)
        shown.sort(key=lambda peeked: peeked.header.seq)
        return (), PeekReply(tuple(shown[:count_max]), lane.last_seq)

    def _wait(self, command: Peek, look: _Look) -> None:
        if len(self._waiting) >= PEEKS_MAX:
            del self._waiting[next(iter(self._waiting))]  # it begins again
        self._waiting[command] = look


def _begin(lane: Lane, command: Peek) -> _Look:
    """What the window has; it is complete from the first message on."""
    first = Seq(max(command.after + 1, lane.backlog.floor()))
    window = lane.backlog.window
    if window is None or first >= window.next:
        return _Look(first, [])
    found = [header for header in (*window.parked.values(), *window.queue) if header.seq >= first]
    return _Look(window.next, found)


def _is_there(lane: Lane, header: Header) -> bool:
    backlog, seq = lane.backlog, header.seq
    return not header.is_aside and backlog.has(seq) and header.at >= backlog.hint_of(seq)


def _apart(lane: Lane, after: Seq, *, count_max: int, now: Instant) -> list[Peeked]:
    """Messages that are kept one by one."""
    shown = []
    for seq in heapq.nsmallest(count_max, (seq for seq in lane.leases if seq > after)):
        lease = lane.leases[seq]
        state = "in flight" if lease.until else "visible"
        shown.append(Peeked(lease.header(seq), state, lease.until, lease.count, lane.causes.get(seq, Cause.NONE)))
    if lane.aside is not None:
        shown += [_waiting(lane, header, now) for header in lane.aside.all() if header.seq > after]
    return shown


def _waiting(lane: Lane, header: Header, now: Instant) -> Peeked:
    visible_at = header.visible_at if header.is_aside else lane.visible_at(header)
    if visible_at > now:
        return Peeked(header, "delayed", visible_at, header.count, Cause.NONE)
    return Peeked(header, "visible", Instant(0), header.count, Cause.NONE)
