"""How far each node's segments are in the ledger, and how that is written down: as the ledger's own transaction ids.

    meter/node-1/3                    the next number of epoch 3
    final/meter/node-1/3              1 when that epoch has ended
    until/meter/node-1                µs: all before then is in the ledger
    chain/meter/node-1                the beginning of the last segment's digest
    lifetime/meter/node-1/units       the node's own counter, as of the last segment

They are set in the commit that adds the rows, so the two cannot disagree. There is no other memory of what was read.
"""

from collections.abc import Mapping
from typing import Final

import msgspec

CHAIN_DIGITS: Final = 15  # of a digest: as many as fit into a transaction id


class Position(msgspec.Struct, frozen=True):
    """How far a node's rows of one kind are in the ledger."""

    epoch: int = 1
    seq: int = 0  # the next one
    is_final: bool = False  # the epoch has ended; the next segment is number 0 of the next one
    until_us: int = 0  # all before then is in the ledger
    chain: int = 0  # the beginning of the last segment's digest; 0: not known
    lifetime: dict[str, int] = {}  # the node's own counters, as of the last segment

    @property
    def place(self) -> tuple[int, int]:
        """Epoch and number of the next segment."""
        return (self.epoch + 1, 0) if self.is_final else (self.epoch, self.seq)


Positions = Mapping[str, Position]  # by node


def to_transactions(kind: str, positions: Positions) -> dict[str, int]:
    found: dict[str, int] = {}
    for node, at in positions.items():
        found[f"{kind}/{node}/{at.epoch}"] = at.seq
        found[f"final/{kind}/{node}/{at.epoch}"] = int(at.is_final)
        found[f"until/{kind}/{node}"] = at.until_us
        found[f"chain/{kind}/{node}"] = at.chain
        found.update({f"lifetime/{kind}/{node}/{name}": value for name, value in at.lifetime.items()})
    return found


def from_transactions(kind: str, transactions: Mapping[str, int]) -> dict[str, Position]:
    """Of every node that the ledger ever heard of."""
    epochs: dict[str, int] = {}
    for name in transactions:
        first, *rest = name.split("/")
        if first == kind and len(rest) == 2:
            epochs[rest[0]] = max(int(rest[1]), epochs.get(rest[0], 0))
    return {node: _position(kind, node, epoch=epoch, of=transactions) for node, epoch in sorted(epochs.items())}


def _position(kind: str, node: str, *, epoch: int, of: Mapping[str, int]) -> Position:
    prefix = f"lifetime/{kind}/{node}/"
    return Position(
        epoch,
        of[f"{kind}/{node}/{epoch}"],
        bool(of[f"final/{kind}/{node}/{epoch}"]),
        of[f"until/{kind}/{node}"],
        of[f"chain/{kind}/{node}"],
        {name.removeprefix(prefix): value for name, value in of.items() if name.startswith(prefix)},
    )
