"""Changing the lanes of a queue: what is wanted stands in its layout, and a conversation with lanes and store does it.

    expand, split, merge    rows of heirs          ──pass──▶  heirs open, parents draining
    shrink                  a draining lane        ──pass──▶  sealed, its heirs told, retired, former

A pass (`reshape`) is a generator: it yields what to ask of a lane or of the store, is sent the outcome, and answers
whether there is nothing left to do. It ends at the first thing that cannot be done now; the next pass begins with the
layout as it is then, maybe elsewhere: every step may be repeated (queue/descent.py).

Laws
- Ranges of keys: heirs have together exactly what their parents have. Only an open lane is split, merged or shrunk.
- An heir is routed to when it has inherited everything, and in the same write its parents are no longer.
- A lane goes from the layout only when it is retired, and is then former: its receipts are known to be the queue's.
"""

from collections.abc import Generator, Sequence
from itertools import pairwise
from typing import Any

import msgspec

from holdfast.core.cluster.table import LaneRow, Layout, Phase, layout_key, put_layout
from holdfast.core.coordination.asking import Outcome
from holdfast.core.coordination.store import Check, Transaction
from holdfast.core.errors import HoldfastError, QueueDoesNotExist
from holdfast.core.limits import FORMER_LANES_MAX
from holdfast.core.queue.command import Bequeath, Command, Configure, Drain, Found, Inherit, Lineage, Open, Retire, Seal
from holdfast.core.types import Address, Counts, LaneConfig, LaneId, QueueName


class Ask(msgspec.Struct, frozen=True):
    """Wants the outcome of a command at a lane: an answer or an error."""

    address: Address
    command: Command


class Swap(msgspec.Struct, frozen=True):
    """Wants the Outcome of a transaction at the store."""

    transaction: Transaction


Pass = Generator[Ask | Swap, Any, bool]


class _Later(Exception):
    """The pass ends here."""


# What is wanted


def expand(layout: Layout, lanes: Sequence[Address]) -> Layout:
    """More lanes for messages without a key."""
    return _changed(layout, (*layout.lanes, *(LaneRow(each.lane, each.shard, Phase.HEIR) for each in lanes)))


def shrink(layout: Layout, lane: LaneId) -> Layout:
    """One lane less; others go on taking messages."""
    row = _open(layout, lane)
    others = [each for each in layout.open_lanes() if each.lane != lane]
    if not any(each.first <= row.first and row.last <= each.last for each in others):
        raise ValueError(f"no other lane takes what lane {lane} takes")
    draining = msgspec.structs.replace(row, phase=Phase.DRAINING)
    return _changed(layout, tuple(draining if each.lane == lane else each for each in layout.lanes))


