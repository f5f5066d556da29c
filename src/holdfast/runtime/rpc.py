"""How roles talk: a front-end gives a command to a host and is told the answer; it asks the metadata who and where, and
has it changed. In one process this is a method call; over the network the same interface will have a socket in between.
"""

from collections.abc import Sequence
from typing import Any, Protocol

from holdfast.core.coordination.catalogue import QueueRow
from holdfast.core.coordination.identity import Signatory
from holdfast.core.coordination.store import Changes, Snapshot
from holdfast.core.queue.columns import Columns
from holdfast.core.queue.command import Command
from holdfast.core.types import LaneId, ShardId
from holdfast.runtime.letter import Letter


class Call:
    """Who waits for the answer to one command. `answered` is called exactly once, unless the call was cancelled, and
    never from within `submit`."""

    __slots__ = ()

    def answered(self, answer: Any, letters: Sequence[Letter], /) -> None:
        """`answer`: of the command, or why not; for a batch their list, in its order. `letters`: for a delivery or a
        peek, the contents of its messages, in its order."""
        raise NotImplementedError


class Receiver(Call):
    """A call for a receive or a peek: it says which lane it asks, since contents are found by lane."""

    __slots__ = ("lane",)

    def __init__(self, lane: LaneId) -> None:
        self.lane = lane


class Backend(Protocol):
    def submit(self, shard: ShardId, command: Command, call: Call, wait_s: int = 0) -> None:
        """`wait_s`: how long a receive that finds nothing may wait."""
        ...

    def submit_all(self, shard: ShardId, commands: Sequence[Command], call: Call) -> None:
        """A batch: done in this order, answered at once."""
        ...

    def submit_plain(self, shard: ShardId, batch: Columns, call: Call) -> None:
        """As `submit_all` of its commands; an AcceptedAll or a DeletedAll may be the answer."""
        ...

    def cancel(self, shard: ShardId, call: Call) -> bool:
        """The client of a waiting receive is gone. True: the call will not be answered; else its answer is on its
        way."""
        ...


class Metadata(Protocol):
    """What a front-end keeps a copy of. Answers at once."""

    def load(self, *prefixes: str) -> list[Snapshot]: ...

    def catch_up(self) -> Changes | None:
        """What happened since the last time, whoever did it; None: too much, so load again."""
        ...


class Signatories(Protocol):
    def find(self, key_id: str) -> Signatory | None:
        """Whose key this is; None when there is none, or it is disabled. Answers at once."""
        ...


class Catalogue(Protocol):
    """The queues, for who changes them: core/coordination/catalogue.py says how. Waits for a disk. Raises Outdated when
    a queue is not as the caller believes."""

    def loose_lanes(self) -> list[tuple[LaneId, ShardId]]: ...

    def new_lane(self, shard: ShardId) -> LaneId: ...

    def add(self, row: QueueRow) -> None: ...

    def update(self, row: QueueRow) -> None: ...

    def remove(self, row: QueueRow) -> None: ...

    def dropped(self, lane: LaneId) -> None: ...
