"""What asynchronous queues may lose (part of I1): the end of a primary's log that no member had, and nothing else.

A queue that is replicated asynchronously acknowledges when the primary's own disk has the message. For each message
that was acknowledged and is gone:

- its place lies behind the seal of its epoch, so no member of the next configuration had it;
- the lag was within its bound: the primary refuses commands when its oldest frame that a member lacks is older than
  that, and the first of the lost was older than its own acknowledgement;
- somebody wrote down, in the store, that it may be lost.
"""

from typing import TYPE_CHECKING

from holdfast.core.coordination.cluster import LossRecord, decode_loss
from holdfast.core.limits import ASYNC_LAG
from tests.sim.account import Letter
from tests.sim.request import Request
from tests.sim.tally import Tally

if TYPE_CHECKING:
    from tests.sim.cluster.checkers import ClusterCheckers

Reign = tuple[int, int]  # shard, epoch


class Losses:
    def __init__(self, checkers: "ClusterCheckers", tally: Tally) -> None:
        self._checkers = checkers
        self._tally = tally
        self._places: dict[int, tuple[int, int, int]] = {}  # number of a letter -> shard, epoch, lsn

    def acknowledged(self, request: Request, epoch: int, lsn: int) -> None:
        letter: Letter = request.about
        self._places.setdefault(letter.number, (request.shard, epoch, lsn))

    def settle(self, lost: list[Letter]) -> None:
        """When everything is drained. `lost`: acknowledged by asynchronous queues, and gone."""
        reigns: dict[Reign, list[Letter]] = {}
        for letter in lost:
            shard, epoch, lsn = self._places[letter.number]
            reigns.setdefault((shard, epoch), []).append(letter)
            where = f"asynchronous letter {letter.number}, shard {shard} epoch {epoch} lsn {lsn},"
            sealed = self._checkers.sealed_at(shard, epoch)
            text = f"{where} is gone, and its epoch was sealed at {sealed}"
            self._tally.check("I1", sealed is not None and lsn > sealed, text)
            is_noted = any(_covers(loss, lsn) for loss in self._noted(shard, epoch))
            self._tally.check("I1", is_noted, f"{where} is gone, and nobody said that it might be")
        for (shard, epoch), letters in reigns.items():
            lag = max(each.begun for each in letters) - min(each.ended for each in letters)
            text = f"shard {shard} epoch {epoch}: asynchronous queues lost what they took within {lag} µs"
            self._tally.check("I1", lag < ASYNC_LAG, text)

    def _noted(self, shard: int, epoch: int) -> list[LossRecord]:
        found = self._checkers.cluster.store.state.range(f"losses/{shard}/").records
        losses = [decode_loss(each.value) for each in found]
        return [loss for loss in losses if loss.epoch == epoch]


def _covers(loss: LossRecord, lsn: int) -> bool:
    return loss.after < lsn and (loss.last is None or lsn <= loss.last)
