"""A shard's replicated state as bytes, for snapshots and for comparing two shards.

Canonical: equal states give equal bytes. Windows, timers, heaps and group tables are not in it; they follow from it.
Layout: MessagePack of ShardState (arrays, fields in the order below), version first. Version 1 lacks what has a
default here.
"""

import msgspec

from holdfast.core.queue.aside import Aside, Maturing
from holdfast.core.queue.backlog import Backlog
from holdfast.core.queue.dedup import Dedup
from holdfast.core.queue.descent import Descent
from holdfast.core.queue.headers import HEADER_BYTES, pack_header, unpack_header
from holdfast.core.queue.lane import Lane
from holdfast.core.queue.lease import Attempt, Lease
from holdfast.core.queue.outbox import Entry, Inbox, Outbox
from holdfast.core.queue.task import Task
from holdfast.core.queue.tenants import Tenants
from holdfast.core.queue.wheel import NEVER
from holdfast.core.types import Cause, Group, Header, Instant, LaneConfig, LaneId, Seq, ShardId
from holdfast.core.untouched import UNTOUCHED

VERSION = 2
_READABLE = (1, VERSION)


class BacklogState(msgspec.Struct, array_like=True):
    cursor: int
    last: int
    count: int
    is_grouped: bool
    held: list[int]
    gone: list[int]
    firsts: list[int]
    hints: list[int]
    times: list[int]
    bytes_at: list[tuple[int, int]]
    deadline: int


class LaneState(msgspec.Struct, array_like=True):
    lane: int
    config: LaneConfig
    last_seq: int
    count: int
    size: int
    backlog: BacklogState
    leases: list[tuple[int, Lease]]
    aside: bytes  # packed headers
    maturing: list[tuple[int, int]]
    dedup: bytes
    attempts: list[tuple[bytes, Attempt]]
    tasks: list[Task]
    causes: list[tuple[int, Cause]]
    purged: int
    gone_target: int
    spent: list[tuple[int, list[tuple[int, int]]]] | None  # None: no tenants
    inherited: bytes = b""
    descent: Descent | None = None


class ShardState(msgspec.Struct, array_like=True):
    version: int
    shard: int
    lsn: int
    epoch: int
    now: int
    wall: int
    lanes: list[LaneState]
    outboxes: list[tuple[int, int, list[Entry]]]
    inboxes: list[tuple[int, int, list[int]]]
    horizon: int = -NEVER  # of the requests
    requests: list[tuple[bytes, bytes]] = []


_encoder = msgspec.msgpack.Encoder()
_decoder = msgspec.msgpack.Decoder(ShardState)


def encode(state: ShardState) -> bytes:
    return _encoder.encode(state)


def decode(data: bytes) -> ShardState:
    try:
        state = _decoder.decode(data)
    except msgspec.DecodeError as problem:
        raise ValueError(f"this state cannot be read: {problem}") from problem
    if state.version not in _READABLE:
        raise ValueError(f"state of version {state.version}; this program reads version {VERSION}")
    return state


def weigh_lane(lane: Lane) -> int:
    """How many messages and ids `dump_lane` writes, roughly. O(1)."""
    backlog = lane.backlog
    apart = lane.count - backlog.count  # handed out, or with a delay of their own
    marks = len(lane.maturing.marks) if lane.maturing is not None else 0
    ids = len(lane.dedup) if lane.dedup is not None else 0
    groups = sum(map(len, lane.tenants.spent.values())) if lane.tenants is not None else 0
    passed = len(backlog.held) + len(backlog.gone) + len(backlog.firsts)
    return apart + marks + ids + groups + passed + len(lane.attempts) + len(lane.causes)


def dump_lane(lane: Lane, now: Instant) -> LaneState:
    lane.elapse(now)
    lane.prune(now)
    spent = None
    if lane.tenants is not None:
        lane.tenants.forget(now)
        spent = [(period, sorted(groups.items())) for period, groups in sorted(lane.tenants.spent.items())]
    return LaneState(
        lane=lane.lane,
        config=lane.config,
        last_seq=lane.last_seq,
        count=lane.count,
        size=lane.bytes,
        backlog=_dump_backlog(lane.backlog),
        leases=[(seq, lane.leases[seq]) for seq in sorted(lane.leases)],
        aside=b"".join(map(pack_header, lane.aside.all())) if lane.aside is not None else b"",
        maturing=list(lane.maturing.marks.items()) if lane.maturing is not None else [],
        dedup=lane.dedup.dump(now) if lane.dedup is not None else b"",
        attempts=list(lane.attempts.items()),
        tasks=lane.tasks,
        causes=sorted(lane.causes.items()),
        purged=lane.purged,
        gone_target=lane.gone_target,
        spent=spent,  # type: ignore[arg-type]
        inherited=lane.dedup.dump_inherited(now) if lane.dedup is not None else b"",
        descent=lane.descent,
    )


