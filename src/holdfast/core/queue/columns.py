"""Batches by columns: what nearly every batch is, as one value, and one value for what is said of it. Plain values; the
rules are in send and handle.
"""

import msgspec

from holdfast.core.queue.command import DONE, Accepted, Delete, Done, Send
from holdfast.core.types import Epoch, LaneId, Lsn, Receipts, Seq


class SendAll(msgspec.Struct, frozen=True, gc=False):
    """Messages for one lane with nothing but a body, by columns: as a Send of each, in this order."""

    lane: LaneId
    bodies: list[bytes]
    contents: list[bytes]
    sizes: list[int]

    def apart(self) -> list[Send]:
        columns = zip(self.bodies, self.contents, self.sizes, strict=True)
        return [Send(self.lane, body, content, size) for body, content, size in columns]


class DeleteAll(msgspec.Struct, frozen=True, gc=False):
    """Deletes of one lane, by columns: as a Delete of each, in this order."""

    lane: LaneId
    receipts: Receipts

    def apart(self) -> list[Delete]:
        return [Delete(self.lane, receipt) for receipt in self.receipts.apart()]


Columns = SendAll | DeleteAll


class AcceptedAll(msgspec.Struct, frozen=True, gc=False):
    """The answer to SendAll: its messages follow each other, in the log and in the lane."""

    epoch: Epoch
    lsn: Lsn  # of the first
    seq: Seq
    count: int

    def apart(self) -> list[Accepted]:
        return [Accepted(self.epoch, Lsn(self.lsn + at), Seq(self.seq + at)) for at in range(self.count)]


class DeletedAll(msgspec.Struct, frozen=True, gc=False):
    """The answer to DeleteAll: all of them are done."""

    count: int

    def apart(self) -> list[Done]:
        return [DONE] * self.count
