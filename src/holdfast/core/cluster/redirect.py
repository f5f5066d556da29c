"""A message on its way to a lane that was split, merged or let go: it follows the lane's heirs.

    target refuses ──▶ its queue has an open lane for the message's group ──▶ Settle(…, instead=that lane)
                   ├──▶ its heirs are not open yet ──▶ nothing is told; the hand-over comes again and is asked again
                   └──▶ nobody knows the lane ──▶ Settle(is_refused): the queue is gone

Laws
- Hand-overs are numbered per shard, so whoever carries one cannot send it elsewhere: the source takes the message back
  and lets it depart once more, in one frame. It is never in two places.
- A dead letter remembers the lane that it came from. So a redrive "back to the source" works as long as the queue's
  layout knows that lane: while it is there, and while it is among the former ones.
"""

from holdfast.core.cluster.table import Table
from holdfast.core.queue.command import ArriveReply, Settle
from holdfast.core.queue.outbox import Entry


def settle(table: Table, entry: Entry, reply: ArriveReply) -> Settle | None:
    """What the source of `entry` is to be told. None: nothing, for now."""
    queue = table.owner(entry.target.lane) if reply.is_refused else None
    layout = table.layout(queue) if queue is not None else None
    if layout is None:
        return Settle(reply.target, reply.number, reply.is_refused)
    row = layout.lane_of(entry.header.group)
    if row is None or row.lane == entry.target.lane:
        return None
    return Settle(reply.target, reply.number, is_refused=True, instead=row.address)
