"""What a front-end asks of hosts, and what comes of it: the events and the output of the router, and its open calls.

    Asked, Left, Undelivered      from clients          Call, cancels     to hosts
    Answered, Lost                from hosts            Reply             to clients
    TableChanged, Woken           from around it

Laws
- A call ends in one of three ways: answered; lost before it left, so nothing was done; lost afterwards, so nobody
  knows. A call that takes too long is of the third kind, and an answer that comes later is nobody's.
- Which host did not answer lately is remembered for a moment: those who can choose go elsewhere first.
"""

from collections.abc import Callable, Sequence
from heapq import heappop, heappush
from typing import Any

from holdfast.core.cluster.table import LaneRow, Seat, Table
from holdfast.core.coordination.cluster import HostId
from holdfast.core.errors import NotPrimary
from holdfast.core.limits import CALL_PATIENCE, HOST_REST, RETRY_FIRST, RETRY_MAX, SECOND
from holdfast.core.queue.command import (
    CancelMove,
    ChangeVisibility,
    Command,
    Configure,
    Count,
    Delete,
    Delivered,
    Drop,
    ListMoves,
    Outcome,
    Peek,
    Purge,
    Receive,
    Send,
    StartMove,
)
from holdfast.core.types import Address, Epoch, Instant, QueueName, ShardId
from holdfast.core.values import Fact, Form

# What clients ask. The lane in these commands is filled in by the router.


class SendAll(Fact, frozen=True):
    """One message or a batch. Answered one by one, in this order."""

    sends: tuple[Send, ...]
    is_fifo: bool = False
    is_deduplicated: bool = False  # request deduplication on a standard queue: equal contents must meet in one lane


class ByReceipt(Fact, frozen=True):
    """Deletes and changes go where the message is. Answered one by one, in this order."""

    commands: tuple[Delete | ChangeVisibility, ...]


class Everywhere(Fact, frozen=True):
    """To every lane. Answered lane by lane, in the order of the layout; `join` makes one answer of them."""

    command: Purge | Count | Configure | Drop | Peek | StartMove | CancelMove | ListMoves


class ReceiveAny(Fact, frozen=True):
    """From whichever lane has something. Answered with one outcome."""

    receive: Receive
    wait_s: int = 0


Action = SendAll | ByReceipt | Everywhere | ReceiveAny


# Events


class Asked(Fact, frozen=True):
    token: Any  # the client's, different for each that is under way; None: nobody waits for the answer
    queue: QueueName
    action: Action


class Left(Fact, frozen=True):
    """The client is gone: what it asked for is done, but it is handed nothing."""

    token: Any


class Undelivered(Fact, frozen=True):
    """A reply could not be written: its messages become visible again at once."""

    queue: QueueName
    address: Address
    messages: tuple[Delivered, ...]


class Answered(Fact, frozen=True):
    call: int
    outcomes: Sequence[Outcome]  # of the call's commands, in their order
    letters: Any = ()  # contents of delivered messages: passed on


class Lost(Fact, frozen=True):
    """No answer will come: the host cannot be reached, or the connection broke."""

    call: int
    is_sent: bool  # False: it never left, nothing was done


class TableChanged(Fact, frozen=True):
    """Somebody fed the table."""


class Woken(Fact, frozen=True):
    """It is time (`Router.deadline`)."""


Event = Asked | Left | Undelivered | Answered | Lost | TableChanged | Woken


# Output


class Call(Fact, frozen=True):
    """Ask this host. It refuses with NotPrimary unless it leads the shard in this epoch."""

    id: int
    host: HostId
    shard: ShardId
    epoch: Epoch
    commands: tuple[Command, ...]
    wait_s: int = 0  # how long the host may wait for something to receive
    token: Any = None  # of the client it is made for; None: for several, or for nobody


class Placed(Fact, frozen=True):
    """An outcome, and the lane it came from: message ids and receipts are made of both."""

    outcome: Outcome
    address: Address | None = None  # None: no lane was asked
    letters: Any = ()


class Reply(Fact, frozen=True):
    token: Any
    outcomes: tuple[Placed, ...]


