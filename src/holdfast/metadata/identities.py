"""Accounts, users, keys in the metadata: making, changing, finding them. Their records: core/coordination/identity.py.

Laws
- A secret is kept only sealed under the key-encryption key, bound to the id of its key (runtime/crypto.py).
- Every change is one transaction of the store, based on what is there: two processes cannot undo each other's.
- Several processes may do this at once: the command line changes what a running server reads.
"""

import re
import secrets
import string
from collections.abc import Callable, Sequence

import msgspec

from holdfast.core.admission.policy_text import parse_identity_policy
from holdfast.core.coordination import identity
from holdfast.core.coordination.catalogue import Outdated
from holdfast.core.coordination.identity import ACCOUNTS, KEYS, MASTER, ROOT, USED, USERS, Key, Signatory, User
from holdfast.core.coordination.store import Check, Record, Transaction, Write, revision_of
from holdfast.core.errors import HoldfastError
from holdfast.metadata.service import Metadata
from holdfast.runtime import clock
from holdfast.runtime.crypto import KeyFileError, MasterKey

_IDS = string.ascii_uppercase + "234567"  # as AWS makes them: nothing that looks like something else
_SECRETS = string.ascii_letters + string.digits  # nothing that has to be quoted in a URL or a shell
_ACCOUNT = re.compile(r"[0-9]{12}").fullmatch
_USER = re.compile(r"[A-Za-z0-9+=,.@_-]{1,64}").fullmatch
_KEY_ID = re.compile(r"[A-Za-z0-9_-]{3,128}").fullmatch
_SECRET = re.compile(r"[!-~]{8,128}").fullmatch


class IdentityError(Exception):
    """What was asked for cannot be done; says what to do."""


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


