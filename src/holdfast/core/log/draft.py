"""Snapshots out of the running state, taken at the instant when the log leaves a segment.

Nothing has to be replayed for these, and the next start finds all sealed segments covered. A state takes time to write
down, though, and the loop stands still meanwhile: a heavy one is left to a process that replays the log
(snapshot.advance_snapshot).

Laws
- A draft is of the last lsn before a segment, since all records before it have been applied and none after it has. It
  becomes a snapshot when that lsn is committed, not before.
- Its time is the stamp of the frame that comes next, which may be later than the last one before it. So none is made of
  a shard with members: another one might lead from there, and its frames be stamped earlier.
"""

import msgspec

from holdfast.core.limits import DRAFT_WEIGHT
from holdfast.core.log.journal import Journal
from holdfast.core.log.segment_files import Segment
from holdfast.core.log.snapshot import SnapshotHead
from holdfast.core.queue.shard import Shard


class Draft(msgspec.Struct, frozen=True):
    head: SnapshotHead
    body: bytes
    live: dict[int, int]  # stretch of the log -> bytes of living messages there


class Drafts:
    """Of a shard that this host leads. The newest is kept until it is taken."""

    def __init__(self, shard: Shard, journal: Journal) -> None:
        self._shard = shard
        self._journal = journal
        self._newest: Draft | None = None
        self._following: Segment | None = None  # the one that begins behind it
        journal.on_turn = self._turned

    def _turned(self) -> None:
        """Between two records. O(weight of the shard)."""
        journal, shard = self._journal, self._shard
        if journal.is_replicated or len(journal.segments) < 2 or shard.weight(DRAFT_WEIGHT) > DRAFT_WEIGHT:
            return
        before, self._following = journal.segments[-2:]
        assert shard.lsn == self._following.first - 1, "the state is that of the log before this segment"
        head = SnapshotHead(journal.shard, shard.lsn, before.epoch, 0, shard.now)
        self._newest = Draft(head, shard.dump(), shard.live)

    def take(self) -> Draft | None:
        """The newest, if it is of committed state. The header of the segment that follows names the crc there."""
        draft, following = self._newest, self._following
        if draft is None or following is None or not following.used or self._journal.committed < draft.head.lsn:
            return None
        self._newest = self._following = None
        return msgspec.structs.replace(draft, head=msgspec.structs.replace(draft.head, crc=following.previous))
