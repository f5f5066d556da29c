"""Lanes that follow each other: a lane drains and its messages end where they are; its heirs take what comes after.

    parent    open ──Draining──▶ takes no new messages ──empty, Sealed──▶ nothing comes any more ──a while──▶ Dropped
                        │ ids of the last five minutes, highest sequence number      │
    heir      Founded ──┴─Inherited …─▶ takes messages, hands out none ──────Opened──┴──▶ open

A split has several heirs, a merge several parents, an expansion no parents, a shrinking no heirs. No message is moved.

Laws
- An heir takes nothing before it knows all ids that its parents know, so an id is accepted once; its numbers begin
  behind theirs, so that a group's never repeat or fall.
- It hands out nothing before every parent is sealed, and a lane that waits for its own parents is not sealed before:
  so a group's messages are handed out in order, however often its lane is split and merged.
- A sealed lane stays until nobody can ask again for what it answered (REQUEST_WINDOW after it began to drain).
- Everything here may be asked again at any time and then does nothing: who carries it out may change in between.
"""

import msgspec

from holdfast.core.errors import LaneDraining, ServiceUnavailable
from holdfast.core.types import Address, Instant


class Parent(msgspec.Struct):
    """What an heir knows of one of its parents."""

    address: Address
    cursor: bytes = b""  # digest of the last id that was inherited
    is_complete: bool = False  # all of them were
    is_over: bool = False  # it is sealed


class Descent(msgspec.Struct):
    """Only lanes that drain or have parents have one."""

    draining: Instant | None = None  # since when
    is_sealed: bool = False
    parents: list[Parent] = []

    @property
    def is_waiting(self) -> bool:
        """Messages of its parents come first."""
        return any(not parent.is_over for parent in self.parents)

    @property
    def is_ready(self) -> bool:
        """It knows everything that its parents know."""
        return all(parent.is_complete for parent in self.parents)

    def check_open(self) -> None:
        """May it take a new message?"""
        if self.draining is not None:
            raise LaneDraining
        if not self.is_ready:
            raise ServiceUnavailable("This part of the queue is not ready yet. Retry later.")

    def parent(self, address: Address) -> Parent | None:
        return next((parent for parent in self.parents if parent.address == address), None)

    def open(self, address: Address) -> None:
        for parent in self.parents:
            parent.is_over = parent.is_over or parent.address == address

    def seal(self) -> None:
        self.is_sealed = True
