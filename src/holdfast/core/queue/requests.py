"""Requests that were carried out lately and what was answered: asking again does not do it again.

    request id ─▶ time, and  the message's (epoch, lsn, seq)      a send
                             (seq, number) of each hand-out       a receive
                             nothing more                         whatever answers Done

Laws
- The record that a request made carries its id, so the table follows from the log: it is there after a restart and on
  every member.
- It knows the last REQUEST_WINDOW of cluster time, and at most REQUESTS_MAX requests. A retry that may be older than
  what is known is refused with OutcomeUnknown; it is never carried out on suspicion.
- What changed nothing (an empty receive, a refusal) is not remembered and is decided anew. A delete needs no id: done
  twice it is done once.
"""

import struct
from collections import OrderedDict
from collections.abc import Sequence

from holdfast.core.errors import OutcomeUnknown
from holdfast.core.limits import REQUEST_WINDOW, REQUESTS_MAX
from holdfast.core.queue.command import DONE, Accepted, Done, Request
from holdfast.core.queue.wheel import NEVER
from holdfast.core.types import Epoch, Instant, Lsn, Seq

_HEAD = struct.Struct("<qB")
_ACCEPTED = struct.Struct("<qBIQQ")
_HANDED = struct.Struct("<QI")
_IS_DONE, _IS_ACCEPTED, _IS_HANDED = 0, 1, 2

Handed = list[tuple[Seq, int]]  # messages and the number of their receive


class Requests:
    """Packed, since there may be many."""

    __slots__ = ("_known", "horizon")

    def __init__(self) -> None:
        self._known: OrderedDict[bytes, bytes] = OrderedDict()  # oldest first
        self.horizon = Instant(-NEVER)  # of the youngest that had to go before its time

    def __len__(self) -> int:
        return len(self._known)

    def find(self, request: Request, now: Instant) -> Accepted | Done | Handed | None:
        """None: it was never carried out."""
        known = self._known.get(request.id)
        if known is not None:
            time, kind = _HEAD.unpack_from(known)
            if now < time + REQUEST_WINDOW:
                return _answer(kind, known)
        if request.age and (request.age >= REQUEST_WINDOW or now - request.age <= self.horizon):
            raise OutcomeUnknown
        return None

    def note_accepted(self, request: bytes, now: Instant, *, epoch: Epoch, lsn: Lsn, seq: Seq) -> None:
        self._note(request, _ACCEPTED.pack(now, _IS_ACCEPTED, epoch, lsn, seq), now)

    def note_handed(self, request: bytes, now: Instant, handed: Sequence[tuple[Seq, int]]) -> None:
        self._note(request, b"".join([_HEAD.pack(now, _IS_HANDED), *(_HANDED.pack(*each) for each in handed)]), now)

    def note_done(self, request: bytes, now: Instant) -> None:
        self._note(request, _HEAD.pack(now, _IS_DONE), now)

    def _note(self, request: bytes, known: bytes, now: Instant) -> None:
        self.prune(now)
        self._known[request] = known
        self._known.move_to_end(request)
        if len(self._known) > REQUESTS_MAX:
            _, oldest = self._known.popitem(last=False)
            self.horizon = Instant(_HEAD.unpack_from(oldest)[0])

    def prune(self, now: Instant) -> None:
        """Forgets what is too old. Amortised O(1) per request."""
        known = self._known
        while known:
            oldest = next(iter(known))
            if now < _HEAD.unpack_from(known[oldest])[0] + REQUEST_WINDOW:
                return
            del known[oldest]

    def dump(self, now: Instant) -> tuple[int, list[tuple[bytes, bytes]]]:
        self.prune(now)
        return self.horizon, list(self._known.items())

    @classmethod
    def restore(cls, horizon: int, known: Sequence[tuple[bytes, bytes]]) -> "Requests":
        requests = cls()
        requests.horizon = Instant(horizon)
        requests._known.update(known)
        return requests


def _answer(kind: int, known: bytes) -> Accepted | Done | Handed:
    if kind == _IS_DONE:
        return DONE
    if kind == _IS_ACCEPTED:
        _, _, epoch, lsn, seq = _ACCEPTED.unpack(known)
        return Accepted(epoch, lsn, seq)
    return [(Seq(seq), number) for seq, number in _HANDED.iter_unpack(known[_HEAD.size :])]
