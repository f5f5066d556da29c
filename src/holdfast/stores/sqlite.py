"""A store in one SQLite file, for the processes of one machine.

    records  key → value, revision that made it, revision that wrote it last, lease
    events   revision, place in it → key and record; of the last revisions only
    leases   id → life, end, in microseconds of the machine's clock
    counters revision, lease: the last ones

Laws
- What the words mean is decided by core/coordination/store.py; here it is kept.
- Every change is one transaction, synced before the method returns (WAL, synchronous=FULL), and excludes all others.
- Watching is asking for the revision now and then: there is no way to be called by SQLite in another process.
"""

import sqlite3
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from holdfast.core.coordination.store import (
    Changes,
    Compacted,
    Delete,
    Event,
    Lease,
    LeaseId,
    Record,
    Snapshot,
    Transaction,
    plan,
    range_end,
    remaining_end,
)
from holdfast.core.limits import STORE_EVENTS_KEPT
from holdfast.runtime import clock
from holdfast.runtime.failpoint import failpoint

VERSION = 1
BUSY_S = 5.0  # how long a change waits for that of another process
POLL_S = 0.02  # between two looks for something new
_SCHEMA = """
CREATE TABLE records (
    key TEXT PRIMARY KEY, value BLOB NOT NULL, created INTEGER NOT NULL, revision INTEGER NOT NULL,
    lease INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX leased ON records (lease) WHERE lease;
CREATE TABLE events (
    revision INTEGER NOT NULL, place INTEGER NOT NULL, key TEXT NOT NULL, value BLOB, created INTEGER NOT NULL,
    lease INTEGER NOT NULL, PRIMARY KEY (revision, place)
) STRICT, WITHOUT ROWID;
CREATE TABLE leases (id INTEGER PRIMARY KEY, life INTEGER NOT NULL, end INTEGER NOT NULL) STRICT;
CREATE TABLE counters (name TEXT PRIMARY KEY, value INTEGER NOT NULL) STRICT;
INSERT INTO counters VALUES ('revision', 0), ('lease', 0);
"""
_COLUMNS = "key, value, created, revision, lease"


class StoreError(Exception):
    """The store cannot be used; says what to do."""


