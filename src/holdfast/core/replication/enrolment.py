"""Which disk is this? What a start of a host asks its disk and the store before it may take part in anything.

    read identity ▶ store: pending = n+1 ▶ fsync n+1 here ▶ store: last = n+1 ▶ take part
         │ none, or the store knows better (wiped, cloned, rolled back)
         └▶ a new disk id, registered as empty; its life is the revision that made its record

Laws
- A disk is known again only if its own count of starts is the last or the pending one in the store. Each start raises
  it, so an older copy of a disk stands out. A copy made and put back within one start is not noticed.
- Only a transaction that was DONE counts. After UNKNOWN the next number is tried, so that two copies of one disk that
  start at once never share a number; the one that comes second gets a new id.
- What the store says of the host with its old disk goes in the transaction that registers the new one: a configuration
  that was asked for with the old one compares it, and comes too late from that moment on.
- A new id means an empty disk: what lies on it belongs to somebody who is gone. It is set aside unread, durably, before
  the disk has its new id: otherwise the next start would take it for its own.
- A store that is younger than what this disk has seen was restored from a backup: nobody enrols, an operator decides.
- A store says whose it is: the first host that enrols writes the name of its cluster. Nobody enrols at a store of
  another cluster, nor does a disk that is of a cluster make an empty store that cluster's.
"""

import struct
from collections.abc import Generator
from typing import Any, Final, TypeVar

import google_crc32c
import msgspec

from holdfast.core.coordination.asking import Fetch, Fetched, Outcome, Transact
from holdfast.core.coordination.cluster import (
    CLUSTER_KEY,
    DiskId,
    DiskRecord,
    HostId,
    Life,
    decode_disk,
    disk_key,
    encode,
    host_key,
)
from holdfast.core.coordination.store import Check, Delete, Put, Record, Transaction
from holdfast.core.errors import CorruptLog
from holdfast.core.limits import IDENTITY_BYTES_MAX
from holdfast.core.log.files import FileOp, List, Read, Work, replace

# identity: magic 8 bytes | version u32 | length u32 | JSON | CRC-32C of all before
IDENTITY: Final = "identity"
MAGIC: Final = b"HFIDENTI"
VERSION: Final = 1
_HEAD = struct.Struct("<8sII")
_CRC = struct.Struct("<I")


class SetAside(msgspec.Struct, frozen=True):
    """Everything but the identity file is moved out of the way, none of it removed. Durable when it is answered."""


Step = FileOp | Transact | Fetch | SetAside
Result = TypeVar("Result")
Talk = Generator[Step, Any, Result]


class StoreRestored(Exception):
    """The store knows less than this disk has seen of it."""


class ForeignStore(Exception):
    """The store is not that of this host's cluster."""


class Identity(msgspec.Struct, frozen=True):
    cluster: str
    host: HostId
    disk: DiskId
    life: Life
    boot: int
    revision: int  # the store was at least here


class Enrolled(msgspec.Struct, frozen=True):
    identity: Identity
    is_new: bool


Enrolling = Talk[Enrolled]


def encode_identity(identity: Identity) -> bytes:
    text = msgspec.json.encode(identity)
    data = _HEAD.pack(MAGIC, VERSION, len(text)) + text
    return data + _CRC.pack(google_crc32c.value(data))


def decode_identity(data: bytes) -> Identity:
    if len(data) < _HEAD.size + _CRC.size or google_crc32c.value(data[:-4]) != _CRC.unpack(data[-4:])[0]:
        raise CorruptLog("the identity file is damaged: whose disk this is, is unknown")
    magic, version, length = _HEAD.unpack_from(data)
    if magic != MAGIC or version != VERSION or len(data) != _HEAD.size + length + _CRC.size:
        raise CorruptLog(f"the identity file is not of version {VERSION}")
    return msgspec.json.decode(data[_HEAD.size : -4], type=Identity)


