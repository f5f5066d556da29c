"""Who may ask: accounts, their users, and the keys that requests are signed with. In SQLite.

    accounts  12 digits
    users     account, name → id; the user `root` is the account itself
    policies  account, user, name → document, as core/policy_text.py understands it
    keys      access key id → secret (sealed), account, user, active or not, created, day of last use

Laws
- A secret is on disk only sealed under the key-encryption key, bound to the id of its key (runtime/crypto.py).
- Every change is one transaction, synced before the method returns (WAL, synchronous=FULL).
- Several processes may have it open: the command line changes what a running server reads, and `version` tells the
  server that somebody else changed something.
"""

import re
import secrets
import sqlite3
import string
from pathlib import Path

import msgspec

from holdfast.core.errors import HoldfastError
from holdfast.core.policy_text import parse_identity_policy
from holdfast.runtime import clock
from holdfast.runtime.crypto import MasterKey

VERSION = 1
ROOT = "root"
DAY_S = 86_400
_SCHEMA = """
CREATE TABLE accounts (id TEXT PRIMARY KEY, created INTEGER NOT NULL) STRICT;
CREATE TABLE users (
    account TEXT NOT NULL REFERENCES accounts, name TEXT NOT NULL, id TEXT NOT NULL UNIQUE, created INTEGER NOT NULL,
    PRIMARY KEY (account, name)
) STRICT;
CREATE TABLE policies (
    account TEXT NOT NULL, user TEXT NOT NULL, name TEXT NOT NULL, document TEXT NOT NULL,
    PRIMARY KEY (account, user, name), FOREIGN KEY (account, user) REFERENCES users (account, name)
) STRICT;
CREATE TABLE keys (
    id TEXT PRIMARY KEY, secret BLOB NOT NULL, account TEXT NOT NULL, user TEXT NOT NULL, is_active INTEGER NOT NULL,
    created INTEGER NOT NULL, used_day INTEGER NOT NULL, FOREIGN KEY (account, user) REFERENCES users (account, name)
) STRICT;
"""
_KEY_COLUMNS = "id, account, user, is_active, created, used_day"
_IDS = string.ascii_uppercase + "234567"  # as AWS makes them: nothing that looks like something else
_SECRETS = string.ascii_letters + string.digits  # nothing that has to be quoted in a URL or a shell
_ACCOUNT = re.compile(r"[0-9]{12}").fullmatch
_USER = re.compile(r"[A-Za-z0-9+=,.@_-]{1,64}").fullmatch
_KEY_ID = re.compile(r"[A-Za-z0-9_-]{3,128}").fullmatch
_SECRET = re.compile(r"[!-~]{8,128}").fullmatch


class IdentityError(Exception):
    """What was asked for cannot be done; says what to do."""


class User(msgspec.Struct, frozen=True):
    account: str
    name: str
    id: str  # the account itself for root
    created: int  # seconds since 1970

    @property
    def arn(self) -> str:
        kind = self.name if self.name == ROOT else f"user/{self.name}"
        return f"arn:aws:iam::{self.account}:{kind}"


class Key(msgspec.Struct, frozen=True):
    """Without its secret."""

    id: str
    account: str
    user: str
    is_active: bool
    created: int
    used_day: int  # days since 1970; 0: never


class Credentials(msgspec.Struct, frozen=True):
    """A key with its secret, which stays out of every repr."""

    id: str
    secret: str

    def __repr__(self) -> str:
        return f"Credentials({self.id})"

    @classmethod
    def checked(cls, key_id: str, secret: str) -> "Credentials":
        if not _KEY_ID(key_id):
            raise IdentityError(
                "an access key id has 3 to 128 letters, digits, hyphens or underscores, and the given one is different."
            )
        if not _SECRET(secret):
            raise IdentityError(
                "a secret access key has 8 to 128 printable ASCII characters without spaces, and the given one is "
                "different."
            )
        return cls(key_id, secret)

    @classmethod
    def random(cls) -> "Credentials":
        return cls("AKIA" + _choose(_IDS, 16), _choose(_SECRETS, 40))