class SqliteStore:
    def __init__(
        self, path: Path, *, now_us: Callable[[], int] = clock.elapsed_us, events_kept: int = STORE_EVENTS_KEPT
    ) -> None:
        self._now_us = now_us
        self._events_kept = events_kept
        self._connection = sqlite3.connect(path, isolation_level=None, check_same_thread=False, timeout=BUSY_S)
        try:
            self._connection.execute("PRAGMA journal_mode = WAL")
            self._connection.execute("PRAGMA synchronous = FULL")
            self._migrate(path)
        except sqlite3.DatabaseError as problem:
            self.close()
            raise StoreError(f"{path} cannot be used: {problem}. If it is damaged, restore it from a backup.") from None

    def _migrate(self, path: Path) -> None:
        with self._change():
            (version,) = self._connection.execute("PRAGMA user_version").fetchone()
            if version == 0:
                for statement in _SCHEMA.split(";"):
                    self._connection.execute(statement)
                self._connection.execute(f"PRAGMA user_version = {VERSION}")
        if version not in (0, VERSION):
            self.close()
            raise StoreError(
                f"{path} has format {version}, this Holdfast reads format {VERSION}. Use the version that wrote it."
            )

    def close(self) -> None:
        self._connection.close()

    @contextmanager
    def _change(self) -> Iterator[None]:
        """One transaction: commits at its end, rolls back when it is left by an exception."""
        self._connection.execute("BEGIN IMMEDIATE")
        with self._connection:
            yield
            failpoint("store changed, not committed")
        failpoint("store committed")

    # reading

    def get(self, key: str) -> Record | None:
        self._expire()
        return self._read(key)

    def _read(self, key: str) -> Record | None:
        row = self._connection.execute(f"SELECT {_COLUMNS} FROM records WHERE key = ?", (key,)).fetchone()
        return Record(*row) if row else None

    def range(self, prefix: str) -> Snapshot:
        self._expire()
        behind = range_end(prefix)
        self._connection.execute("BEGIN")  # records and revision belong together
        with self._connection:
            rows = self._connection.execute(
                f"SELECT {_COLUMNS} FROM records WHERE key >= ? AND (? IS NULL OR key < ?) ORDER BY key",
                (prefix, behind, behind),
            ).fetchall()
            return Snapshot(tuple(Record(*row) for row in rows), self._counter("revision"))

    def _counter(self, name: str) -> int:
        (value,) = self._connection.execute("SELECT value FROM counters WHERE name = ?", (name,)).fetchone()
        return int(value)

    def watch(self, prefix: str, after: int, *, wait_s: float = 0.0) -> Changes:
        deadline = time.monotonic() + wait_s
        while True:
            found = self._changes(prefix, after)
            if found.events or time.monotonic() >= deadline:
                return found
            time.sleep(POLL_S)

    def _changes(self, prefix: str, after: int) -> Changes:
        self._expire()
        if self._counter("revision") == after:
            return Changes((), after)
        self._connection.execute("BEGIN")
        with self._connection:
            revision = self._counter("revision")
            if after < revision - self._events_kept:
                raise Compacted
            rows = self._connection.execute(
                "SELECT revision, key, value, created, lease FROM events WHERE revision > ? ORDER BY revision, place",
                (after,),
            )
            events = [_event(row) for row in rows if row[1].startswith(prefix)]
        return Changes(tuple(events), revision)

    # writing

    def transact(self, transaction: Transaction) -> bool:
        self._expire()
        with self._change():
            return self._transact(transaction)

    def _transact(self, transaction: Transaction) -> bool:
        revision = self._counter("revision")
        events = plan(transaction, self._read, is_lease=self._is_lease, revision=revision)
        if events is None:
            return False
        if events:
            self._apply(events, revision + 1)
        return True

    def _apply(self, events: list[Event], revision: int) -> None:
        execute = self._connection.execute
        for place, event in enumerate(events):
            record = event.record
            if record is None:
                execute("DELETE FROM records WHERE key = ?", (event.key,))
                execute("INSERT INTO events VALUES (?, ?, ?, NULL, 0, 0)", (revision, place, event.key))
                continue
            value = (record.key, record.value, record.created, record.revision, record.lease)
            execute("INSERT OR REPLACE INTO records VALUES (?, ?, ?, ?, ?)", value)
            kept = (revision, place, record.key, record.value, record.created, record.lease)
            execute("INSERT INTO events VALUES (?, ?, ?, ?, ?, ?)", kept)
        execute("UPDATE counters SET value = ? WHERE name = 'revision'", (revision,))
        execute("DELETE FROM events WHERE revision <= ?", (revision - self._events_kept,))

    def forget_history(self) -> None:
        """What was written over or deleted is no longer in the file, either: it may be a secret. Who watches has to
        read everything again. O(records)."""
        with self._change():
            revision = self._counter("revision") + self._events_kept + 1
            self._connection.execute("UPDATE counters SET value = ? WHERE name = 'revision'", (revision,))
            self._connection.execute("DELETE FROM events")
        self._connection.execute("VACUUM")
        self._connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")

    # leases

    def _is_lease(self, lease: LeaseId) -> bool:
        return self._connection.execute("SELECT 1 FROM leases WHERE id = ?", (lease,)).fetchone() is not None

    def grant(self, life_s: float) -> LeaseId:
        life = int(life_s * 1e6)
        with self._change():
            lease = LeaseId(self._counter("lease") + 1)
            self._connection.execute("UPDATE counters SET value = ? WHERE name = 'lease'", (lease,))
            self._connection.execute("INSERT INTO leases VALUES (?, ?, ?)", (lease, life, self._now_us() + life))
        return lease

    def renew(self, lease: LeaseId) -> bool:
        self._expire()
        with self._change():
            done = self._connection.execute(
                "UPDATE leases SET end = ? + life WHERE id = ?", (self._now_us(), lease)
            ).rowcount
        return bool(done)

    def revoke(self, lease: LeaseId) -> None:
        with self._change():
            self._end(lease)

    def _end(self, lease: LeaseId) -> None:
        self._connection.execute("DELETE FROM leases WHERE id = ?", (lease,))
        keys = self._connection.execute("SELECT key FROM records WHERE lease = ? ORDER BY key", (lease,)).fetchall()
        self._transact(Transaction((), tuple(Delete(key) for (key,) in keys)))

    def _expire(self) -> None:
        """Before anything else: leases whose time is over end."""
        rows = self._connection.execute("SELECT id, life, end FROM leases").fetchall()
        if not rows:
            return
        now = self._now_us()
        for lease in (Lease(*row) for row in rows):
            end = remaining_end(lease, now)
            if end == lease.end > now:
                continue
            with self._change():
                self._shorten(lease, now)

    def _shorten(self, seen: Lease, now: int) -> None:
        """Looks again, alone: another process may have renewed it."""
        row = self._connection.execute("SELECT id, life, end FROM leases WHERE id = ?", (seen.id,)).fetchone()
        if row is None:
            return
        end = remaining_end(Lease(*row), now)
        if end <= now:
            self._end(seen.id)
        else:
            self._connection.execute("UPDATE leases SET end = ? WHERE id = ?", (end, seen.id))


def _event(row: tuple[int, str, bytes | None, int, LeaseId]) -> Event:
    revision, key, value, created, lease = row
    return Event(revision, key, None if value is None else Record(key, value, created, revision, lease))