def restore_lane(state: LaneState, now: Instant, *, config: LaneConfig) -> Lane:
    """`config`: equal to the state's, perhaps shared with other lanes."""
    lane = Lane(LaneId(state.lane), config)
    lane.last_seq = Seq(state.last_seq)
    lane.count, lane.bytes = state.count, state.size
    _restore_backlog(lane.backlog, state.backlog)
    if state.spent is not None:
        lane.tenants = Tenants()
        for period, groups in state.spent:
            lane.tenants.spent[period] = {Group(group): spent for group, spent in groups}
    lane.causes = {Seq(seq): cause for seq, cause in state.causes} or UNTOUCHED
    lane.attempts = dict(state.attempts) or UNTOUCHED
    lane.tasks = state.tasks or lane.tasks
    lane.purged = Instant(state.purged)
    for seq, lease in state.leases:
        lane.adopt(Seq(seq), lease)
    _restore_waiting(lane, state, now)
    lane.gone_target = state.gone_target
    lane.descent = state.descent
    return lane


def _restore_waiting(lane: Lane, state: LaneState, now: Instant) -> None:
    if state.aside:
        lane.aside = Aside()
        for header in unpack_headers(state.aside):
            lane.aside.add(header)
        lane.aside.ripen(now)
    if state.maturing:
        lane.maturing = Maturing()
        lane.maturing.marks = {Instant(instant): count for instant, count in state.maturing}
    if state.dedup or state.inherited:
        lane.dedup = Dedup.restore(state.dedup, state.inherited)


def unpack_headers(data: bytes) -> list[Header]:
    return [unpack_header(data, at) for at in range(0, len(data), HEADER_BYTES)]


def _dump_backlog(backlog: Backlog) -> BacklogState:
    return BacklogState(
        cursor=backlog.cursor,
        last=backlog.last,
        count=backlog.count,
        is_grouped=backlog.is_grouped,
        held=sorted(backlog.held),
        gone=sorted(backlog.gone),
        firsts=list(backlog.firsts),
        hints=list(backlog.hints),
        times=list(backlog.times),
        bytes_at=sorted(backlog.bytes_at.items()),
        deadline=backlog.deadline,
    )


def _restore_backlog(backlog: Backlog, state: BacklogState) -> None:
    backlog.cursor, backlog.last, backlog.count = Seq(state.cursor), Seq(state.last), state.count
    backlog.is_grouped = state.is_grouped
    backlog.held = {Seq(seq): None for seq in state.held} or UNTOUCHED
    backlog.gone = {Seq(seq): None for seq in state.gone} or UNTOUCHED
    backlog.restore(state.firsts, state.hints, state.times)
    if state.firsts:
        backlog.bytes_at = dict(state.bytes_at)
    backlog.deadline = Instant(state.deadline)


def dump_boxes(outboxes: dict[ShardId, Outbox]) -> list[tuple[int, int, list[Entry]]]:
    return [(shard, box.last, list(box.entries.values())) for shard, box in sorted(outboxes.items())]


def restore_boxes(state: list[tuple[int, int, list[Entry]]]) -> dict[ShardId, Outbox]:
    outboxes: dict[ShardId, Outbox] = {}
    for shard, last, entries in state:
        box = outboxes[ShardId(shard)] = Outbox()
        box.last = last
        box.entries = {entry.number: entry for entry in entries}
    return outboxes


def dump_inboxes(inboxes: dict[ShardId, Inbox]) -> list[tuple[int, int, list[int]]]:
    return [(shard, box.last, list(box.refused)) for shard, box in sorted(inboxes.items())]


def restore_inboxes(state: list[tuple[int, int, list[int]]]) -> dict[ShardId, Inbox]:
    inboxes: dict[ShardId, Inbox] = {}
    for shard, last, refused in state:
        box = inboxes[ShardId(shard)] = Inbox()
        box.last = last
        box.refused = dict.fromkeys(refused)
    return inboxes
