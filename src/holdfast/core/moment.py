"""When and where a decision is taken: handed to every rule, so that none of them asks for it."""

import msgspec

from holdfast.core.types import Epoch, Instant, Lsn, WallMs


class Moment(msgspec.Struct, frozen=True, gc=False):
    epoch: Epoch
    lsn: Lsn  # of the first record this decision will write
    now: Instant
    wall: WallMs
    committed: Lsn  # only messages up to here may be handed out
