"""When and where a decision is taken: handed to every rule, so that none of them asks for it."""

from holdfast.core.types import Epoch, Instant, Lsn, WallMs
from holdfast.core.values import Value


class Moment(Value, frozen=True):
    epoch: Epoch
    lsn: Lsn  # of the first record this decision will write
    now: Instant
    wall: WallMs
    committed: Lsn  # only messages up to here may be handed out
