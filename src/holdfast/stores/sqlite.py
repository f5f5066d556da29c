"""The catalogue of queues, in SQLite: which exist, what they are set to, which lane and shard hold them.

    queues    account, name → lane, shard, attributes, tags, times
    loose     lanes that belong to no queue: being made, or being dropped
    counters  the last lane id given out
    former    names of deleted queues by lane: dead letters and move tasks still speak of them

Laws
- A lane id is written before it is used and never given out again.
- A queue has a row only while its lane is configured. Between the two the lane is `loose`; a start drops such lanes, so
  a crash leaves neither a queue without a lane nor a lane without a queue.
- A lane has a configuration before the row says so; a start gives lanes the configuration of their rows.
- Every change is one transaction, synced before the method returns (WAL, synchronous=FULL).
"""

import sqlite3
from pathlib import Path

import msgspec

from holdfast.core.types import LaneId, QueueName, ShardId, WallMs

VERSION = 2
FORMER_MAX = 10_000  # names of deleted queues that are kept
_SCHEMA = """
CREATE TABLE queues (
    account TEXT NOT NULL, name TEXT NOT NULL, lane INTEGER NOT NULL UNIQUE, shard INTEGER NOT NULL,
    attributes TEXT NOT NULL, tags TEXT NOT NULL, created INTEGER NOT NULL, modified INTEGER NOT NULL,
    version INTEGER NOT NULL, PRIMARY KEY (account, name)
) STRICT;
CREATE TABLE former (lane INTEGER PRIMARY KEY, account TEXT NOT NULL, name TEXT NOT NULL) STRICT;
CREATE TABLE loose (lane INTEGER PRIMARY KEY, shard INTEGER NOT NULL) STRICT;
CREATE TABLE counters (name TEXT PRIMARY KEY, value INTEGER NOT NULL) STRICT;
INSERT INTO counters VALUES ('lane', 0);
"""
# Format 1 knew one account, 000000000000. Its table `former` came later than the others, so it may not be there.
_FROM_1 = """
CREATE TABLE IF NOT EXISTS former (lane INTEGER PRIMARY KEY, name TEXT NOT NULL) STRICT;
ALTER TABLE former RENAME TO old_former;
ALTER TABLE queues RENAME TO old_queues;
ALTER TABLE loose RENAME TO old_loose;
ALTER TABLE counters RENAME TO old_counters;
"""
_COPY_FROM_1 = """
INSERT INTO queues
    SELECT '000000000000', name, lane, shard, attributes, tags, created, modified, version FROM old_queues;
INSERT INTO former SELECT lane, '000000000000', name FROM old_former;
INSERT INTO loose SELECT * FROM old_loose;
UPDATE counters SET value = (SELECT value FROM old_counters WHERE name = 'lane') WHERE name = 'lane';
DROP TABLE old_queues; DROP TABLE old_former; DROP TABLE old_loose; DROP TABLE old_counters;
"""
_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(dict[str, str]).decode


class CatalogueError(Exception):
    """The catalogue cannot be used; says what to do."""


class QueueRow(msgspec.Struct, frozen=True):
    queue: QueueName
    lane: LaneId
    shard: ShardId
    attributes: dict[str, str]  # as given; defaults are not stored
    tags: dict[str, str]
    created: WallMs
    modified: WallMs
    version: int = 1  # of the configuration


class Catalogue:
    """Blocks on the disk, so everything but opening is called from a helper thread, one call at a time."""

    def __init__(self, path: Path) -> None:
        self._connection = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
        self._connection.execute("PRAGMA journal_mode = WAL")
        self._connection.execute("PRAGMA synchronous = FULL")
        self._migrate(path)

    def _migrate(self, path: Path) -> None:
        (version,) = self._connection.execute("PRAGMA user_version").fetchone()
        if version == 0:
            self._connection.executescript(f"BEGIN; {_SCHEMA} PRAGMA user_version = {VERSION}; COMMIT;")
        elif version == 1:
            self._connection.executescript(
                f"BEGIN; {_FROM_1} {_SCHEMA} {_COPY_FROM_1} PRAGMA user_version = {VERSION}; COMMIT;"
            )
        elif version != VERSION:
            self.close()
            raise CatalogueError(
                f"{path} has format {version}, this Holdfast reads format {VERSION}. Use the version that wrote it."
            )

    def close(self) -> None:
        self._connection.close()

    def queues(self) -> list[QueueRow]:
        rows = self._connection.execute(
            "SELECT account, name, lane, shard, attributes, tags, created, modified, version FROM queues "
            "ORDER BY account, name"
        )
        return [
            QueueRow(
                QueueName(account, name), lane, shard, _decode(attributes), _decode(tags), created, modified, version
            )
            for account, name, lane, shard, attributes, tags, created, modified, version in rows
        ]

    def loose_lanes(self) -> list[tuple[LaneId, ShardId]]:
        return list(self._connection.execute("SELECT lane, shard FROM loose ORDER BY lane"))

    def former_lanes(self) -> list[tuple[LaneId, QueueName]]:
        rows = self._connection.execute("SELECT lane, account, name FROM former ORDER BY lane")
        return [(lane, QueueName(account, name)) for lane, account, name in rows]

    def new_lane(self, shard: ShardId) -> LaneId:
        """A lane id that was never used; the lane is loose until `add`."""
        with self._transaction() as connection:
            (lane,) = connection.execute(
                "UPDATE counters SET value = value + 1 WHERE name = 'lane' RETURNING value"
            ).fetchone()
            connection.execute("INSERT INTO loose VALUES (?, ?)", (lane, shard))
        return LaneId(lane)

    def add(self, row: QueueRow) -> None:
        """Its lane is configured."""
        values = (
            *row.queue,
            row.lane,
            row.shard,
            _encode(row.attributes).decode(),
            _encode(row.tags).decode(),
            row.created,
            row.modified,
            row.version,
        )
        with self._transaction() as connection:
            connection.execute("INSERT INTO queues VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)", values)
            connection.execute("DELETE FROM loose WHERE lane = ?", (row.lane,))

    def update(self, row: QueueRow) -> None:
        """Its lane has this configuration already."""
        attributes, tags = _encode(row.attributes).decode(), _encode(row.tags).decode()
        with self._transaction() as connection:
            connection.execute(
                "UPDATE queues SET attributes = ?, tags = ?, modified = ?, version = ? WHERE account = ? AND name = ?",
                (attributes, tags, row.modified, row.version, *row.queue),
            )

    def remove(self, row: QueueRow) -> None:
        """The lane is loose until it is dropped. O(FORMER_MAX)."""
        with self._transaction() as connection:
            connection.execute("DELETE FROM queues WHERE account = ? AND name = ?", row.queue)
            connection.execute("INSERT INTO former VALUES (?, ?, ?)", (row.lane, *row.queue))
            connection.execute(
                "DELETE FROM former WHERE lane NOT IN (SELECT lane FROM former ORDER BY lane DESC LIMIT ?)",
                (FORMER_MAX,),
            )
            connection.execute("INSERT INTO loose VALUES (?, ?)", (row.lane, row.shard))

    def dropped(self, lane: LaneId) -> None:
        with self._transaction() as connection:
            connection.execute("DELETE FROM loose WHERE lane = ?", (lane,))

    def _transaction(self) -> sqlite3.Connection:
        """As a context: commits at its end, rolls back when it is left by an exception."""
        self._connection.execute("BEGIN IMMEDIATE")
        return self._connection
