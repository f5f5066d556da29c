"""Where the admin port gets what it shows. Filled by cli/admin.py: the console does not know the roles."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path

from holdfast.console.chores import Chores
from holdfast.console.facts import Account, Key, User
from holdfast.console.parts import Part
from holdfast.runtime.config.loading import Loaded


class Duty:
    """Whether load balancers should send work here. Only the answer of /in-service depends on it: whoever still asks is
    served. `mark` is a file that outlives a worker that is replaced; None: there is nobody who would replace it."""

    def __init__(self, mark: Path | None = None) -> None:
        self._mark = mark
        self.is_draining = mark is not None and mark.exists()

    def set(self, *, is_draining: bool) -> None:
        """By an operator."""
        self.is_draining = is_draining
        if self._mark is not None and is_draining:
            self._mark.touch()
        elif self._mark is not None:
            self._mark.unlink(missing_ok=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class Sources:
    loaded: Loaded
    data: Path
    metrics_token: str = field(repr=False)
    duty: Duty
    chores: Chores
    accounts: Callable[[], list[Account]]
    users: Callable[[], list[User]]
    keys: Callable[[], list[Key]]
    queue_count: Callable[[], int]
    is_complete: Callable[[], bool]  # all workers are there
    whole: Callable[[], Awaitable[Part]]  # what all workers know, as of now
