"""I11 and I12 as far as sends show them: sequence numbers rise and never repeat; one deduplication id, one message.

Time is that of the shard. A queue whose lanes are on several shards has no time of its own: what passed there is then
at most what passed in the simulation, and nothing is said about how long an id is remembered at most.
"""

from holdfast.core.queue.command import Accepted
from tests.sim.account import Account, LaneAccount, Letter, name_of
from tests.sim.request import Request
from tests.sim.tally import Tally
from tests.sim.world import SECOND

SLACK = 3 * SECOND  # a frame's stamp stands still while the frame before it is written


class Sends:
    def __init__(self, account: Account, tally: Tally, *, window: int) -> None:
        self._account = account
        self._tally = tally
        self._window = window

    def ended(self, request: Request, accepted: Accepted) -> None:
        letter: Letter = request.about
        letter.own_ended = request.own_ended
        if self._account.is_maybe_twice(letter):
            return
        lane = self._account.lanes[letter.lane]
        name = name_of(request)
        first = lane.acked[name][0]
        where = f"{lane.queue.name} #{accepted.seq}"
        is_same = first.key == letter.key if letter.key else first is letter
        self._tally.check("I11", is_same, f"{where} was given to letters {first.number} and {letter.number}")
        is_named = lane.ids.setdefault(lane.numbered(letter, accepted.seq), name) == name
        self._tally.check("I12", is_named, f"{where} was answered with two message ids")
        if first is letter and not self._maybe_older(letter):
            if letter.tries == 1:
                self._check_rises(lane, request, accepted)
            if lane.is_fifo and not letter.is_spread:
                lane.enter_group(accepted.seq, letter)
        if letter.key:
            self._check_window(lane, letter, first)

    def _maybe_older(self, letter: Letter) -> list[Letter]:
        """Letters of unknown outcome whose place this one may have been answered with."""
        same = self._account.namesakes(letter)
        return [each for each in same if not each.is_acked and each is not letter and each.begun]

    def _check_rises(self, lane: LaneAccount, request: Request, accepted: Accepted) -> None:
        letter: Letter = request.about
        lane.newest = self._risen(lane, lane.newest, request, accepted)
        if lane.is_fifo:
            before = lane.newest_of.get(letter.group, (-1, 0))
            lane.newest_of[letter.group] = self._risen(lane, before, request, accepted)

    def _risen(
        self, lane: LaneAccount, before: tuple[int, int], request: Request, accepted: Accepted
    ) -> tuple[int, int]:
        answered, seq = before
        if request.begun > answered:
            text = f"{lane.queue.name}: #{accepted.seq} was given after #{seq}"
            self._tally.check("I11", accepted.seq > seq, text)
        return (request.ended, accepted.seq) if accepted.seq > seq else before

    def _check_window(self, lane: LaneAccount, letter: Letter, first: Letter) -> None:
        where = f"{lane.queue.name}, id {letter.key}"
        for other in self._account.namesakes(letter):
            if other is letter or not other.is_acked or other.name == letter.name:
                continue
            started = self._earliest(lane, other)
            is_within = (letter.ended if lane.is_split else letter.own_ended) - started < self._window
            if is_within and not lane.is_queue_maybe_cleared_since(other.begun):
                text = f"{where}: letters {other.number} and {letter.number} became #{other.seq} and #{letter.seq}"
                self._tally.check("I12", False, text)
        late = letter.own_begun - first.own_ended
        text = f"{where}: letter {letter.number} was taken for #{letter.seq} {late} µs later"
        is_known = first is letter or lane.is_split
        self._tally.check("I12", is_known or late < self._window + SLACK, text)

    def _earliest(self, lane: LaneAccount, other: Letter) -> int:
        """When its id may have been recorded for the first time: letters of unknown outcome may have done it."""
        original = lane.acked[other.name][0]
        all_of_them = [original, *self._maybe_older(original)]
        return min(each.begun if lane.is_split else each.own_begun for each in all_of_them)

    def delivered(self, lane: LaneAccount, letter: Letter) -> None:
        """Two letters with the same id were both queued."""
        if lane.queue.lane != letter.queue:
            return
        for other in self._account.namesakes(letter):
            if other is letter or not other.is_received:
                continue
            if lane.is_split:
                span = max(letter.ended, other.ended) - min(letter.begun, other.begun)
            else:
                span = max(letter.own_ended, other.own_ended) - min(letter.own_begun, other.own_begun)
            is_within = span < self._window
            is_double = is_within and not lane.is_queue_maybe_cleared_since(min(letter.begun, other.begun))
            text = f"{lane.queue.name}, id {letter.key}: letters {other.number} and {letter.number} were both queued"
            self._tally.check("I12", not is_double, text)
