"""The active keys in memory, with whom they speak for. The metadata is the truth; follow.py says what has changed."""

from collections.abc import Callable
from functools import lru_cache
from typing import Final

from holdfast.core.admission.policy_text import parse_identity_policy
from holdfast.core.coordination.identity import Signatory
from holdfast.frontend.caller import Caller
from holdfast.runtime.rpc import Signatories

CALLERS_MAX: Final = 10_000  # keys held in memory
POLICIES_MAX: Final = 10_000  # parsed documents of users

NoteUse = Callable[[str, int], object]  # access key id, day; must not wait
_read_policy: Final = lru_cache(POLICIES_MAX)(parse_identity_policy)


class _Known:
    """An active key. No repr: it holds a secret."""

    __slots__ = ("caller", "name", "secret", "used_day")

    def __init__(self, found: Signatory) -> None:
        user = found.user
        policies = [_read_policy(each) for each in user.policies.values()]
        self.caller = Caller(user.account, user.arn, user.id, policies)
        self.name = user.name
        self.secret = found.secret
        self.used_day = 0


class Keyring:
    """Active keys in memory, read from the metadata when they are first needed."""

    def __init__(self, signatories: Signatories, note_use: NoteUse) -> None:
        self._signatories = signatories
        self._note_use = note_use
        self._known: dict[str, _Known] = {}
        self.catch_up: Callable[[], None] = lambda: None  # set by whoever follows the metadata

    def forget_all(self) -> None:
        self._known.clear()

    def forget_key(self, access_key: str) -> None:
        self._known.pop(access_key, None)

    def forget_user(self, account: str, name: str) -> None:
        """O(keys held)."""
        for access_key in [
            key for key, known in self._known.items() if (known.caller.account, known.name) == (account, name)
        ]:
            del self._known[access_key]

    def secret_of(self, access_key: str) -> str | None:
        known = self._known.get(access_key) or self._load(access_key)
        return known.secret if known else None

    def _load(self, access_key: str) -> _Known | None:
        self.catch_up()
        found = self._signatories.find(access_key)
        if found is None:
            return None
        if len(self._known) >= CALLERS_MAX:
            self._known.clear()
        known = self._known[access_key] = _Known(found)
        return known

    def caller(self, access_key: str, day: int) -> Caller:
        """Of a key that was just verified."""
        known = self._known[access_key]
        if known.used_day != day:
            known.used_day = day
            self._note_use(access_key, day)
        return known.caller
