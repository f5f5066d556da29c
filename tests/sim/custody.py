"""Who has which message: I1, I2 and I7, and that at-most-once means once.

Everything that was acknowledged and that nothing accounts for must come out when the queues are drained at the end.
"""

from holdfast.core.errors import HoldfastError
from holdfast.core.queue.command import Accepted, Delivery
from holdfast.core.types import LaneId
from tests.sim.account import Account, LaneAccount, Letter, lane_of, name_of
from tests.sim.request import ANSWERED, UNKNOWN, Request
from tests.sim.tally import Tally
from tests.sim.world import World

SEVERAL = -1  # primaries took it


class Custody:
    def __init__(self, world: World, account: Account, tally: Tally, *, window: int) -> None:
        self.lost_async: list[Letter] = []  # what asynchronous queues acknowledged and do not have, when all is settled
        self._world = world
        self._account = account
        self._tally = tally
        self._window = window  # of deduplication

    def send_begun(self, request: Request) -> None:
        letter: Letter = request.about
        letter.tries += 1
        letter.lane = LaneId(lane_of(request))
        if letter.lane not in letter.tried:
            letter.tried = (*letter.tried, letter.lane)
        if letter.begun:  # asked again
            letter.own_begun = min(letter.own_begun, request.own_begun)
            is_same = letter.reign == request.reign and not letter.is_spread
            letter.reign = letter.reign if is_same else SEVERAL
            return
        letter.begun, letter.own_begun = request.begun, request.own_begun
        letter.reign = request.reign

    def send_ended(self, request: Request) -> None:
        letter: Letter = request.about
        if not letter.is_acked:  # else a repeated request got the same answer again, later
            letter.ended = request.ended
        if isinstance(request.answer, Accepted):
            lane = self._account.lanes[letter.lane]
            if letter.is_acked and (lane.is_async or self._account.is_maybe_twice(letter)):
                return
            is_same = letter.seq == request.answer.seq
            # A send that is taken for a duplicate of another writes nothing. A purge forgets by what it was recognised,
            # and so does time: a try that comes later still becomes a message.
            is_forgotten = lane.is_queue_maybe_cleared_since(letter.begun) or self._is_past(lane, letter, request)
            if letter.is_acked and (is_same or not is_forgotten):
                text = f"{lane.queue.name}: letter {letter.number} is #{letter.seq}, and #{request.answer.seq}"
                self._tally.check("I12", is_same, text)
                return
            letter.is_acked, letter.seq, letter.name = True, request.answer.seq, name_of(request)
            sharing = lane.acked.setdefault(letter.name, [])
            sharing.append(letter)
            if len(sharing) == 1 and not letter.is_received:
                lane.unseen[letter.number] = letter

    def _is_past(self, lane: LaneAccount, letter: Letter, request: Request) -> bool:
        """It was taken for a duplicate of a message whose window is over now."""
        first = lane.acked[letter.name][0] if letter.is_acked else letter
        return first is not letter and request.own_ended - first.own_begun >= self._window

    def send_abandoned(self, request: Request) -> None:
        letter: Letter = request.about
        if not letter.is_acked:
            letter.ended = request.ended

    # Receives

    def received(self, request: Request, delivery: Delivery) -> list[Letter]:
        """The letters in it, each recognised by its content."""
        lane = self._account.lanes[lane_of(request)]
        letters = []
        for delivered, (content, _) in zip(delivery.messages, request.contents, strict=True):
            letter = self._account.letter_of(content)
            where = f"{lane.queue.name} #{delivered.header.seq}"
            self._tally.check("I2", letter is not None, f"{where}: nobody sent {content[:40]!r}")
            assert letter is not None
            letters.append(letter)
            if not lane.is_async:
                self._check_way(letter, lane, delivered.header.seq, request)
                self._check_committed(letter, request, where)
            if lane.is_once:
                self._tally.check("I9", not letter.is_received, f"{where}: at most once, and received twice")
            letter.is_received = True
            self._account.lanes[letter.lane].unseen.pop(letter.number, None)
            letter.is_drained = letter.is_drained or self._account.is_draining
        return letters

    def _check_way(self, letter: Letter, lane: LaneAccount, seq: int, request: Request) -> None:
        place = (int(lane.lane), seq)
        is_known = letter.place == place
        is_way = is_known or lane.lane in self._account.reachable(letter)
        self._tally.check("I2", is_way, f"letter {letter.number} cannot have come to {lane.queue.name}")
        left = letter.left.get(place)
        is_twice = self._account.is_maybe_twice(letter)
        is_double = left is not None and request.begun > left and not is_twice
        if is_double and not lane.is_lasting and self._is_stale(request, left or 0):
            self._account.reigns.excuse("handed out by a deposed primary")
            return
        self._tally.check("I2", not is_double, f"letter {letter.number} is at {place} and at {letter.place}")
        if not is_known and (left is None or is_twice):
            if letter.place is not None:
                letter.left[letter.place] = request.ended
            letter.place = place
        if letter.place == place:
            letter.seen_at = max(letter.seen_at, request.begun)

    def _is_stale(self, request: Request, since: int) -> bool:
        """Its primary was deposed, and may not have known yet what happened at `since`."""
        reigns = self._account.reigns
        return request.reign < reigns.newest.get(request.shard, 0) and request.begun <= since + reigns.STALE_MAX

    def _check_committed(self, letter: Letter, request: Request, where: str) -> None:
        """A message is handed out only after its send is committed, so after its own reply could leave."""
        is_committed = letter.ended < request.ended or letter.reign != request.reign  # else its bytes are looked at
        self._tally.check("I7", is_committed, f"{where}: handed out before it was committed")

    # The end

    def settle(self) -> None:
        """I1, when everything has been drained."""
        missing_once: dict[int, int] = {}
        for lane in self._account.lanes.values():
            if lane.first is not lane:
                continue
            for letters in lane.acked.values():
                if lane.is_async:
                    self.lost_async += [letter for letter in letters if not self._is_accounted([letter])]
                elif self._is_accounted(letters):
                    self._tally.counts["I1"] += 1
                elif lane.is_once:
                    missing_once[lane.queue.lane] = missing_once.get(lane.queue.lane, 0) + 1
                else:
                    self._tally.check("I1", False, self._story(lane, letters))
        for lane_id, count in missing_once.items():
            lane = self._account.lanes[lane_id]
            text = f"{count} messages of {lane.queue.name} are gone; unknown receives took {lane.unknown_count} at most"
            self._tally.check("I1", count <= lane.unknown_count, text)

    def _is_accounted(self, letters: list[Letter]) -> bool:
        """Any of those that share the acknowledged place: which one was first may be unknown."""
        same = [each for each in self._account.namesakes(letters[0]) if not each.is_acked]
        return any(self._has_excuse(letter) for letter in [*letters, *same])

    def _has_excuse(self, letter: Letter) -> bool:
        account = self._account
        if letter.is_drained or letter.is_delete_tried:
            return True
        if account.lanes[letter.lane].is_once and letter.is_received:
            return True
        return account.is_maybe_cleared(letter) or account.is_maybe_over(letter, self._world.now)

    def _story(self, lane: LaneAccount, letters: list[Letter]) -> str:
        numbers = [letter.number for letter in letters]
        letter = letters[0]
        return (
            f"{lane.queue.name} #{letter.seq} of lane {letter.lane} (letters {numbers}) was acknowledged at "
            f"{letter.ended} and is gone; last seen at {letter.place}, received: {letter.is_received}"
        )


def is_effective(request: Request) -> bool:
    """It happened, or may have."""
    if request.fate == UNKNOWN:
        return True
    return request.fate == ANSWERED and not isinstance(request.answer, HoldfastError)