class Output(Form):
    calls: list[Call] = []
    cancels: list[int] = []  # calls whose answer nobody waits for any more
    replies: list[Reply] = []


class _Open:
    __slots__ = ("host", "is_cancelled", "owner")

    def __init__(self, owner: Any, host: HostId) -> None:
        self.owner = owner
        self.host = host
        self.is_cancelled = False


class Calls:
    """The open calls, the alarms, and who was silent lately."""

    def __init__(self, table: Table, *, name: bytes, choose: Callable[[int], int]) -> None:
        assert len(name) == 8, "of this start of this front-end, never used before"
        self.table = table
        self.choose = choose  # a number below n, by chance
        self.output = Output()
        self._name = name
        self._requests = 0
        self._last = 0
        self._open: dict[int, _Open] = {}
        self._alarms: list[tuple[Instant, int, Any]] = []  # heap; the number keeps the order
        self._alarms_set = 0
        self._resting: dict[HostId, Instant] = {}

    def request_id(self) -> bytes:
        self._requests += 1
        return self._name + self._requests.to_bytes(8)

    # Calls

    def start(
        self,
        owner: Any,
        seat: Seat,
        shard: ShardId,
        commands: Sequence[Command],
        now: Instant,
        *,
        token: Any = None,
        wait_s: int = 0,
    ) -> int:
        self._last += 1
        self._open[self._last] = _Open(owner, seat.host)
        self.output.calls.append(Call(self._last, seat.host, shard, seat.epoch, tuple(commands), wait_s, token))
        self.alarm(Instant(now + CALL_PATIENCE + wait_s * SECOND), self._last)
        return self._last

    def close(self, call: int) -> Any:
        """Who made it; None: it was over already."""
        held = self._open.pop(call, None)
        return held.owner if held is not None else None

    def heard(self, call: int) -> Any:
        """It was answered. Who made it, as `close`."""
        if call in self._open:
            self._resting.pop(self._open[call].host, None)
        return self.close(call)

    def silent(self, call: int, now: Instant) -> Any:
        """Its host did not answer: others are asked first for a while. Who made it, as `close`."""
        held = self._open.get(call)
        if held is not None and not held.is_cancelled:
            self._resting[held.host] = Instant(now + HOST_REST)
        return self.close(call)

    def cancel(self, call: int) -> None:
        """Nobody waits for the answer. It may come all the same, or never."""
        self._open[call].is_cancelled = True
        self.output.cancels.append(call)

    # Hosts

    def seat(self, row: LaneRow) -> Seat | None:
        """Whom to ask; None: nobody leads the lane's shard just now."""
        seat = self.table.seat(row.shard)
        return seat if seat is not None and seat.is_active else None

    def is_resting(self, host: HostId, now: Instant) -> bool:
        until = self._resting.get(host)
        if until is not None and until <= now:
            del self._resting[host]
            return False
        return until is not None

    def hint(self, shard: ShardId, refusal: NotPrimary) -> None:
        if refusal.host:
            self.table.hint(shard, Seat(HostId(refusal.host), Epoch(refusal.epoch)))

    # Time

    def backoff(self, tries: int) -> int:
        """Half of it fixed, half by chance, so that those who failed together do not come back together."""
        whole = min(RETRY_FIRST << min(tries - 1, 16), RETRY_MAX)
        return whole // 2 + self.choose(whole // 2 + 1)

    def alarm(self, when: Instant, what: Any) -> None:
        self._alarms_set += 1
        heappush(self._alarms, (when, self._alarms_set, what))

    def deadline(self) -> Instant | None:
        """O(log n) for each alarm that is out of date."""
        alarms = self._alarms
        while alarms and type(alarms[0][2]) is int and alarms[0][2] not in self._open:
            heappop(alarms)  # a call that is over
        return alarms[0][0] if alarms else None

    def due(self, now: Instant) -> list[Any]:
        """What was to be looked at by now: numbers of calls that took too long, and whatever else was given."""
        found: list[Any] = []
        while (deadline := self.deadline()) is not None and deadline <= now:
            found.append(heappop(self._alarms)[2])
        return found
