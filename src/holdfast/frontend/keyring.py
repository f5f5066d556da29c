"""The active keys in memory, with whom they speak for. The store is the truth (stores/identities.py)."""

from collections.abc import Callable
from functools import lru_cache

from holdfast.core.policy_text import parse_identity_policy
from holdfast.frontend.caller import Caller
from holdfast.stores.identities import Identities, Signatory

CALLERS_MAX = 10_000  # keys held in memory
POLICIES_MAX = 10_000  # parsed documents of users

NoteUse = Callable[[str, int], object]  # access key id, day; must not wait
_read_policy = lru_cache(POLICIES_MAX)(parse_identity_policy)


class _Known:
    """An active key. No repr: it holds a secret."""

    __slots__ = ("caller", "secret", "used_day")

    def __init__(self, found: Signatory) -> None:
        policies = [_read_policy(each) for each in found.policies]
        self.caller = Caller(found.user.account, found.user.arn, found.user.id, policies)
        self.secret = found.secret
        self.used_day = 0


class Keyring:
    """Active keys in memory, read from the store when they are first needed."""

    def __init__(self, identities: Identities, note_use: NoteUse) -> None:
        self._identities = identities
        self._note_use = note_use
        self._known: dict[str, _Known] = {}
        self._version = identities.version()

    def refresh(self) -> None:
        """Forgets everything if another process changed something. Once a second, and when a key is not known."""
        version = self._identities.version()
        if version != self._version:
            self._version = version
            self._known.clear()

    def secret_of(self, access_key: str) -> str | None:
        known = self._known.get(access_key) or self._load(access_key)
        return known.secret if known else None

    def _load(self, access_key: str) -> _Known | None:
        self.refresh()
        found = self._identities.find(access_key)
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
