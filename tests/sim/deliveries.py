"""What receives show: I9 (deletes hold), I10 and I11 (FIFO), I13 (leases and delays), I19 (receive counts).

A lease of T that was asked for in a request begun at b lasts at least until b + T, for it was decided later and cluster
time is never faster than the simulation's. Only what is certain is held against the core.
"""

from holdfast.core.limits import TIMER_STEP
from holdfast.core.queue.command import ChangeVisibility, Delete, Delivered, Delivery, Receive
from tests.sim.account import FOREVER, Account, Holding, LaneAccount, Letter, Row, lane_of
from tests.sim.request import Request
from tests.sim.tally import Tally
from tests.sim.world import SECOND

PATIENCE = SECOND  # how long somebody in a long poll may wait for what is there


class Meddling:
    """What a delete or change is about: the place that its receipt names."""

    __slots__ = ("holding", "is_forged", "until")

    def __init__(self, holding: Holding, *, is_forged: bool = False) -> None:
        self.holding = holding
        self.is_forged = is_forged  # it must not have any effect
        self.until = 0  # end of the certain lease when the request began


class Deliveries:
    def __init__(self, account: Account, tally: Tally) -> None:
        self._account = account
        self._tally = tally

    # Receives

    def found_nothing(self, request: Request) -> None:
        """Right, unless something was certainly there, visible and in nobody's hands. Standard queues only."""
        lane = self._account.lanes[lane_of(request)]
        is_late = request.ended - request.begun > request.wait_s * SECOND + PATIENCE  # paused, or a slow disk
        is_certain = lane.is_simple and not (lane.is_fifo or lane.is_once or lane.receives_unknown)
        if is_late or not is_certain or lane.receives_open or request.reign:  # of several hosts one may be unsure
            return
        latest = (request.own_ended - PATIENCE if request.wait_s else request.own_begun) - TIMER_STEP
        for letter in lane.unseen.values():
            is_there = not letter.key and request.ended - letter.begun < lane.life(letter)
            delay = letter.delay_s * SECOND if letter.delay_s >= 0 else lane.longest_delay
            if is_there and letter.own_ended + delay < latest and not lane.is_maybe_cleared_since(letter.begun):
                text = f"{lane.queue.name}: nothing for {request.number}, while #{letter.seq} waits"
                self._tally.check("liveness", False, text)
        self._tally.counts["liveness"] += 1

    def received(self, request: Request, delivery: Delivery, letters: list[Letter]) -> None:
        lane = self._account.lanes[lane_of(request)]
        if lane.is_async:
            self._received_async(lane, request, delivery, letters)
            return
        groups: dict[str, list[int]] = {}
        for delivered, letter in zip(delivery.messages, letters, strict=True):
            seq = delivered.header.seq
            holding = lane.holdings.get(seq)
            if holding is None or holding.letter is not letter:
                same = f"{lane.queue.name} #{seq} is letter {letter.number} and another one"
                self._tally.check("I11", holding is None, same)
                holding = lane.holdings[seq] = Holding(letter)
            self._check_deleted(lane, holding, seq, request)
            self._check_lease(lane, holding, delivered, request)
            self._check_delay(lane, letter, seq, request)
            self._check_count(lane, holding, delivered, request)
            groups.setdefault(letter.group, []).append(seq)
        if lane.is_fifo:
            for group, seqs in groups.items():
                self._check_group(lane, group, seqs, request)
        for delivered, letter in zip(delivery.messages, letters, strict=True):
            self._grant(lane, lane.holdings[delivered.header.seq], delivered, request)
            if lane.is_fifo and not lane.is_once:
                lane.enter_group(delivered.header.seq, letter)

    def _received_async(self, lane: LaneAccount, request: Request, delivery: Delivery, letters: list[Letter]) -> None:
        """Places may have been given twice, deletes forgotten: only who has which message now is noted."""
        for delivered, letter in zip(delivery.messages, letters, strict=True):
            holding = lane.holdings.get(delivered.header.seq)
            if holding is None or holding.letter is not letter:
                holding = lane.holdings[delivered.header.seq] = Holding(letter)
            self._grant(lane, holding, delivered, request)

    def _check_deleted(self, lane: LaneAccount, holding: Holding, seq: int, request: Request) -> None:
        where = f"{lane.queue.name} #{seq}"
        is_twice = self._account.is_maybe_twice(holding.letter)
        deleted_at = holding.deleted_at if is_twice else min(holding.deleted_at, holding.letter.deleted_at)
        if request.begun > deleted_at and self._is_stale(lane, request, deleted_at):
            self._account.reigns.excuse("handed out by a deposed primary")
            return
        self._tally.check("I9", request.begun <= deleted_at, f"{where} was deleted at {deleted_at}")

    def _is_stale(self, lane: LaneAccount, request: Request, since: int) -> bool:
        """A standard queue's primary that was deposed, and did not know it yet."""
        reigns = self._account.reigns
        is_deposed = request.reign < reigns.newest.get(request.shard, 0)
        return is_deposed and not lane.is_lasting and request.begun <= since + reigns.STALE_MAX

    def _is_other_reign(self, lane: LaneAccount, holding: Holding, request: Request, what: str) -> bool:
        """A standard queue's hand-out that its successor need not know of."""
        if lane.is_lasting or not holding.reign or holding.reign == request.reign:
            return False
        self._account.reigns.excuse(what)
        return True

    def _check_lease(self, lane: LaneAccount, holding: Holding, delivered: Delivered, request: Request) -> None:
        command = request.command
        assert isinstance(command, Receive)
        is_repeat = _attempt(command) and _attempt(command) == holding.attempt
        is_later = delivered.number > holding.number and holding.change_ended < request.begun
        if is_repeat or not is_later or lane.is_maybe_cleared_since(holding.granted):
            return
        if request.ended < holding.until and self._is_other_reign(lane, holding, request, "lease lost in a fail-over"):
            return
        where = f"{lane.queue.name} #{delivered.header.seq}"
        text = f"{where} was handed out again at {request.ended}, its lease ends at {holding.until}"
        self._tally.check("I13", request.ended >= holding.until, text)

    def _check_delay(self, lane: LaneAccount, letter: Letter, seq: int, request: Request) -> None:
        if lane.lane == letter.lane and letter.seq == seq:  # elsewhere it is after a move
            delay = lane.delay if lane.is_fifo or letter.delay_s < 0 else letter.delay_s * SECOND
            text = f"{lane.queue.name} #{seq} was sent at {letter.begun} with a delay of {delay}"
            self._tally.check("I13", request.ended >= letter.begun + delay, text)

    def _check_count(self, lane: LaneAccount, holding: Holding, delivered: Delivered, request: Request) -> None:
        assert isinstance(request.command, Receive)
        is_repeat = _attempt(request.command) and _attempt(request.command) == holding.attempt
        is_fallen = delivered.count <= holding.count
        if is_fallen and self._is_other_reign(lane, holding, request, "receive count lost in a fail-over"):
            return
        if request.begun > holding.seen_at and not is_repeat:
            text = f"{lane.queue.name} #{delivered.header.seq}: count {delivered.count} after {holding.count}"
            self._tally.check("I19", delivered.count > holding.count, text)

    def _check_group(self, lane: LaneAccount, group: str, seqs: list[int], request: Request) -> None:
        """What was handed out is a front part of what the group certainly has."""
        where = f"{lane.queue.name}, group {group}: {seqs}"
        self._tally.check("I11", seqs == sorted(seqs), f"{where} are out of order")
        rows = lane.groups.get(group, [])
        last = seqs[-1]
        for row in rows:
            if row.seq >= last:
                break
            if row.seq not in seqs and self._is_certain(row.lane, row, request):
                holding = row.lane.holdings.get(row.seq)
                is_held = holding is not None and holding.until > request.ended
                name, why = ("I10", "is in flight") if is_held else ("I11", "was left behind")
                self._tally.check(name, False, f"{where} were handed out, while #{row.seq} {why}")
        self._tally.counts["I10"] += 1

    def _is_certain(self, lane: LaneAccount, row: Row, request: Request) -> bool:
        """This message of the group is certainly still there."""
        letter, holding = row.letter, lane.holdings.get(row.seq)
        if lane.is_once or lane.is_left_by_tasks or letter.is_delete_tried:
            return False
        if lane.is_maybe_cleared_since(letter.begun) or request.ended - letter.begun >= lane.life(letter):
            return False
        count = holding.count if holding is not None else 0
        unknown = lane.receives_unknown + lane.receives_open
        return count + unknown < lane.receives_max

    def _grant(self, lane: LaneAccount, holding: Holding, delivered: Delivered, request: Request) -> None:
        command = request.command
        assert isinstance(command, Receive)
        if delivered.number < holding.number and (lane.is_lasting or holding.reign == request.reign):
            return  # a later one was answered first
        is_same = lane.is_lasting or holding.reign == request.reign
        holding.number = delivered.number
        holding.reign = request.reign
        asked = command.visibility_timeout_s
        length = lane.visibility if asked is None else asked * SECOND
        holding.count = max(holding.count, delivered.count) if is_same else delivered.count
        holding.seen_at = request.ended
        holding.granted = request.begun
        holding.attempt = _attempt(command)
        is_certain = not holding.changes_open and holding.change_ended < request.begun
        earliest = request.begun - (command.request.age if command.request is not None else 0)  # of all its attempts
        holding.until = earliest + length if is_certain else 0

    # Deletes

    def delete_begun(self, request: Request) -> None:
        meddling: Meddling = request.about
        if not meddling.is_forged:
            holding = meddling.holding
            holding.letter.is_delete_tried = True
            meddling.until = holding.until if not holding.changes_open else 0

    def delete_ended(self, request: Request) -> None:
        """It was acknowledged. Did it certainly meet the message?"""
        meddling: Meddling = request.about
        assert isinstance(request.command, Delete)
        lane, holding = self._account.lanes[lane_of(request)], meddling.holding
        if meddling.is_forged or lane.is_async:
            return
        is_held = request.ended < meddling.until and holding.change_ended < request.begun and not holding.changes_open
        is_held = is_held and request.ended - holding.letter.begun < lane.life(holding.letter)
        if is_held and not lane.is_simple:  # a successor that does not know the lease may have moved it before
            is_held = not self._is_other_reign(lane, holding, request, "delete of a lease that was lost")
        if lane.is_simple or is_held:
            holding.deleted_at = min(holding.deleted_at, request.ended)
        if holding.deleted_at != FOREVER:
            holding.letter.deleted_at = min(holding.letter.deleted_at, request.ended)

    # Changes of visibility

    def change_begun(self, request: Request) -> None:
        meddling: Meddling = request.about
        command, holding = request.command, meddling.holding
        assert isinstance(command, ChangeVisibility)
        holding.changes_open += 1
        holding.until = min(holding.until, request.begun + command.timeout_s * SECOND)
        meddling.until = holding.granted

    def change_over(self, request: Request, *, is_done: bool) -> None:
        meddling: Meddling = request.about
        command, holding = request.command, meddling.holding
        assert isinstance(command, ChangeVisibility)
        holding.changes_open -= 1
        is_alone = not holding.changes_open and holding.change_ended < request.begun
        holding.change_ended = request.ended
        if is_done and is_alone and holding.granted == meddling.until:
            age = command.request.age if command.request is not None else 0  # its first try may have done it
            holding.until = request.begun - age + command.timeout_s * SECOND


def _attempt(command: Receive) -> str:
    """What a repeated receive has in common with the first; empty when it cannot be repeated."""
    return command.attempt_id or (command.request.id.hex() if command.request is not None else "")
