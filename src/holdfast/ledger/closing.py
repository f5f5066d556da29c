"""When an hour is closed: every node's data has passed it. Pure; decides from positions alone.

Laws
- A node holds an hour open until its contiguous data has passed the end of it, and the grace after that.
- A node whose last epoch ended, and that has not come back, holds nothing open. A node that has a problem does, always:
  what it still has may belong to any hour after its position. So an hour with a gap never closes.
- A node's clock is believed up to the pipeline's own, so that one in the future closes nothing early.
- A node that will never come back is named by the operator; nobody guesses.
"""

from collections.abc import Collection, Iterable
from typing import Final

from holdfast.ledger.positions import Position, Positions
from holdfast.usage import stores

HOUR_US: Final = 3_600_000_000
GRACE_US: Final = stores.GRACE_US  # for what is under way between a node and the spool; idle nodes go by it, too


def passed_us(positions: Positions, *, troubled: Collection[str], abandoned: Collection[str], now_us: int) -> int:
    """All nodes' data before then is in the ledger. `troubled` nodes have segments that could not be taken over."""
    holding = [
        each.until_us for node, each in positions.items() if node not in abandoned and _holds(each, node in troubled)
    ]
    unheard = [0 for node in troubled if node not in positions and node not in abandoned]
    return min([*holding, *unheard, now_us])


def _holds(at: Position, is_troubled: bool) -> bool:
    return is_troubled or not at.is_final


def closable(hours_us: Iterable[int], passed: int, *, grace_us: int = GRACE_US) -> list[int]:
    return sorted(each for each in hours_us if each + HOUR_US + grace_us <= passed)
