"""Deduplication: one id, one message, for five minutes of cluster time.

A remembered id keeps the scope it was recorded under: recorded for the whole queue it blocks every group, recorded for
one group it blocks that group only, also after the queue's scope was switched. It outlives its message: receive and
delete do not forget it, purge does. It outlives its lane, too: an heir (descent.py) takes it over with its age, and
answers with the message that the parent accepted.
"""

import hashlib
import struct
from bisect import bisect_right
from collections import deque
from typing import Final

from holdfast.core.limits import DEDUP_WINDOW
from holdfast.core.types import Epoch, Group, Instant, Lsn, Seq, ShardId

_ENTRY: Final = struct.Struct("<qIQQ")
_ROW: Final = struct.Struct("<16sqIQQ")
_BEQUEATHED: Final = struct.Struct(
    "<16sqIQQI"
)  # with the shard whose message it was; on its way its age is in place of the time
BEQUEATHED_BYTES: Final = _BEQUEATHED.size
HERE: Final = ShardId(0)
NO_GROUP: Final = Group(0)


def group_of(name: str) -> Group:
    """64 bits name a group. Two groups that collide are served in one order: slower, never wrong."""
    if not name:
        return NO_GROUP
    digest = hashlib.blake2b(name.encode(), digest_size=8).digest()
    return Group(int.from_bytes(digest) or 1)


def digest_of(deduplication_id: str, group: Group | None) -> bytes:
    """Of an id in its scope: a group's, or (None) the whole queue's."""
    scope = b"q" if group is None else b"g%016x" % group
    return hashlib.blake2b(scope + deduplication_id.encode(), digest_size=16).digest()


def content_id(body: bytes) -> str:
    return hashlib.sha256(body).hexdigest()


class Dedup:
    """Digest → (time, epoch, lsn, seq) of the message that was accepted. Packed, since there may be millions."""

    __slots__ = ("_ids", "_inherited", "_newest", "_order", "_sorted")

    def __init__(self) -> None:
        self._ids: dict[bytes, bytes] = {}
        self._order: deque[bytes] = deque()
        self._inherited: dict[bytes, bytes] = {}
        self._newest = Instant(0)  # of those
        self._sorted: list[bytes] | None = None  # all digests, of a lane that takes no new ones: a cache

    def __len__(self) -> int:
        return len(self._ids) + len(self._inherited)

    def find(self, digest: bytes, now: Instant) -> tuple[Epoch, Lsn, Seq, ShardId] | None:
        packed = self._ids.get(digest)
        if packed is not None:
            time, epoch, lsn, seq = _ENTRY.unpack(packed)
            return (Epoch(epoch), Lsn(lsn), Seq(seq), HERE) if now < time + DEDUP_WINDOW else None
        if self._inherited and (packed := self._inherited.get(digest)) is not None:
            _, time, epoch, lsn, seq, shard = _BEQUEATHED.unpack(packed)
            return (Epoch(epoch), Lsn(lsn), Seq(seq), ShardId(shard)) if now < time + DEDUP_WINDOW else None
        return None

    def add(self, digest: bytes, now: Instant, *, epoch: Epoch, lsn: Lsn, seq: Seq) -> None:
        self.prune(now)
        self._ids[digest] = _ENTRY.pack(now, epoch, lsn, seq)
        self._order.append(digest)

    def oldest(self) -> Instant:
        """When `prune` will next have something to forget, less the time that ids are kept."""
        return Instant(_ENTRY.unpack(self._ids[self._order[0]])[0]) if self._order else self._newest

    def prune(self, now: Instant) -> None:
        """Forgets what is too old. Amortised O(1) per id."""
        order, ids = self._order, self._ids
        if self._inherited and now >= self._newest + DEDUP_WINDOW:
            self._inherited = {}
        while order:
            time = _ENTRY.unpack(ids[order[0]])[0]
            if now < time + DEDUP_WINDOW:
                return
            del ids[order.popleft()]

    def dump(self, now: Instant) -> bytes:
        self.prune(now)
        return b"".join(digest + self._ids[digest] for digest in self._order)

    # From lane to lane

    def bequeath(self, after: bytes, count_max: int, now: Instant, *, shard: ShardId) -> tuple[bytes, bytes]:
        """Ids with a digest behind `after`, in this order, and the last of these digests; empty: there are no more.

        Only of a lane that takes no new ones. What is forgotten meanwhile is missing, and nothing else is.
        """
        if self._sorted is None:
            self._sorted = sorted({**self._inherited, **self._ids})  # once, O(n log n)
        start = bisect_right(self._sorted, after)
        digests = self._sorted[start : start + count_max]
        rows = [row for digest in digests if (row := self._row(digest, now, shard)) is not None]
        is_end = start + count_max >= len(self._sorted)
        return b"".join(rows), b"" if is_end else digests[-1]

    def _row(self, digest: bytes, now: Instant, shard: ShardId) -> bytes | None:
        """An id as it travels: with its age."""
        if (packed := self._ids.get(digest)) is not None:
            time, *place = _ENTRY.unpack(packed)
        elif (packed := self._inherited.get(digest)) is not None:
            _, time, *place, shard = _BEQUEATHED.unpack(packed)
        else:
            return None
        return _BEQUEATHED.pack(digest, now - time, *place, shard) if now < time + DEDUP_WINDOW else None

    def inherit(self, rows: bytes, now: Instant) -> None:
        """The younger one counts where two parents knew the same id."""
        for digest, age, *place in _BEQUEATHED.iter_unpack(rows):
            time = Instant(now - age)
            held = self._inherited.get(digest)
            if held is None or _BEQUEATHED.unpack(held)[1] < time:
                self._inherited[digest] = _BEQUEATHED.pack(digest, time, *place)
                self._newest = max(self._newest, time)

    def dump_inherited(self, now: Instant) -> bytes:
        self.prune(now)
        held = [self._inherited[digest] for digest in sorted(self._inherited)]
        return b"".join(row for row in held if now < _BEQUEATHED.unpack(row)[1] + DEDUP_WINDOW)

    @classmethod
    def restore(cls, data: bytes, inherited: bytes) -> "Dedup":
        dedup = cls()
        for digest, time, *place in _BEQUEATHED.iter_unpack(inherited):
            dedup._inherited[digest] = _BEQUEATHED.pack(digest, time, *place)
            dedup._newest = max(dedup._newest, time)
        for at in range(0, len(data), _ROW.size):
            digest = data[at : at + 16]
            dedup._ids[digest] = data[at + 16 : at + _ROW.size]
            dedup._order.append(digest)
        return dedup
