"""What the checkers know: letters that were sent, places they were seen at, lanes and what was done to them.

A dumb account, kept from requests and replies only. Where an outcome is not known, it assumes whatever excuses more.
"""

from bisect import insort
from typing import Final

from holdfast.core.limits import UNSURE_AFTER
from holdfast.core.queue.command import Accepted
from holdfast.core.types import LaneConfig, LaneId
from tests.sim.queues import Queue
from tests.sim.request import Request
from tests.sim.world import MS, SECOND

FOREVER: Final = 1 << 62
Identity = tuple[int, int]  # lane, sequence number
MessageName = tuple[int, int, int]  # shard, epoch, lsn


class Letter:
    """One attempt to send. Its content exists once, so it can be recognised wherever it turns up."""

    __slots__ = (
        "begun",
        "content",
        "delay_s",
        "deleted_at",
        "ended",
        "group",
        "is_acked",
        "is_delete_tried",
        "is_drained",
        "is_received",
        "key",
        "lane",
        "left",
        "name",
        "number",
        "own_begun",
        "own_ended",
        "place",
        "queue",
        "reign",
        "seen_at",
        "seq",
        "tried",
        "tries",
        "ttl_s",
    )

    def __init__(self, number: int, lane: LaneId, content: bytes, *, group: str, key: str, delay_s: int, ttl_s: int):
        self.number = number
        self.queue = int(lane)  # the first lane of its queue, which is not asked for another
        self.lane = lane  # where it was brought last
        self.tried: tuple[int, ...] = ()  # all lanes where it was brought
        self.content = content
        self.group = group
        self.key = key  # of its deduplication; empty: none
        self.delay_s = delay_s
        self.ttl_s = ttl_s
        self.begun = 0
        self.ended = FOREVER  # it was decided before, if at all
        self.own_begun = 0
        self.own_ended = FOREVER
        self.tries = 0
        self.reign = 0  # of the primary that took it
        self.is_acked = False
        self.seq = 0  # as acknowledged …
        self.name: MessageName = (0, 0, 0)  # … and its MessageId
        self.place: Identity | None = None  # where it was seen last
        self.seen_at = 0  # it was there at that instant or later
        self.left: dict[Identity, int] = {}  # places it moved on from -> when that was known
        self.is_delete_tried = False
        self.deleted_at = FOREVER  # an acknowledged delete that certainly met it
        self.is_received = False
        self.is_drained = False

    @property
    def is_spread(self) -> bool:
        """Brought to several lanes: to a FIFO queue it has come once for all that, to a standard one perhaps twice."""
        return len(self.tried) > 1


class Holding:
    """A message at its place in a lane, once it was seen there."""

    __slots__ = (
        "attempt",
        "change_ended",
        "changes_open",
        "count",
        "deleted_at",
        "granted",
        "letter",
        "number",
        "reign",
        "seen_at",
        "until",
    )

    def __init__(self, letter: Letter) -> None:
        self.letter = letter
        self.count = 0
        self.reign = 0  # of the primary that handed it out last
        self.seen_at = 0  # when `count` was answered
        self.number = 0  # of the receive that has it
        self.until = 0  # it is certainly in flight before this instant, unless it was deleted
        self.granted = 0  # when the receive behind `until` had begun
        self.attempt = ""
        self.changes_open = 0
        self.change_ended = -1
        self.deleted_at = FOREVER


class Row:
    """A place in a FIFO group."""

    __slots__ = ("lane", "letter", "seq")

    def __init__(self, seq: int, letter: Letter, lane: "LaneAccount") -> None:
        self.seq = seq
        self.letter = letter
        self.lane = lane

    def __lt__(self, other: "Row") -> bool:
        return self.seq < other.seq