def _choose(alphabet: str, count: int) -> str:
    return "".join(secrets.choice(alphabet) for _ in range(count))


class Signatory(msgspec.Struct, frozen=True):
    """All that admission needs of an active key."""

    secret: str
    user: User
    policies: tuple[str, ...]

    def __repr__(self) -> str:
        return f"Signatory({self.user.arn})"


class Identities:
    """Reads take microseconds; changes wait for the disk. Used by one thread at a time."""

    def __init__(self, path: Path, master: MasterKey) -> None:
        self._master = master
        self._connection = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
        self._connection.execute("PRAGMA journal_mode = WAL")
        self._connection.execute("PRAGMA synchronous = FULL")
        self._connection.execute("PRAGMA foreign_keys = ON")
        self._migrate(path)

    def _migrate(self, path: Path) -> None:
        (version,) = self._connection.execute("PRAGMA user_version").fetchone()
        if version == 0:
            self._connection.executescript(f"BEGIN; {_SCHEMA} PRAGMA user_version = {VERSION}; COMMIT;")
        elif version != VERSION:
            self.close()
            raise IdentityError(
                f"{path} has format {version}, this Holdfast reads format {VERSION}. Use the version that wrote it."
            )

    def close(self) -> None:
        self._connection.close()

    def version(self) -> int:
        """Another number when another connection has changed something."""
        (version,) = self._connection.execute("PRAGMA data_version").fetchone()
        return int(version)

    # users

    def all_users(self) -> list[User]:
        rows = self._connection.execute("SELECT account, name, id, created FROM users ORDER BY account, name")
        return [User(*row) for row in rows]

    def user(self, account: str, name: str) -> User:
        row = self._connection.execute(
            "SELECT account, name, id, created FROM users WHERE account = ? AND name = ?", (account, name)
        ).fetchone()
        if row is None:
            self.check_account(account)
            raise IdentityError(
                f"account {account} has no user {name}. `holdfast user ls` shows who is there, "
                f"`holdfast user create {name}` makes one."
            )
        return User(*row)

    def all_accounts(self) -> list[str]:
        return [account for (account,) in self._connection.execute("SELECT id FROM accounts ORDER BY id")]

    def check_account(self, account: str) -> None:
        if account in self.all_accounts():
            return
        _check_form(account)
        raise IdentityError(
            f"there is no account {account}. `holdfast account ls` shows those that are there, "
            f"`holdfast account create {account}` makes it."
        )

    def add_account(self, account: str) -> None:
        """With its root. Does nothing when it is there."""
        _check_form(account)
        now_s = _now_s()
        with self._transaction() as connection:
            connection.execute("INSERT OR IGNORE INTO accounts VALUES (?, ?)", (account, now_s))
            connection.execute("INSERT OR IGNORE INTO users VALUES (?, ?, ?, ?)", (account, ROOT, account, now_s))

    def add_user(self, account: str, name: str) -> User:
        if not _USER(name):
            raise IdentityError("the name of a user has 1 to 64 letters, digits or any of + = , . @ _ -")
        self.check_account(account)
        user = User(account, name, "AIDA" + _choose(_IDS, 17), _now_s())
        try:
            with self._transaction() as connection:
                connection.execute("INSERT INTO users VALUES (?, ?, ?, ?)", (account, name, user.id, user.created))
        except sqlite3.IntegrityError:
            raise IdentityError(f"account {account} has a user {name} already.") from None
        return user

    # policies

    def policies(self, account: str, name: str) -> dict[str, str]:
        """Documents by name."""
        rows = self._connection.execute(
            "SELECT name, document FROM policies WHERE account = ? AND user = ? ORDER BY name", (account, name)
        )
        return dict(rows.fetchall())

    def put_policy(self, user: User, policy: str, *, document: str) -> None:
        """Replaces the one of that name."""
        if user.name == ROOT:
            raise IdentityError("root may do everything in its account, and needs no policy. Make a user for less.")
        if not policy or not policy.isprintable():
            raise IdentityError("the name of a policy must be printable and not empty.")
        try:
            parse_identity_policy(document)
        except HoldfastError as problem:
            raise IdentityError(problem.message) from None
        with self._transaction() as connection:
            connection.execute(
                "INSERT OR REPLACE INTO policies VALUES (?, ?, ?, ?)", (user.account, user.name, policy, document)
            )

    def remove_policy(self, user: User, policy: str) -> None:
        with self._transaction() as connection:
            done = connection.execute(
                "DELETE FROM policies WHERE account = ? AND user = ? AND name = ?", (user.account, user.name, policy)
            )
        if not done.rowcount:
            raise IdentityError(f"{user.name} has no policy {policy}.")

    # keys

    def all_keys(self) -> list[Key]:
        """The newest last."""
        rows = self._connection.execute(f"SELECT {_KEY_COLUMNS} FROM keys ORDER BY created, rowid")
        return [Key(each[0], each[1], each[2], bool(each[3]), each[4], each[5]) for each in rows]

    def key(self, key_id: str) -> Key:
        for each in self.all_keys():
            if each.id == key_id:
                return each
        raise IdentityError(f"there is no key {key_id}. `holdfast key ls` shows them.")

    def add_key(self, user: User, credentials: Credentials | None = None) -> Credentials:
        made = credentials or Credentials.random()
        sealed = self._master.seal_secret(made.secret, key_id=made.id)
        try:
            with self._transaction() as connection:
                connection.execute(
                    "INSERT INTO keys VALUES (?, ?, ?, ?, 1, ?, 0)",
                    (made.id, sealed, user.account, user.name, _now_s()),
                )
        except sqlite3.IntegrityError:
            raise IdentityError(f"there is a key {made.id} already.") from None
        return made

    def disable_key(self, key_id: str) -> None:
        with self._transaction() as connection:
            done = connection.execute("UPDATE keys SET is_active = 0 WHERE id = ?", (key_id,))
        if not done.rowcount:
            raise IdentityError(f"there is no key {key_id}. `holdfast key ls` shows them.")

    def note_use(self, key_id: str, day: int) -> None:
        with self._transaction() as connection:
            connection.execute("UPDATE keys SET used_day = max(used_day, ?) WHERE id = ?", (day, key_id))

    def credentials(self, key_id: str) -> Credentials:
        (sealed,) = self._connection.execute("SELECT secret FROM keys WHERE id = ?", (key_id,)).fetchone()
        return Credentials(key_id, self._master.open_secret(sealed, key_id=key_id))

    def find(self, key_id: str) -> Signatory | None:
        """Whose key this is; None when there is none, or it is disabled."""
        row = self._connection.execute(
            "SELECT keys.secret, users.account, users.name, users.id, users.created FROM keys JOIN users "
            "ON users.account = keys.account AND users.name = keys.user WHERE keys.id = ? AND is_active",
            (key_id,),
        ).fetchone()
        if row is None:
            return None
        user = User(*row[1:])
        documents = tuple(self.policies(user.account, user.name).values())
        return Signatory(self._master.open_secret(row[0], key_id=key_id), user, documents)

    def _transaction(self) -> sqlite3.Connection:
        """As a context: commits at its end, rolls back when it is left by an exception."""
        self._connection.execute("BEGIN IMMEDIATE")
        return self._connection


def _check_form(account: str) -> None:
    if not _ACCOUNT(account):
        raise IdentityError(f"{account} is not an account: it has 12 digits, for example 000000000000.")


def _now_s() -> int:
    return clock.wall_ms() // 1000