def split(layout: Layout, lane: LaneId, heirs: Sequence[Address]) -> Layout:
    """Its keys are divided evenly. With one heir the lane moves."""
    row = _open(layout, lane)
    count, width = len(heirs), row.last + 1 - row.first
    if not 0 < count <= width:
        raise ValueError(f"{width} keys cannot be divided among {count} lanes")
    edges = [row.first + width * number // count for number in range(count + 1)]
    made = [
        LaneRow(each.lane, each.shard, Phase.HEIR, edges[number], edges[number + 1] - 1, (lane,))
        for number, each in enumerate(heirs)
    ]
    return _changed(layout, (*layout.lanes, *made))


def merge(layout: Layout, lanes: Sequence[LaneId], heir: Address) -> Layout:
    """Lanes whose ranges are neighbours become one."""
    rows = sorted((_open(layout, lane) for lane in lanes), key=lambda row: row.first)
    for before, after in pairwise(rows):
        if before.last + 1 != after.first:
            raise ValueError(f"lanes {before.lane} and {after.lane} are no neighbours")
    parents = tuple(row.lane for row in rows)
    made = LaneRow(heir.lane, heir.shard, Phase.HEIR, rows[0].first, rows[-1].last, parents)
    return _changed(layout, (*layout.lanes, made))


def _open(layout: Layout, lane: LaneId) -> LaneRow:
    row = layout.row_of(lane)
    if row is None or row.phase is not Phase.OPEN:
        raise ValueError(f"lane {lane} is not open")
    if any(lane in each.parents and each.phase is Phase.HEIR for each in layout.lanes):
        raise ValueError(f"lane {lane} has heirs already")
    return row


def _changed(layout: Layout, lanes: tuple[LaneRow, ...]) -> Layout:
    numbers = [row.lane for row in lanes]
    if len(dict.fromkeys(numbers)) < len(numbers) or any(lane in layout.former for lane in numbers):
        raise ValueError("a lane id is used once")
    return msgspec.structs.replace(layout, lanes=lanes)


# A pass


def reshape(queue: QueueName, layout: Layout, revision: int, *, config: LaneConfig) -> Pass:
    """`layout` as the store's record of this revision has it. True: it is as it is wanted."""
    if all(row.phase is Phase.OPEN for row in layout.lanes):
        return True
    try:
        heirs = [row for row in layout.lanes if row.phase is Phase.HEIR]
        if heirs:
            yield from _prepare(layout, heirs, config)
            yield from _swap(queue, _opened(layout, heirs), revision)
            return False
        gone: list[LaneId] = []
        for row in layout.lanes:
            if row.phase is Phase.DRAINING and (yield from _retire(layout, row)):
                gone.append(row.lane)
        after = _without(layout, gone)
        if gone:
            yield from _swap(queue, after, revision)
    except _Later:
        return False
    return all(row.phase is Phase.OPEN for row in after.lanes)


def _prepare(layout: Layout, heirs: Sequence[LaneRow], config: LaneConfig) -> Generator[Ask, Any, None]:
    """Founded first, while the parents still take messages: these wait from the draining until the heirs are open."""
    parents = {row.lane: row for row in layout.lanes}
    lineages: dict[LaneId, Lineage] = {}
    for heir in heirs:
        yield from _ask(heir.address, Configure(heir.lane, config))
        if heir.parents:
            found = Found(heir.lane, tuple(parents[lane].address for lane in heir.parents))
            lineages[heir.lane] = yield from _ask(heir.address, found)
    for lane in dict.fromkeys(lane for heir in heirs for lane in heir.parents):
        yield from _ask(parents[lane].address, Drain(lane))
    for heir in heirs:
        for lane in heir.parents:
            yield from _hand_over(parents[lane], heir, lineages[heir.lane])


def _hand_over(parent: LaneRow, heir: LaneRow, lineage: Lineage) -> Generator[Ask, Any, None]:
    """Part after part, from where the heir is."""
    while True:
        state = next(each for each in lineage.parents if each.parent == parent.address)
        if state.is_complete:
            return
        bequest = yield from _ask(parent.address, Bequeath(parent.lane, state.cursor))
        lineage = yield from _ask(heir.address, Inherit(heir.lane, bequest))


def _retire(layout: Layout, row: LaneRow) -> Generator[Ask, Any, bool]:
    """True: the lane is gone."""
    try:
        yield from _ask(row.address, Drain(row.lane))
        if isinstance((yield from _ask(row.address, Seal(row.lane))), Counts):
            return False
        for heir in layout.lanes:
            if row.lane in heir.parents:
                yield from _open_heir(heir, row)
        yield from _ask(row.address, Retire(row.lane))
    except _Gone:
        return True  # retired by a pass that could not write it down; it had told the heirs
    except _Later:
        return False
    return True


def _open_heir(heir: LaneRow, parent: LaneRow) -> Generator[Ask, Any, None]:
    try:
        yield from _ask(heir.address, Open(heir.lane, parent.address))
    except _Gone:
        return  # retired as well, and so it knew


class _Gone(_Later):
    """The lane does not exist."""


def _ask(address: Address, command: Command) -> Generator[Ask, Any, Any]:
    outcome = yield Ask(address, command)
    if isinstance(outcome, QueueDoesNotExist):
        raise _Gone
    if isinstance(outcome, HoldfastError):
        raise _Later
    return outcome


def _swap(queue: QueueName, layout: Layout, revision: int) -> Generator[Swap, Any, None]:
    transaction = Transaction((Check(layout_key(queue), revision),), (put_layout(queue, layout),))
    if (yield Swap(transaction)) is not Outcome.DONE:
        raise _Later  # what became of it shows in the layout


def _opened(layout: Layout, heirs: Sequence[LaneRow]) -> Layout:
    replaced = {lane: Phase.DRAINING for heir in heirs for lane in heir.parents}
    replaced |= {heir.lane: Phase.OPEN for heir in heirs}
    rows = [msgspec.structs.replace(row, phase=replaced.get(row.lane, row.phase)) for row in layout.lanes]
    return msgspec.structs.replace(layout, lanes=tuple(rows))


def _without(layout: Layout, gone: Sequence[LaneId]) -> Layout:
    rows = [
        msgspec.structs.replace(row, parents=tuple(lane for lane in row.parents if lane not in gone))
        for row in layout.lanes
        if row.lane not in gone
    ]
    former = (*layout.former, *gone)[-FORMER_LANES_MAX:]
    return msgspec.structs.replace(layout, lanes=tuple(rows), former=former)
