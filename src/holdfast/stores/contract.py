"""What every store can do. One suite, tests/contract, runs on each; core/coordination/store.py says what words mean."""

from typing import Protocol

from holdfast.core.coordination.store import Changes, LeaseId, Record, Snapshot, Transaction


class Store(Protocol):
    """May block on a disk or a network: belongs to one thread, which can wait. Whatever was written is durable, as far
    as the store is, when a method returns."""

    def get(self, key: str) -> Record | None: ...

    def range(self, prefix: str) -> Snapshot:
        """All records whose keys begin with `prefix`, as of one revision."""
        ...

    def transact(self, transaction: Transaction) -> bool:
        """Whether the checks held and the writes happened."""
        ...

    def watch(self, prefix: str, after: int, *, wait_s: float = 0.0) -> Changes:
        """Events after a revision; waits for the first for so long. Raises Compacted."""
        ...

    def grant(self, life_s: float) -> LeaseId:
        """A lease, to which records can be bound: they go when it is not renewed in time."""
        ...

    def renew(self, lease: LeaseId) -> bool:
        """False: it has ended."""
        ...

    def revoke(self, lease: LeaseId) -> None:
        """Ends it now. Does nothing when it has ended."""
        ...