class Identities:
    """Reads take microseconds, changes wait for the store. Belongs to one thread."""

    def __init__(self, metadata: Metadata, master: MasterKey) -> None:
        self._metadata = metadata
        self._master = master

    # accounts and users

    def all_accounts(self) -> list[str]:
        return [each.key.removeprefix(ACCOUNTS) for each in self._metadata.range(ACCOUNTS)]

    def check_account(self, account: str) -> None:
        _check_form(account)
        if self._metadata.get(identity.account_key(account)) is None:
            raise _no_account(account)

    def add_account(self, account: str) -> None:
        """With its root. Does nothing when it is there."""
        _check_form(account)
        now = clock.wall_ms()

        def add(held: Record | None) -> Sequence[Write]:
            if held:
                return ()
            return identity.put_account(account, now), identity.put_user(User(account, ROOT, account, now))

        self._metadata.change([identity.account_key(account)], add)

    def all_users(self) -> list[User]:
        return [identity.user_of(each) for each in self._metadata.range(USERS)]

    def user(self, account: str, name: str) -> User:
        record = self._metadata.get(identity.user_key(account, name))
        if record is None:
            self.check_account(account)
            raise IdentityError(
                f"account {account} has no user {name}. `holdfast user ls` shows who is there, "
                f"`holdfast user create {name}` makes one."
            )
        return identity.user_of(record)

    def add_user(self, account: str, name: str) -> User:
        if not _USER(name):
            raise IdentityError("the name of a user has 1 to 64 letters, digits or any of + = , . @ _ -")
        user = User(account, name, "AIDA" + _choose(_IDS, 17), clock.wall_ms())

        def add(owner: Record | None, held: Record | None) -> Sequence[Write]:
            if owner is None:
                _check_form(account)
                raise _no_account(account)
            if held:
                raise IdentityError(f"account {account} has a user {name} already.")
            return (identity.put_user(user),)

        self._metadata.change([identity.account_key(account), identity.user_key(account, name)], add)
        return user

    # policies

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
        self._change_user(user, lambda held: {**held, policy: document})

    def remove_policy(self, user: User, policy: str) -> None:
        def without(held: dict[str, str]) -> dict[str, str]:
            if policy not in held:
                raise IdentityError(f"{user.name} has no policy {policy}.")
            return {name: document for name, document in held.items() if name != policy}

        self._change_user(user, without)

    def _change_user(self, user: User, policies: Callable[[dict[str, str]], dict[str, str]]) -> None:
        def change(record: Record | None) -> Sequence[Write]:
            assert record is not None, "users stay"
            held = identity.user_of(record)
            return (identity.put_user(msgspec.structs.replace(held, policies=policies(held.policies))),)

        self._metadata.change([identity.user_key(user.account, user.name)], change)

    # keys

    def all_keys(self) -> list[Key]:
        """The newest last."""
        records = sorted(self._metadata.range(KEYS), key=lambda each: each.created)
        return sorted(map(identity.key_of, records), key=lambda each: each.created)

    def used_days(self) -> dict[str, int]:
        """When keys were last used, in days since 1970, by key id. Those that never were are not there."""
        return {each.key.removeprefix(USED): int(each.value) for each in self._metadata.range(USED)}

    def key(self, key_id: str) -> Key:
        record = self._metadata.get(identity.key_key(key_id))
        if record is None:
            raise _no_key(key_id)
        return identity.key_of(record)

    def add_key(self, user: User, credentials: Credentials | None = None) -> Credentials:
        made = credentials or Credentials.random()
        sealed = self._master.seal_secret(made.secret, key_id=made.id)
        key = Key(made.id, user.account, user.name, True, clock.wall_ms(), sealed)

        def add(held: Record | None, master: Record | None) -> Sequence[Write]:
            self._check_master(master)
            if held:
                raise IdentityError(f"there is a key {made.id} already.")
            return (identity.put_key(key),)

        self._metadata.change([identity.key_key(made.id), MASTER], add)
        return made

    def disable_key(self, key_id: str) -> None:
        def disable(held: Record | None) -> Sequence[Write]:
            if held is None:
                raise _no_key(key_id)
            return (identity.put_key(msgspec.structs.replace(identity.key_of(held), is_active=False)),)

        self._metadata.change([identity.key_key(key_id)], disable)

    def note_use(self, key_id: str, day: int) -> None:
        def note(held: Record | None) -> Sequence[Write]:
            return () if held and int(held.value) >= day else (identity.put_used(key_id, day),)

        self._metadata.change([identity.used_key(key_id)], note)

    def credentials(self, key_id: str) -> Credentials:
        return Credentials(key_id, self._master.open_secret(self.key(key_id).sealed, key_id=key_id))

    # the master key

    def claim(self) -> None:
        """Notes which master key counts, once. Raises KeyFileError if it is another one."""

        def note(held: Record | None) -> Sequence[Write]:
            self._check_master(held)
            return () if held else (identity.put_master(self._master.fingerprint),)

        self._metadata.change([MASTER], note)

    def _check_master(self, held: Record | None) -> None:
        if held and held.value != self._master.fingerprint.encode():
            raise KeyFileError(
                "master.key is not the one that the secrets of this folder are sealed with. If it was rotated just "
                "now, try again; else put the right one back."
            )

    def open_all(self) -> None:
        """Raises KeyFileError if a secret does not open."""
        for key in self.all_keys():
            self._master.open_secret(key.sealed, key_id=key.id)

    def reseal(self, old: MasterKey) -> int:
        """All secrets under this master key instead of the old one, in one transaction. Answers how many there are."""
        while True:
            records = self._metadata.range(KEYS)
            master = self._metadata.get(MASTER)
            checks = [*(Check(each.key, each.revision) for each in records), Check(MASTER, revision_of(master))]
            writes: list[Write] = [identity.put_master(self._master.fingerprint)]
            for key in map(identity.key_of, records):
                sealed = self._master.reseal(key.sealed, key_id=key.id, old=old)
                writes.append(identity.put_key(msgspec.structs.replace(key, sealed=sealed)))
            try:
                self._metadata.transact(Transaction(tuple(checks), tuple(writes)))
            except Outdated:
                self._metadata.catch_up()
                continue
            return len(records)

    # admission

    def find(self, key_id: str) -> Signatory | None:
        """Whose key this is; None when there is none, or it is disabled."""
        if not _KEY_ID(key_id):
            return None
        record = self._metadata.get(identity.key_key(key_id))
        key = identity.key_of(record) if record else None
        if key is None or not key.is_active:
            return None
        owner = self._metadata.get(identity.user_key(key.account, key.user))
        assert owner is not None, "users stay"
        return Signatory(self._master.open_secret(key.sealed, key_id=key_id), identity.user_of(owner))


def _check_form(account: str) -> None:
    if not _ACCOUNT(account):
        raise IdentityError(f"{account} is not an account: it has 12 digits, for example 000000000000.")


def _no_account(account: str) -> IdentityError:
    return IdentityError(
        f"there is no account {account}. `holdfast account ls` shows those that are there, "
        f"`holdfast account create {account}` makes it."
    )


def _no_key(key_id: str) -> IdentityError:
    return IdentityError(f"there is no key {key_id}. `holdfast key ls` shows them.")
