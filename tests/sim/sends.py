"""I11 and I12 as far as sends show them: sequence numbers rise and never repeat; one deduplication id, one message."""

from holdfast.core.command import Accepted
from tests.sim.account import FOREVER, Account, LaneAccount, Letter
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
        lane = self._account.lanes[letter.lane]
        sharing = lane.acked[accepted.seq]
        first = sharing[0]
        where = f"{lane.queue.name} #{accepted.seq}"
        is_same = first.key == letter.key if letter.key else first is letter
        self._tally.check("I11", is_same, f"{where} was given to letters {first.number} and {letter.number}")
        name = lane.ids.setdefault(accepted.seq, (accepted.epoch, accepted.lsn))
        is_named = name == (accepted.epoch, accepted.lsn)
        self._tally.check("I12", is_named, f"{where} was answered with two message ids")
        if first is letter and not self._maybe_older(letter):
            if letter.tries == 1:
                self._check_rises(lane, request, accepted)
            if lane.is_fifo:
                lane.enter_group(accepted.seq, letter)
        if letter.key:
            self._check_window(lane, letter, first)

    def _maybe_older(self, letter: Letter) -> list[Letter]:
        """Letters of unknown outcome whose place this one may have been answered with."""
        if not letter.key:
            return []
        same = self._account.by_key[letter.lane, letter.key]
        return [each for each in same if not each.is_acked and each is not letter and each.begun]

    def _check_rises(self, lane: LaneAccount, request: Request, accepted: Accepted) -> None:
        answered, seq = lane.newest
        if request.begun > answered:
            text = f"{lane.queue.name}: #{accepted.seq} was given after #{seq}"
            self._tally.check("I11", accepted.seq > seq, text)
        if accepted.seq > seq:
            lane.newest = (request.ended, accepted.seq)

    def _check_window(self, lane: LaneAccount, letter: Letter, first: Letter) -> None:
        where = f"{lane.queue.name}, id {letter.key}"
        for other in self._account.by_key[letter.lane, letter.key]:
            if other is letter or not other.is_acked or other.seq == letter.seq:
                continue
            started = self._earliest(lane.acked[other.seq][0])
            is_within = letter.own_ended - started < self._window
            if is_within and not lane.is_maybe_cleared_since(other.begun):
                text = f"{where}: letters {other.number} and {letter.number} became #{other.seq} and #{letter.seq}"
                self._tally.check("I12", False, text)
        late = letter.own_begun - first.own_ended
        text = f"{where}: letter {letter.number} was taken for #{letter.seq} {late} µs later"
        self._tally.check("I12", first is letter or late < self._window + SLACK, text)

    def _earliest(self, original: Letter) -> int:
        """When the id may have been recorded for the first time: letters of unknown outcome may have done it."""
        return min([original.own_begun, *(each.own_begun for each in self._maybe_older(original))])

    def delivered(self, lane: LaneAccount, letter: Letter) -> None:
        """Two letters with the same id were both queued."""
        if not letter.key or lane.queue.lane != letter.lane:
            return
        for other in self._account.by_key[letter.lane, letter.key]:
            if other is letter or not other.is_received:
                continue
            ends = [FOREVER if each.own_ended == FOREVER else each.own_ended for each in (letter, other)]
            is_within = max(ends) - min(letter.own_begun, other.own_begun) < self._window
            is_double = is_within and not lane.is_maybe_cleared_since(min(letter.begun, other.begun))
            text = f"{lane.queue.name}, id {letter.key}: letters {other.number} and {letter.number} were both queued"
            self._tally.check("I12", not is_double, text)
