"""The invariants of one run. Witness of every host; keeps the account, asks each checker, counts what was checked.

custody.py     I1 I2 I7         deliveries.py  I9 I10 I11 I13 I19        sends.py  I11 I12
here           I13 (time)  I16  I17  I20  I21
"""

from typing import TYPE_CHECKING

from holdfast.core.errors import CorruptLog, HoldfastError
from holdfast.core.log.primary import Primary
from holdfast.core.queue.command import (
    Accepted,
    ChangeVisibility,
    Configure,
    Delete,
    Delivery,
    Drop,
    Purge,
    Receive,
    Send,
    StartMove,
)
from holdfast.core.types import ShardId
from tests.sim import replayed
from tests.sim.account import Account, lane_of
from tests.sim.cipher import SealBook
from tests.sim.custody import Custody
from tests.sim.deliveries import Deliveries
from tests.sim.request import Request
from tests.sim.sends import Sends
from tests.sim.tally import Tally
from tests.sim.world import SECOND, Violation, World

if TYPE_CHECKING:
    from tests.sim.host import Host

COMPARE_EVERY = 6 * SECOND  # live state against disk, per shard


class Checkers:
    def __init__(self, world: World, account: Account, seals: SealBook, *, window: int = 300 * SECOND) -> None:
        self.tally = Tally()
        self.account = account
        self.acknowledged = 0
        self._world = world
        self._seals = seals
        self.custody = Custody(world, account, self.tally, window=window)
        self._deliveries = Deliveries(account, self.tally)
        self._sends = Sends(account, self.tally, window=window)
        self._stamps: dict[int, int] = {}
        self._compare_at: dict[int, int] = {}

    # Requests

    def begun(self, request: Request) -> None:
        command = request.command
        match command:
            case Send():
                self.custody.send_begun(request)
            case Receive():
                self.account.lanes[command.lane].receives_open += 1
            case Delete():
                self._deliveries.delete_begun(request)
            case ChangeVisibility():
                self._deliveries.change_begun(request)
            case Purge() | Drop():
                self.account.lanes[command.lane].clears_open += 1
            case Configure():
                self.account.lanes[command.lane].configure(command.config, request.begun)
            case StartMove():
                self._task_begun(command)
            case _:
                pass

    def ended(self, request: Request) -> None:
        answer, command = request.answer, request.command
        self._world.note(f"{request.number} {type(command).__name__} -> {_say(answer)}")
        match command:
            case Send():
                self.custody.send_ended(request)
                if isinstance(answer, Accepted):
                    self.acknowledged += 1
                    if not self.account.lanes[command.lane].is_async:
                        self._sends.ended(request, answer)
            case Receive():
                self.account.lanes[command.lane].receives_open -= 1
                if isinstance(answer, Delivery):
                    self._received(request, answer)
            case Delete():
                if request.is_done:
                    self._deliveries.delete_ended(request)
            case ChangeVisibility():
                self._deliveries.change_over(request, is_done=request.is_done)
            case Purge() | Drop():
                self._cleared(request)
            case _:
                pass

    def abandoned(self, request: Request) -> None:
        """Nobody will ever answer it. What it did, if anything, is done."""
        if not request.begun:
            return
        command = request.command
        match command:
            case Send():
                self.custody.send_abandoned(request)
                request.about.own_ended = request.own_begun + request.ended - request.begun
            case Receive():
                lane = self.account.lanes[command.lane]
                lane.receives_open -= 1
                lane.receives_unknown += 1
                lane.unknown_count += command.count_max
            case ChangeVisibility():
                self._deliveries.change_over(request, is_done=False)
            case Purge() | Drop():
                self._cleared(request)
            case _:
                pass

    def _received(self, request: Request, delivery: Delivery) -> None:
        if not delivery.messages:
            self._deliveries.found_nothing(request)
        letters = self.custody.received(request, delivery)
        self._deliveries.received(request, delivery, letters)
        lane = self.account.lanes[lane_of(request)]
        for letter in letters if not lane.is_async else ():
            self._sends.delivered(lane, letter)

    def _cleared(self, request: Request) -> None:
        lane = self.account.lanes[lane_of(request)]
        lane.clears_open -= 1
        lane.cleared_at = request.ended

    def _task_begun(self, command: StartMove) -> None:
        lane, now = self.account.lanes[command.lane], self._world.now
        lane.is_left_by_tasks = True
        if command.target is not None:
            lane.targets.setdefault(command.target.lane, now)
            return
        for other in list(self.account.lanes.values()):  # back to where each message came from
            if command.lane in other.targets:
                lane.targets.setdefault(other.lane, now)

    # Hosts

    def recovered(self, host: "Host", shard: ShardId, primary: Primary) -> None:
        """A start came through: from the older snapshot the log has to lead to the same state."""
        self.tally.counts["I17"] += 1
        self._compare_at[shard] = 0
        if not host.disk.flips and host.starts % 3 == 0:
            self._compare(host, shard, primary, is_older=True)

    def synced(self, host: "Host", shard: ShardId, primary: Primary, stamp: int) -> None:
        now = self._world.now
        is_steady = self._stamps.get(shard, 0) <= stamp <= now
        text = f"shard {shard}: stamp {stamp} after {self._stamps.get(shard, 0)} at {now}"
        self.tally.check("I13", is_steady, text)
        self._stamps[shard] = stamp
        journal = primary.journal
        is_settled = journal.appended == journal.durable and not host.disk.flips
        if is_settled and now >= self._compare_at.get(shard, 0):
            self._compare_at[shard] = now + COMPARE_EVERY
            self._compare(host, shard, primary)

    def _compare(self, host: "Host", shard: ShardId, primary: Primary, *, is_older: bool = False) -> None:
        what = f"{'older' if is_older else 'newest'} snapshot and log"
        try:
            other = replayed.state(host.disk, shard, skip_newest=is_older)
        except CorruptLog as problem:
            raise Violation("I21", f"shard {shard}: {what} cannot be replayed: {problem}") from problem
        if other is None:
            return
        live = primary.shard
        if other.now != live.now or other.epoch != live.epoch:
            other.begin(live.epoch, live.now, live.wall)
        other.wall = live.wall
        difference = replayed.difference(live, other)
        self.tally.check("I21", not difference, f"shard {shard}: live state and {what} differ: {difference}")

    def corrupt(self, host: "Host", problem: CorruptLog) -> None:
        """The host stopped and named what is damaged. Right, if something was; then it is brought back."""
        is_just_repaired = self._world.now - host.repaired_at < SECOND  # it was being read meanwhile
        is_damaged = bool(host.disk.flips) or is_just_repaired
        self.tally.check("I17", is_damaged, f"nothing was damaged, and the host stopped: {problem}")
        for flip in host.disk.repair():
            self._world.note(f"noticed: {flip.what}")
        self.tally.counts["I16"] += 1

    # The end

    def settle(self) -> None:
        self.custody.settle()
        self.tally.counts["I20"] += self._seals.seals
        self.tally.check("I20", not self._seals.repeated, f"used twice: {self._seals.repeated[:3]}")


def _say(answer: object) -> str:
    match answer:
        case HoldfastError():
            return type(answer).__name__
        case Delivery():
            return " ".join(f"#{each.header.seq}.{each.number}" for each in answer.messages)
        case Accepted():
            return f"#{answer.seq} {answer.lsn}"
        case _:
            return type(answer).__name__