def enrol(host: HostId, *, cluster: str, fresh: DiskId) -> Enrolling:
    """Paths are relative to the host's folder. `fresh`: an id that nobody ever had, should one be needed."""
    held = yield from _read()
    if held is not None and held.cluster != cluster:
        raise CorruptLog(f"this disk belongs to the cluster {held.cluster!r}, not to {cluster!r}")
    desk = _Desk(held.revision if held is not None else 0)
    yield from desk.meet(cluster, is_member=held is not None)
    if held is not None and held.host == host:
        raised = yield from desk.raise_boot(held)
        if raised is not None:
            return Enrolled(raised, is_new=False)
    yield SetAside()
    record = yield from desk.register(host, fresh)
    new = Identity(cluster, host, fresh, Life(record.created), 0, desk.revision)
    raised = yield from desk.raise_boot(new)
    assert raised is not None, "nobody else can have used a fresh id"
    return Enrolled(raised, is_new=True)


def _read() -> Work[Identity | None]:
    if IDENTITY not in (yield List("")):
        return None
    return decode_identity((yield Read(IDENTITY, 0, IDENTITY_BYTES_MAX)))


class _Desk:
    """Asks the store, one thing at a time."""

    def __init__(self, revision: int) -> None:
        self.revision = revision  # the highest ever seen
        self._tokens = 0

    def meet(self, cluster: str, *, is_member: bool) -> Talk[None]:
        """Is this the store of the cluster? An empty one becomes that, unless this host has been in the cluster."""
        while (record := (yield from self._fetch(CLUSTER_KEY))) is None:
            if is_member:
                raise ForeignStore(f"the store is empty, and this disk belongs to the cluster {cluster!r}")
            yield from self._transact(Check(CLUSTER_KEY, 0), Put(CLUSTER_KEY, cluster.encode()))
        if record.value != cluster.encode():
            raise ForeignStore(f"the store is of the cluster {record.value.decode()!r}, and this host of {cluster!r}")

    def register(self, host: HostId, fresh: DiskId) -> Talk[Record]:
        """The record of the new disk, whoever's transaction made it: nobody else knows its name."""
        while (record := (yield from self._fetch(disk_key(fresh)))) is None:
            empty = DiskRecord(host, Life(0), last_boot=0, pending_boot=0)
            yield from self._put(fresh, empty, revision=0, and_then=(Delete(host_key(host)),))
        return record

    def raise_boot(self, held: Identity) -> Talk[Identity | None]:
        """The identity of this start, durable here and in the store. None: not the disk that the store knows."""
        while True:
            record = yield from self._fetch(disk_key(held.disk))
            found = decode_disk(record.value) if record is not None else None
            if record is None or found is None or not _is_known(held, record, found):
                return None
            number = found.pending_boot + 1
            pending = DiskRecord(held.host, held.life, last_boot=found.last_boot, pending_boot=number)
            if (yield from self._put(held.disk, pending, revision=record.revision)) is Outcome.DONE:
                break
        raised = msgspec.structs.replace(held, boot=number, revision=self.revision)
        yield from replace(IDENTITY, encode_identity(raised))
        return (yield from self._conclude(raised))

    def _conclude(self, raised: Identity) -> Talk[Identity | None]:
        while True:
            record = yield from self._fetch(disk_key(raised.disk))
            found = decode_disk(record.value) if record is not None else None
            if record is None or found is None or found.pending_boot != raised.boot:
                return None
            if found.last_boot == raised.boot:
                return raised
            last = DiskRecord(raised.host, raised.life, last_boot=raised.boot, pending_boot=raised.boot)
            yield from self._put(raised.disk, last, revision=record.revision)

    def _fetch(self, key: str) -> Talk[Record | None]:
        self._tokens += 1
        fetched: Fetched = yield Fetch(self._tokens, key)
        if fetched.revision < self.revision:
            raise StoreRestored(f"the store is at revision {fetched.revision} and was at {self.revision} before")
        self.revision = fetched.revision
        return fetched.record

    def _put(
        self, disk: DiskId, record: DiskRecord, *, revision: int, and_then: tuple[Delete, ...] = ()
    ) -> Talk[Outcome]:
        key = disk_key(disk)
        return (yield from self._transact(Check(key, revision), Put(key, encode(record)), *and_then))

    def _transact(self, check: Check, *writes: Put | Delete) -> Talk[Outcome]:
        self._tokens += 1
        outcome: Outcome = yield Transact(self._tokens, Transaction((check,), writes))
        return outcome


def _is_known(held: Identity, record: Record, found: DiskRecord) -> bool:
    is_same = held.life == record.created and found.host == held.host
    return is_same and held.boot in (found.last_boot, found.pending_boot)