class LaneAccount:
    """Of one lane. What has to hold for a queue as a whole is kept by its first lane for all of them: groups, ids."""

    def __init__(self, queue: Queue, lane: LaneId | None = None, *, first: "LaneAccount | None" = None) -> None:
        self.queue = queue
        self.lane = queue.lane if lane is None else lane
        self.first = first or self
        self.kin: list[LaneAccount] = first.kin if first is not None else []
        self.kin.append(self)
        self.is_fifo = queue.is_fifo
        self.is_once = queue.config.at_most_once
        self.is_lasting = self.is_fifo or self.is_once  # its receives survive a fail-over
        self.is_async = queue.config.is_async  # what was acknowledged may be lost by a fail-over, and is counted
        self.configs: list[LaneConfig] = []
        self.targets: dict[int, int] = {}  # lanes that messages may leave for -> since when
        self.holdings: dict[int, Holding] = {}
        self.unseen: dict[int, Letter] = {}  # acknowledged and never handed out, by number
        self.acked: dict[MessageName, list[Letter]] = first.acked if first else {}
        self.ids: dict[tuple[int | str, int], MessageName] = first.ids if first else {}  # by `numbered`
        self.groups: dict[str, list[Row]] = first.groups if first else {}
        self.newest: tuple[int, int] = (-1, 0)  # (when it was answered, sequence number) of the latest send
        self.newest_of: dict[str, tuple[int, int]] = first.newest_of if first else {}  # the same of each group
        self.clears_open = 0  # purges and deletions of the queue
        self.cleared_at = -1
        self.receives_open = 0
        self.receives_unknown = 0
        self.unknown_count = 0  # messages that receives of unknown outcome may have taken
        self.is_left_by_tasks = False
        self.configure(queue.config, 0)

    def configure(self, config: LaneConfig, now: int) -> None:
        self.configs.append(config)
        if config.redrive is not None:
            self.targets.setdefault(config.redrive.target.lane, now)

    def is_maybe_cleared_since(self, instant: int) -> bool:
        return self.clears_open > 0 or self.cleared_at >= instant

    @property
    def is_split(self) -> bool:
        """Its queue has, or had, other lanes. Their shards have clocks of their own."""
        return len(self.kin) > 1

    def numbered(self, letter: Letter, seq: int) -> tuple[int | str, int]:
        """What a sequence number is unique within: its lane; its group, where the group's lane changes."""
        return (letter.group if self.is_fifo and self.queue.is_spread else self.lane, seq)

    def is_queue_maybe_cleared_since(self, instant: int) -> bool:
        return any(lane.is_maybe_cleared_since(instant) for lane in self.kin)

    @property
    def is_simple(self) -> bool:
        """Messages never leave it for another lane."""
        return not self.targets and not self.is_left_by_tasks

    @property
    def visibility(self) -> int:
        return min(config.visibility_timeout_s for config in self.configs) * SECOND

    @property
    def delay(self) -> int:
        return min(config.delay_s for config in self.configs) * SECOND

    @property
    def longest_delay(self) -> int:
        return max(config.delay_s for config in self.configs) * SECOND

    @property
    def receives_max(self) -> int:
        return min((config.redrive.receives_max for config in self.configs if config.redrive), default=1 << 30)

    def life(self, letter: Letter) -> int:
        """A message may be gone by itself when it has been here for so long."""
        own = [letter.ttl_s] if letter.ttl_s else []
        own += [config.time_to_live_s for config in self.configs if config.time_to_live_s]
        return min([config.retention_s for config in self.configs] + own) * SECOND

    def forget_deleted(self) -> None:
        """Rows of groups that are certain of nothing any more, and never will be again."""
        for group, rows in self.groups.items():
            self.groups[group] = [row for row in rows if not row.letter.is_delete_tried]

    def enter_group(self, seq: int, letter: Letter) -> None:
        rows = self.groups.setdefault(letter.group, [])
        row = Row(seq, letter, self)
        if rows and not rows[-1] < row:
            if all(each.seq != seq for each in rows):
                insort(rows, row)
        else:
            rows.append(row)


