"""Who may ask, as records of a store: accounts, their users, and the keys that requests are signed with.

account/ACCOUNT    when it was made
user/ACCOUNT/NAME  id, policies; the user `root` is the account itself
key/ACCESS_KEY_ID  secret (sealed), account, user, active or not
used/ACCESS_KEY_ID day of last use; apart, so that using a key does not look like changing it
master             fingerprint of the master key that seals the secrets
"""

import msgspec

from holdfast.core.coordination.store import Put, Record
from holdfast.core.types import WallMs

ACCOUNTS = "account/"
USERS = "user/"
KEYS = "key/"
USED = "used/"
MASTER = "master"
ROOT = "root"
DAY_S = 86_400


class User(msgspec.Struct, frozen=True):
    account: str
    name: str
    id: str  # the account itself for root
    created: WallMs
    policies: dict[str, str] = {}  # documents by name, as core/admission/policy_text.py understands them

    @property
    def arn(self) -> str:
        kind = self.name if self.name == ROOT else f"user/{self.name}"
        return f"arn:aws:iam::{self.account}:{kind}"


class Key(msgspec.Struct, frozen=True):
    """With its secret sealed under the key-encryption key, bound to its id (runtime/crypto.py)."""

    id: str
    account: str
    user: str
    is_active: bool
    created: WallMs
    sealed: bytes


class Signatory(msgspec.Struct, frozen=True):
    """All that admission needs of an active key. The secret stays out of every repr."""

    secret: str
    user: User

    def __repr__(self) -> str:
        return f"Signatory({self.user.arn})"


class _Account(msgspec.Struct, frozen=True):
    created: WallMs


class _User(msgspec.Struct, frozen=True):
    id: str
    created: WallMs
    policies: dict[str, str]


class _Key(msgspec.Struct, frozen=True):
    account: str
    user: str
    is_active: bool
    created: WallMs
    sealed: bytes


_encode = msgspec.json.Encoder().encode
_decode_user = msgspec.json.Decoder(_User).decode
_decode_key = msgspec.json.Decoder(_Key).decode


def account_key(account: str) -> str:
    return ACCOUNTS + account


def user_key(account: str, name: str) -> str:
    return f"{USERS}{account}/{name}"


def key_key(key_id: str) -> str:
    return KEYS + key_id


def used_key(key_id: str) -> str:
    return USED + key_id


def user_of(record: Record) -> User:
    _, account, name = record.key.split("/")
    held = _decode_user(record.value)
    return User(account, name, held.id, held.created, held.policies)


def key_of(record: Record) -> Key:
    held = _decode_key(record.value)
    key_id = record.key.removeprefix(KEYS)
    return Key(key_id, held.account, held.user, held.is_active, held.created, held.sealed)


def put_account(account: str, created: WallMs) -> Put:
    return Put(account_key(account), _encode(_Account(created)))


def put_user(user: User) -> Put:
    return Put(user_key(user.account, user.name), _encode(_User(user.id, user.created, user.policies)))


def put_key(key: Key) -> Put:
    held = _Key(key.account, key.user, key.is_active, key.created, key.sealed)
    return Put(key_key(key.id), _encode(held))


def put_used(key_id: str, day: int) -> Put:
    """`day`: days since 1970."""
    return Put(used_key(key_id), b"%d" % day)


def put_master(fingerprint: str) -> Put:
    return Put(MASTER, fingerprint.encode())
