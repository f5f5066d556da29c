"""The catalogue of queues, in SQLite: which exist, what they are set to, which lane and shard hold them.

    queues    name → lane, shard, attributes, tags, times
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

from holdfast.core.types import LaneId, ShardId, WallMs

VERSION = 1
FORMER_MAX = 10_000  # names of deleted queues that are kept
_SCHEMA = """
CREATE TABLE queues (
    name TEXT PRIMARY KEY, lane INTEGER NOT NULL UNIQUE, shard INTEGER NOT NULL, attributes TEXT NOT NULL,
    tags TEXT NOT NULL, created INTEGER NOT NULL, modified INTEGER NOT NULL, version INTEGER NOT NULL
) STRICT;
CREATE TABLE loose (lane INTEGER PRIMARY KEY, shard INTEGER NOT NULL) STRICT;
CREATE TABLE counters (name TEXT PRIMARY KEY, value INTEGER NOT NULL) STRICT;
INSERT INTO counters VALUES ('lane', 0);
"""
_FORMER = "CREATE TABLE IF NOT EXISTS former (lane INTEGER PRIMARY KEY, name TEXT NOT NULL) STRICT"  # came later
_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(dict[str, str]).decode


class CatalogueError(Exception):
    """The catalogue cannot be used; says what to do."""


class QueueRow(msgspec.Struct, frozen=True):
    name: str
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
        self._connection.execute(_FORMER)

    def _migrate(self, path: Path) -> None:
        (version,) = self._connection.execute("PRAGMA user_version").fetchone()
        if version == 0:
            self._connection.executescript(f"BEGIN; {_SCHEMA} PRAGMA user_version = {VERSION}; COMMIT;")
        elif version != VERSION:
            self.close()
            raise CatalogueError(
                f"{path} has format {version}, this Holdfast reads format {VERSION}. Use the version that wrote it."
            )

    def close(self) -> None:
        self._connection.close()

    def queues(self) -> list[QueueRow]:
        rows = self._connection.execute(
            "SELECT name, lane, shard, attributes, tags, created, modified, version FROM queues ORDER BY name"
        )
        return [
            QueueRow(name, lane, shard, _decode(attributes), _decode(tags), created, modified, version)
            for name, lane, shard, attributes, tags, created, modified, version in rows
        ]

    def loose_lanes(self) -> list[tuple[LaneId, ShardId]]:
        return list(self._connection.execute("SELECT lane, shard FROM loose ORDER BY lane"))

    def former_lanes(self) -> list[tuple[LaneId, str]]:
        return list(self._connection.execute("SELECT lane, name FROM former ORDER BY lane"))

    def new_lane(self, shard: ShardId) -> LaneId:
        """A lane id that was never used; the lane is loose until `add`."""
        with self._transaction() as connection:
            (lane,) = connection.execute(
                "UPDATE counters SET value = value + 1 WHERE name = 'lane' RETURNING value"
            ).fetchone()
            connection.execute("INSERT INTO loose VALUES (?, ?)", (lane, shard))
        return LaneId(lane)

    def add(self, queue: QueueRow) -> None:
        """Its lane is configured."""
        values = (
            queue.name,
            queue.lane,
            queue.shard,
            _encode(queue.attributes).decode(),
            _encode(queue.tags).decode(),
            queue.created,
            queue.modified,
            queue.version,
        )
        with self._transaction() as connection:
            connection.execute("INSERT INTO queues VALUES (?, ?, ?, ?, ?, ?, ?, ?)", values)
            connection.execute("DELETE FROM loose WHERE lane = ?", (queue.lane,))

    def update(self, queue: QueueRow) -> None:
        """Its lane has this configuration already."""
        attributes, tags = _encode(queue.attributes).decode(), _encode(queue.tags).decode()
        with self._transaction() as connection:
            connection.execute(
                "UPDATE queues SET attributes = ?, tags = ?, modified = ?, version = ? WHERE name = ?",
                (attributes, tags, queue.modified, queue.version, queue.name),
            )

    def remove(self, queue: QueueRow) -> None:
        """The lane is loose until it is dropped. O(FORMER_MAX)."""
        with self._transaction() as connection:
            connection.execute("DELETE FROM queues WHERE name = ?", (queue.name,))
            connection.execute("INSERT INTO former VALUES (?, ?)", (queue.lane, queue.name))
            connection.execute(
                "DELETE FROM former WHERE lane NOT IN (SELECT lane FROM former ORDER BY lane DESC LIMIT ?)",
                (FORMER_MAX,),
            )
            connection.execute("INSERT INTO loose VALUES (?, ?)", (queue.lane, queue.shard))

    def dropped(self, lane: LaneId) -> None:
        with self._transaction() as connection:
            connection.execute("DELETE FROM loose WHERE lane = ?", (lane,))

    def _transaction(self) -> sqlite3.Connection:
        """As a context: commits at its end, rolls back when it is left by an exception."""
        self._connection.execute("BEGIN IMMEDIATE")
        return self._connection