class Reigns:
    """Which primary of a shard came after which. One host has one reign, whatever happens to it.

    A standard queue's receives need not survive a fail-over, and a primary that does not know yet that it was deposed
    may hand out for a moment what its successor has deleted. Everything else has to hold from one reign to the next.
    """

    STALE_MAX: Final = UNSURE_AFTER + 50 * MS  # of silence, and what was on its way when it began

    def __init__(self) -> None:
        self.newest: dict[int, int] = {}  # by shard
        self.excused: dict[str, int] = {}

    def begin(self, shard: int) -> int:
        self.newest[shard] = self.newest.get(shard, 0) + 1
        return self.newest[shard]

    def excuse(self, what: str) -> None:
        self.excused[what] = self.excused.get(what, 0) + 1


class Account:
    def __init__(self) -> None:
        self.reigns = Reigns()
        self.lanes: dict[int, LaneAccount] = {}
        self.letters: list[Letter] = []
        self.by_key: dict[tuple[int, str], list[Letter]] = {}
        self.is_draining = False

    def add_queue(self, queue: Queue) -> None:
        self.lanes[queue.lane] = LaneAccount(queue)

    def add_lane(self, lane: LaneId, queue: Queue) -> None:
        """Another lane of a queue."""
        if lane in self.lanes:
            return
        first = self.lanes[queue.lane]
        for other in self.lanes.values():  # what may come back to its kin may come to it
            ways = [other.targets[kin.lane] for kin in first.kin if kin.lane in other.targets]
            if ways:
                other.targets[lane] = min(ways)
        self.lanes[lane] = LaneAccount(queue, lane, first=first)

    def add_letter(self, letter: Letter) -> None:
        self.letters.append(letter)
        if letter.key:
            self.by_key.setdefault((letter.queue, letter.key), []).append(letter)

    def namesakes(self, letter: Letter) -> list[Letter]:
        """Those with the same deduplication id, itself too."""
        return self.by_key.get((letter.queue, letter.key), []) if letter.key else []

    def is_maybe_twice(self, letter: Letter) -> bool:
        return letter.is_spread and not self.lanes[letter.lane].is_fifo

    def reachable(self, letter: Letter) -> dict[int, int]:
        """Lanes where it may have been brought since it was seen last, and since when it may have been there."""
        found: dict[int, int] = {}
        if letter.place is None or self.is_maybe_twice(letter):
            found = dict.fromkeys(letter.tried or (int(letter.lane),), letter.begun)
        if letter.place is not None:
            found.setdefault(int(letter.place[0]), letter.seen_at)
        todo = list(found)
        while todo:
            lane = todo.pop()
            for target, since in self.lanes[lane].targets.items():
                arrival = max(found[lane], since)
                if arrival < found.get(target, FOREVER):
                    found[target] = arrival
                    todo.append(target)
        return found

    def letter_of(self, content: bytes) -> Letter | None:
        """By its content, which has to be the same byte for byte."""
        number, _, _ = content.partition(b":")
        if not number.isdigit() or int(number) >= len(self.letters):
            return None
        letter = self.letters[int(number)]
        return letter if letter.content == content else None

    def is_maybe_cleared(self, letter: Letter) -> bool:
        found = self.reachable(letter).items()
        return any(self.lanes[lane].is_maybe_cleared_since(since) for lane, since in found)

    def is_maybe_over(self, letter: Letter, now: int) -> bool:
        """By retention or time to live. Cluster time is never faster than the simulation's."""
        lanes = {letter.lane: 0, **self.reachable(letter)}  # its time to live travels with it
        lives = (self.lanes[lane].life(letter) for lane in lanes)
        return now - letter.begun >= min(lives)


def name_of(request: Request) -> MessageName:
    """Of the message that a send was answered with."""
    answer = request.answer
    assert isinstance(answer, Accepted)
    return (answer.shard or request.shard, answer.epoch, answer.lsn)


def lane_of(request: Request) -> int:
    lane: int = request.command.lane  # type: ignore[union-attr]
    return lane
