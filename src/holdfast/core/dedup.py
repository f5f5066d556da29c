"""Deduplication: one id, one message, for five minutes of cluster time.

A remembered id keeps the scope it was recorded under: recorded for the whole queue it blocks every group, recorded for
one group it blocks that group only, also after the queue's scope was switched. It outlives its message: receive and
delete do not forget it, purge does.
"""

import hashlib
import struct
from collections import deque

from holdfast.core.limits import DEDUP_WINDOW
from holdfast.core.types import Epoch, Group, Instant, Lsn, Seq

_ENTRY = struct.Struct("<qIQQ")
_ROW = struct.Struct("<16sqIQQ")


def group_of(name: str) -> Group:
    """64 bits name a group. Two groups that collide are served in one order: slower, never wrong."""
    if not name:
        return Group(0)
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

    __slots__ = ("_ids", "_order")

    def __init__(self) -> None:
        self._ids: dict[bytes, bytes] = {}
        self._order: deque[bytes] = deque()

    def __len__(self) -> int:
        return len(self._ids)

    def find(self, digest: bytes, now: Instant) -> tuple[Epoch, Lsn, Seq] | None:
        packed = self._ids.get(digest)
        if packed is None:
            return None
        time, epoch, lsn, seq = _ENTRY.unpack(packed)
        return (Epoch(epoch), Lsn(lsn), Seq(seq)) if now < time + DEDUP_WINDOW else None

    def add(self, digest: bytes, now: Instant, *, epoch: Epoch, lsn: Lsn, seq: Seq) -> None:
        self.prune(now)
        self._ids[digest] = _ENTRY.pack(now, epoch, lsn, seq)
        self._order.append(digest)

    def oldest(self) -> Instant:
        return Instant(_ENTRY.unpack(self._ids[self._order[0]])[0])

    def prune(self, now: Instant) -> None:
        """Forgets what is too old. Amortised O(1) per id."""
        order, ids = self._order, self._ids
        while order:
            time = _ENTRY.unpack(ids[order[0]])[0]
            if now < time + DEDUP_WINDOW:
                return
            del ids[order.popleft()]

    def dump(self, now: Instant) -> bytes:
        self.prune(now)
        return b"".join(digest + self._ids[digest] for digest in self._order)

    @classmethod
    def restore(cls, data: bytes) -> "Dedup":
        dedup = cls()
        for at in range(0, len(data), _ROW.size):
            digest = data[at : at + 16]
            dedup._ids[digest] = data[at + 16 : at + _ROW.size]
            dedup._order.append(digest)
        return dedup
