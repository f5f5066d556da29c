"""Data folders of earlier versions: `catalogue.db` and `identities.db` become records of the store, at the first start.

All of it is one transaction, so a crash leaves either the old files or the whole. Then the old files are renamed; they
are of no use to this version, and may be removed.
"""

import sqlite3
from contextlib import closing
from pathlib import Path

import msgspec

from holdfast.core.coordination import catalogue, identity
from holdfast.core.coordination.catalogue import LAST_LANE, Former, QueueRow
from holdfast.core.coordination.identity import Key, User
from holdfast.core.coordination.store import Put, Write
from holdfast.core.types import QueueName, WallMs
from holdfast.metadata.service import MetadataError, begin, check_format
from holdfast.stores.contract import Store

CATALOGUE = "catalogue.db"
IDENTITIES = "identities.db"
IMPORTED = ".imported"  # what is appended to the names of the old files
ONLY_ACCOUNT = "000000000000"  # of catalogues of format 1, which had no accounts

_decode = msgspec.json.Decoder(dict[str, str]).decode


def prepare(store: Store, data: Path) -> None:
    """The store is ready afterwards: empty, or with what was found in the folder. May be repeated after a crash."""
    old = [data / CATALOGUE, data / IDENTITIES]
    if not check_format(store, where=data):
        writes = [*_read_catalogue(old[0]), *_read_identities(old[1])]
        begin(store, writes)
    for path in old:
        if path.exists():
            path.rename(path.with_name(path.name + IMPORTED))


def _open(path: Path, *versions: int) -> tuple[sqlite3.Connection, int]:
    connection = sqlite3.connect(path)
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    if version not in (0, *versions):
        connection.close()
        raise MetadataError(
            f"{path} has format {version}, which this Holdfast does not know. Use the one that wrote it."
        )
    return connection, version


def _read_catalogue(path: Path) -> list[Write]:
    if not path.exists():
        return []
    connection, version = _open(path, 1, 2)
    with closing(connection):
        if version == 0:  # made, and never written
            return []
        account = f"'{ONLY_ACCOUNT}'" if version == 1 else "account"
        rows = connection.execute(
            f"SELECT {account}, name, lane, shard, attributes, tags, created, modified, version FROM queues"
        ).fetchall()
        queues = [
            QueueRow(QueueName(owner, name), lane, shard, _decode(attributes), _decode(tags), *rest)
            for owner, name, lane, shard, attributes, tags, *rest in rows
        ]
        (last,) = connection.execute("SELECT value FROM counters WHERE name = 'lane'").fetchone()
        return [
            *map(catalogue.put_row, queues),
            *(catalogue.put_loose(*row) for row in connection.execute("SELECT lane, shard FROM loose")),
            *map(catalogue.put_former, _read_former(connection, account)),
            Put(LAST_LANE, b"%d" % last),
        ]


def _read_former(connection: sqlite3.Connection, account: str) -> list[Former]:
    """The table came later than the others."""
    if not connection.execute("SELECT 1 FROM sqlite_master WHERE name = 'former'").fetchone():
        return []
    rows = connection.execute(f"SELECT lane, {account}, name FROM former")
    return [Former(lane, QueueName(owner, name), WallMs(0)) for lane, owner, name in rows]


def _read_identities(path: Path) -> list[Write]:
    if not path.exists():
        return []
    connection, version = _open(path, 1)
    with closing(connection):
        if version == 0:
            return []
        accounts = connection.execute("SELECT id, created FROM accounts").fetchall()
        users = connection.execute("SELECT account, name, id, created FROM users").fetchall()
        policies: dict[tuple[str, str], dict[str, str]] = {}
        for account, user, name, document in connection.execute("SELECT account, user, name, document FROM policies"):
            policies.setdefault((account, user), {})[name] = document
        keys = connection.execute(
            "SELECT id, account, user, is_active, created, secret, used_day FROM keys ORDER BY created, rowid"
        ).fetchall()
    return [
        *(identity.put_account(account, _ms(created)) for account, created in accounts),
        *(
            identity.put_user(User(account, name, user_id, _ms(created), policies.get((account, name), {})))
            for account, name, user_id, created in users
        ),
        *(
            # those of one second stay in order
            identity.put_key(Key(key_id, account, user, bool(is_active), WallMs(_ms(created) + place), secret))
            for place, (key_id, account, user, is_active, created, secret, _) in enumerate(keys)
        ),
        *(identity.put_used(row[0], row[-1]) for row in keys if row[-1]),
    ]


def _ms(seconds: int) -> WallMs:
    return WallMs(seconds * 1000)
