"""The metadata service: a cache over a store.

    get ──▶ cache ──miss──▶ store              what was read is kept until it changes
    transact, change ──▶ store ──▶ cache       writes go through to the store
    catch_up ◀── watch ◀── store               what anybody changed is forgotten, and told

Laws
- The store is the truth. What is cached was so at the last `catch_up`, or is newer.
- After `catch_up` a read is exact: it sees every write that any process was told of before.
- A change that was based on something outdated is made again, or refused; it never overwrites what it did not see.
"""

from collections.abc import Callable, Sequence

from holdfast.core.coordination.catalogue import Outdated
from holdfast.core.coordination.store import (
    Changes,
    Check,
    Compacted,
    Put,
    Record,
    Snapshot,
    Transaction,
    Write,
    revision_of,
)
from holdfast.stores.contract import Store

FORMAT = 1  # of the records
FORMAT_KEY = "format"
CACHED_MAX = 100_000  # records; when there are more, all are read again
TRIES_MAX = 100  # of a change that others keep coming before; more is a mistake


class MetadataError(Exception):
    """The metadata cannot be used; says what to do."""


class Metadata:
    """Belongs to one thread, as its store does. What happened before it was made it does not tell: `load` does."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._cache: dict[str, Record] = {}
        self._revision = store.range(FORMAT_KEY).revision

    def load(self, *prefixes: str) -> list[Snapshot]:
        """All records that begin so, one snapshot for each prefix; changes since the first are told by `catch_up`."""
        found = [self._store.range(prefix) for prefix in prefixes]
        self._revision = found[0].revision
        self._cache.clear()
        return found

    def get(self, key: str) -> Record | None:
        record = self._cache.get(key)
        if record is None:
            record = self._store.get(key)
            if record is not None:
                if len(self._cache) >= CACHED_MAX:
                    self._cache.clear()
                self._cache[key] = record
        return record

    def range(self, prefix: str) -> tuple[Record, ...]:
        """Always from the store."""
        return self._store.range(prefix).records

    def catch_up(self) -> Changes | None:
        """What happened since the last time; None: too much, so load again."""
        try:
            changes = self._store.watch("", self._revision)
        except Compacted:
            return None
        for event in changes.events:
            self._cache.pop(event.key, None)
        self._revision = changes.revision
        return changes

    def transact(self, transaction: Transaction) -> None:
        """Raises Outdated."""
        if not self._store.transact(transaction):
            raise Outdated
        for write in transaction.writes:
            self._cache.pop(write.key, None)

    def change(self, keys: Sequence[str], decide: Callable[..., Sequence[Write]]) -> None:
        """Writes what `decide` makes of the present records of `keys`, each None if there is none; they are still so at
        the moment of writing."""
        for _ in range(TRIES_MAX):
            held = [self._store.get(key) for key in keys]
            checks = tuple(Check(key, revision_of(record)) for key, record in zip(keys, held, strict=True))
            try:
                self.transact(Transaction(checks, tuple(decide(*held))))
            except Outdated:
                continue
            return
        raise AssertionError(f"{keys} change faster than they can be read")


def check_format(store: Store, *, where: object) -> bool:
    """Whether there is anything. Refuses what another version wrote."""
    held = store.get(FORMAT_KEY)
    if held is not None and held.value != b"%d" % FORMAT:
        raise MetadataError(
            f"{where} has records of format {held.value.decode()}, this Holdfast reads format {FORMAT}. Use the "
            "version that wrote it."
        )
    return held is not None


def begin(store: Store, writes: Sequence[Write] = ()) -> None:
    """The first records of an empty store. Does nothing if somebody else was faster."""
    first = Put(FORMAT_KEY, b"%d" % FORMAT)
    store.transact(Transaction((Check(FORMAT_KEY, 0),), (first, *writes)))
