"""The catalogue of queues as records of a store: which exist, what they are set to, which lane and shard hold them.

    queue/ACCOUNT/NAME  lane, shard, attributes, tags, times
    loose/LANE          a lane that belongs to no queue: being made, or being dropped
    former/LANE         the name of a deleted queue: dead letters and move tasks still speak of it
    counter/lane        the last lane id given out

Laws
- A lane id is written before it is used and never given out again.
- A queue has a record only while its lane is configured. Between the two the lane is loose; a start drops such lanes,
  so a crash leaves neither a queue without a lane nor a lane without a queue.
- A lane has a configuration before the record says so; a start gives lanes the configuration of their records.
- A queue is changed and removed only by who knows it as it is: by the revision of its record.
"""

from collections.abc import Sequence
from functools import lru_cache

import msgspec

from holdfast.core.coordination.store import Check, Delete, Put, Record, Transaction, Write, revision_of
from holdfast.core.limits import ACCOUNTS_SHARED, FORMER_MAX
from holdfast.core.types import LaneId, QueueName, ShardId, WallMs
from holdfast.core.untouched import UNTOUCHED

QUEUES = "queue/"
LOOSE = "loose/"
FORMER = "former/"
LAST_LANE = "counter/lane"


class Outdated(Exception):
    """Somebody else was faster: what this change is based on is no longer so."""


class QueueRow(msgspec.Struct, frozen=True):
    queue: QueueName
    lane: LaneId
    shard: ShardId
    attributes: dict[str, str]  # as given; defaults are not stored
    tags: dict[str, str]
    created: WallMs
    modified: WallMs
    version: int = 1  # of the configuration
    revision: int = 0  # of the record it was read from


class Former(msgspec.Struct, frozen=True):
    lane: LaneId
    queue: QueueName
    deleted: WallMs  # 0: long ago


class _Row(msgspec.Struct, frozen=True):
    """The value of a queue's record; its key has the name."""

    lane: LaneId
    shard: ShardId
    attributes: dict[str, str]
    tags: dict[str, str]
    created: WallMs
    modified: WallMs
    version: int


class _Former(msgspec.Struct, frozen=True):
    account: str
    name: str
    deleted: WallMs


_encode = msgspec.json.Encoder().encode
_decode_row = msgspec.json.Decoder(_Row).decode
_decode_former = msgspec.json.Decoder(_Former).decode


def queue_key(queue: QueueName) -> str:
    return f"{QUEUES}{queue.account}/{queue.name}"


def named_by(key: str) -> QueueName:
    _, account, name = key.split("/")
    return QueueName(_shared(account), name)


@lru_cache(maxsize=ACCOUNTS_SHARED)
def _shared(account: str) -> str:
    """One string for all queues of an account."""
    return account


def _lane_key(prefix: str, lane: LaneId) -> str:
    return f"{prefix}{lane:016x}"  # of equal length, so that they are in order


def row_of(record: Record) -> QueueRow:
    row = _decode_row(record.value)
    return QueueRow(
        named_by(record.key),
        row.lane,
        row.shard,
        row.attributes or UNTOUCHED,
        row.tags or UNTOUCHED,
        row.created,
        row.created if row.modified == row.created else row.modified,  # one object: there may be many rows
        row.version,
        record.revision,
    )


def former_of(record: Record) -> Former:
    held = _decode_former(record.value)
    lane = LaneId(int(record.key.removeprefix(FORMER), 16))
    return Former(lane, QueueName(held.account, held.name), held.deleted)


def loose_of(record: Record) -> tuple[LaneId, ShardId]:
    return LaneId(int(record.key.removeprefix(LOOSE), 16)), ShardId(int(record.value))


def put_row(row: QueueRow) -> Put:
    held = _Row(row.lane, row.shard, row.attributes, row.tags, row.created, row.modified, row.version)
    return Put(queue_key(row.queue), _encode(held))


def put_former(former: Former) -> Put:
    held = _Former(former.queue.account, former.queue.name, former.deleted)
    return Put(_lane_key(FORMER, former.lane), _encode(held))


def loose_key(lane: LaneId) -> str:
    return _lane_key(LOOSE, lane)


def put_loose(lane: LaneId, shard: ShardId) -> Put:
    return Put(_lane_key(LOOSE, lane), b"%d" % shard)


# changes


def make_lane(last: Record | None, shard: ShardId) -> tuple[LaneId, Transaction]:
    """A lane id that was never used; the lane is loose until `add`. `last`: the record of the last one."""
    lane = LaneId(int(last.value) + 1 if last else 1)
    writes = (Put(LAST_LANE, b"%d" % lane), put_loose(lane, shard))
    return lane, Transaction((Check(LAST_LANE, revision_of(last)),), writes)


def add(row: QueueRow, loose: Record) -> Transaction:
    """Its lane is configured, and `loose` still: a start of another process may have dropped it."""
    writes = (put_row(row), Delete(loose.key))
    return Transaction((Check(queue_key(row.queue), 0), Check(loose.key, revision_of(loose))), writes)


def update(row: QueueRow) -> Transaction:
    """Its lane has this configuration already."""
    return Transaction((Check(queue_key(row.queue), row.revision),), (put_row(row),))


def remove(row: QueueRow, now: WallMs, *, former: Sequence[Record]) -> Transaction:
    """The lane is loose until it is dropped. `former`: the names that are kept already, oldest first."""
    key = queue_key(row.queue)
    too_many = former[: max(0, len(former) + 1 - FORMER_MAX)]
    writes: tuple[Write, ...] = (
        Delete(key),
        put_former(Former(row.lane, row.queue, now)),
        put_loose(row.lane, row.shard),
        *(Delete(each.key) for each in too_many),
    )
    return Transaction((Check(key, row.revision),), writes)


def drop_loose(lane: LaneId) -> Transaction:
    return Transaction((), (Delete(_lane_key(LOOSE, lane)),))
