"""When and where a decision is taken: handed to every rule, so that none of them asks for it.

A shard has one and sets it before each decision; nobody keeps it.
"""

from holdfast.core.types import Epoch, Instant, Lsn, WallMs


class Moment:
    __slots__ = ("committed", "epoch", "lsn", "now", "wall")

    def __init__(self) -> None:
        self.epoch = Epoch(0)
        self.lsn = Lsn(0)  # of the first record this decision will write
        self.now = Instant(0)
        self.wall = WallMs(0)
        self.committed = Lsn(0)  # only messages up to here may be handed out
