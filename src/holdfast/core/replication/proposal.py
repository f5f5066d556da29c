"""A change of the shard's record by compare-and-swap, pursued until its outcome is certain.

    send ──▶ DONE ─────────────────────────────────────────────────────────▶ on_done
      ▲  └─▶ REFUSED, UNKNOWN or no answer ──▶ linearizable read
      │                                          ├─ the record is ours ────▶ on_done
      │                                          ├─ it is somebody else's ─▶ on_lost
      │                                          └─ it is as it was
      │                                               ├─ after REFUSED ────▶ on_void
      └───────────────────────────────────────────────┘  after UNKNOWN

Laws
- A transaction whose outcome is unknown may still be on its way, so a record that is as it was proves nothing: the very
  same transaction is sent again. All copies compare the same revisions, so at most one of them happens.
- A copy that was refused while the record is as it was failed on a guard. Revisions never come back, so no other copy
  can succeed any more: only then may things go on as if nothing had been asked.
"""

from collections.abc import Callable

from holdfast.core.coordination.asking import Outcome
from holdfast.core.coordination.cluster import ShardRecord, encode, shard_key
from holdfast.core.coordination.store import Check, Put, Transaction
from holdfast.core.limits import STORE_PATIENCE, STORE_PAUSE
from holdfast.core.replication.station import Station


class Proposal:
    def __init__(
        self,
        station: Station,
        record: ShardRecord,
        *,
        guards: tuple[Check, ...] = (),
        notes: tuple[Put, ...] = (),
        on_done: Callable[[], None],
        on_lost: Callable[[], None],
        on_void: Callable[[], None],
    ) -> None:
        """Compares with the record that the station knows; `notes` are written together with it."""
        self.record = record
        self._station = station
        self._base = station.revision
        key = shard_key(station.shard)
        checks = (Check(key, self._base), *guards)
        self._transaction = Transaction(checks, (Put(key, encode(record)), *notes))
        self._on_done, self._on_lost, self._on_void = on_done, on_lost, on_void
        self._is_over = False
        self._round = 0  # answers to earlier questions are ignored
        self._asked_at = station.now
        self._is_to_be_sent = False
        self._send()

    def tick(self) -> None:
        """The store does not answer: what has become of it? Or it did, and it is time to send again."""
        waited = self._station.now - self._asked_at
        if self._is_over:
            return
        if self._is_to_be_sent and waited >= STORE_PAUSE:
            self._send()
        elif waited >= STORE_PATIENCE:
            self._read(is_refused=False)

    def _next(self) -> int:
        self._round += 1
        self._asked_at, self._is_to_be_sent = self._station.now, False
        return self._round

    def _send(self) -> None:
        number = self._next()
        self._station.transact(self._transaction, lambda outcome: self._settled(number, outcome))

    def _settled(self, number: int, outcome: Outcome) -> None:
        if self._is_over:
            return
        if outcome is Outcome.DONE:
            self._end(self._on_done)
        elif number == self._round:
            self._read(is_refused=outcome is Outcome.REFUSED)

    def _read(self, *, is_refused: bool) -> None:
        number = self._next()
        self._station.fetch(lambda record: self._found(number, record, is_refused=is_refused))

    def _found(self, number: int, record: ShardRecord | None, *, is_refused: bool) -> None:
        if self._is_over or number != self._round:
            return
        if record == self.record:
            self._end(self._on_done)
        elif record is None or self._station.revision != self._base:
            self._end(self._on_lost)
        elif is_refused:
            self._end(self._on_void)
        else:
            self._is_to_be_sent = True

    def _end(self, then: Callable[[], None]) -> None:
        self._is_over = True
        then()
