"""Where the replicas of shards should be, and who should lead them: pure functions of how things stand.

    repair    a shard has too few replicas, or one on a host that may not keep it
    spread    two replicas share a zone, and a zone without one has room
    balance   one host carries more than another by more than the slack

Laws
- Never two replicas of a shard on one host.
- Replicas of a shard are in as many zones as there are zones with room, before load is looked at.
- A replica moves for one of the three reasons above, in this order, and each move takes away some of its reason: moves
  never go round in circles. A host that joins is given its share and nothing else moves; of a host that leaves only its
  own replicas move, and others only if they make one that stays carry more than the slack allows.
- A replica is given up only for another one: where there is no better place it stays, even on a lost host, which may
  come back with it.
- Equal input, equal output: ties are broken by load, then by name.

Load is compared as load per capacity, in parts of a million.
"""

from collections import deque
from collections.abc import Collection, Iterator, Mapping, Sequence

import msgspec

from holdfast.core.coordination.cluster import HostId
from holdfast.core.types import ShardId

PARTS = 1_000_000


class Place(msgspec.Struct, frozen=True):
    """A host as somewhere to put replicas."""

    host: HostId
    zone: str = ""
    capacity: int = 100
    accepts: bool = True  # may be given replicas
    keeps: bool = True  # may keep those it has: not draining, and not lost for longer than the grace


class Move(msgspec.Struct, frozen=True):
    shard: ShardId
    gain: HostId | None
    loss: HostId | None


class Board:
    """Replicas as they would be after the moves so far."""

    def __init__(
        self,
        layout: Mapping[ShardId, Sequence[HostId]],
        places: Sequence[Place],
        *,
        loads: Mapping[ShardId, int],
        leaders: Mapping[ShardId, HostId] | None = None,
    ) -> None:
        self.leaders = leaders or {}
        self.places = {each.host: each for each in sorted(places, key=lambda each: each.host)}
        self.replicas = {shard: list(layout[shard]) for shard in sorted(layout)}
        self._weights = {shard: max(1, loads.get(shard, 1)) for shard in self.replicas}
        self._loads = dict.fromkeys(self.places, 0)
        self._shards: dict[HostId, list[ShardId]] = {host: [] for host in self.places}
        for shard, hosts in self.replicas.items():
            for host in hosts:
                self._count(shard, host, 1)

    def _count(self, shard: ShardId, host: HostId, sign: int) -> None:
        if host not in self.places:
            return
        self._loads[host] += sign * self._weights[shard]
        if sign > 0:
            self._shards[host].append(shard)
        else:
            self._shards[host].remove(shard)

    def carry_out(self, move: Move) -> None:
        if move.loss is not None:
            self.replicas[move.shard].remove(move.loss)
            self._count(move.shard, move.loss, -1)
        if move.gain is not None:
            self.replicas[move.shard].append(move.gain)
            self._count(move.shard, move.gain, 1)

    def keepers(self, shard: ShardId) -> list[HostId]:
        """Hosts that have a replica and may keep it."""
        return [each for each in self.replicas[shard] if each in self.places and self.places[each].keeps]

    def shards_on(self, host: HostId) -> Sequence[ShardId]:
        return self._shards[host]

    def use(self, host: HostId, more: int = 0) -> int:
        return (self._loads[host] + more) * PARTS // self.places[host].capacity

    def weight(self, shard: ShardId) -> int:
        return self._weights[shard]

    def mean_use(self) -> int:
        """Of hosts that take part in balancing."""
        open_ = [each for each in self.places.values() if each.accepts]
        return sum(self._loads[each.host] for each in open_) * PARTS // max(1, sum(each.capacity for each in open_))

    def neighbours(self, shard: ShardId, host: HostId, *, without: HostId | None = None) -> int:
        """Kept replicas of the shard that `host` would share its zone with."""
        zone = self.places[host].zone
        return sum(self.places[each].zone == zone for each in self.keepers(shard) if each not in (host, without))

    def best(self, shard: ShardId, *, without: HostId | None = None) -> HostId | None:
        """The place for one more replica of the shard; `without`: as if that one were gone."""
        free = [each.host for each in self.places.values() if each.accepts and each.host not in self.replicas[shard]]
        return min(
            free,
            key=lambda host: (
                self.neighbours(shard, host, without=without),
                self.use(host, self._weights[shard]),
                host,
            ),
            default=None,
        )


def plan_moves(
    board: Board, *, replicas: int, slack_percent: int | None, limit: int, busy: Collection[ShardId] = ()
) -> list[Move]:
    """The next moves, at most `limit`; the board is left as they would leave it. Without a slack nothing is balanced.

    `busy` shards are on the move already and only repaired further. O(hosts² · shards per host) for each move.
    """
    moves: list[Move] = []
    for move in _wanted(board, replicas, slack_percent=slack_percent, busy=busy):
        if len(moves) == limit:
            break
        board.carry_out(move)
        moves.append(move)
    return moves


def _wanted(board: Board, replicas: int, *, slack_percent: int | None, busy: Collection[ShardId]) -> Iterator[Move]:
    """Each is carried out before the next is asked for."""
    for shard in board.replicas:
        while (repair := _repair(board, shard, replicas)) is not None:
            yield repair
    for shard in board.replicas:
        while shard not in busy and (spread := _spread(board, shard)) is not None:
            yield spread
    if slack_percent is None:
        return
    slack = board.mean_use() * slack_percent // 100
    moved: set[ShardId] = set(busy)  # no shard is moved twice by one plan
    while (balance := _balance(board, slack, moved)) is not None:
        moved.add(balance.shard)
        yield balance


def _repair(board: Board, shard: ShardId, replicas: int) -> Move | None:
    keepers = board.keepers(shard)
    others = [each for each in board.replicas[shard] if each not in keepers]
    if len(keepers) >= replicas:
        if others:
            return Move(shard, None, min(others))
        return Move(shard, None, _least_useful(board, shard)) if len(keepers) > replicas else None
    gain = board.best(shard)
    if gain is None:
        return None
    is_full = len(board.replicas[shard]) >= replicas
    return Move(shard, gain, min(others) if others and is_full else None)


def _least_useful(board: Board, shard: ShardId) -> HostId:
    return max(board.keepers(shard), key=lambda host: (board.neighbours(shard, host), board.use(host), host))


def _spread(board: Board, shard: ShardId) -> Move | None:
    keepers = board.keepers(shard)
    if not keepers:
        return None
    loss = _least_useful(board, shard)
    gain = board.best(shard, without=loss)
    if gain is None or board.neighbours(shard, gain, without=loss) >= board.neighbours(shard, loss):
        return None
    return Move(shard, gain, loss)


def _balance(board: Board, slack: int, moved: Collection[ShardId]) -> Move | None:
    """From the fullest host that can give something to the emptiest that can take it."""
    by_use = sorted(
        (each for each in board.places if board.places[each].accepts), key=lambda each: (board.use(each), each)
    )
    for giver in reversed(by_use):
        for taker in by_use:
            if board.use(giver) - board.use(taker) <= slack:
                break
            shard = _to_give(board, giver, taker, slack=slack, moved=moved)
            if shard is not None:
                return Move(shard, taker, giver)
    return None


def _to_give(board: Board, giver: HostId, taker: HostId, *, slack: int, moved: Collection[ShardId]) -> ShardId | None:
    """The shard that leaves the two most equal, if that is better than now by more than the slack.

    Rather one that the giver does not lead: it would have to be handed over first.
    """
    use = board.use(giver)

    def fuller_after(shard: ShardId) -> int:
        weight = board.weight(shard)
        return max(board.use(giver, -weight), board.use(taker, weight))

    fitting = [
        shard
        for shard in board.shards_on(giver)
        if shard not in moved
        and taker not in board.replicas[shard]
        and board.use(taker, board.weight(shard)) + slack < use
        and board.neighbours(shard, taker, without=giver) <= board.neighbours(shard, giver)
    ]
    return min(fitting, key=lambda shard: (fuller_after(shard), board.leaders.get(shard) == giver, shard), default=None)


def hand_overs(
    leaders: Mapping[ShardId, HostId], members: Mapping[ShardId, Sequence[HostId]], hosts: Collection[HostId]
) -> list[tuple[ShardId, HostId]]:
    """Which shards should be led by whom instead, so that hosts lead equally many; [] if it cannot get more even.

    Only `hosts` may lead, and only shards with `members` change hands; the others count. One chain is answered, its
    last link first: A gives a shard to B, which gives one to C, so that A has one less and C one more.
    O(hosts · replicas).
    """
    led = dict.fromkeys(sorted(hosts), 0)
    for host in leaders.values():
        if host in led:
            led[host] += 1
    gifts: dict[HostId, list[tuple[ShardId, HostId]]] = {host: [] for host in led}
    for shard in sorted(leaders):
        if leaders[shard] in led:
            takers = sorted(each for each in members.get(shard, ()) if each in led and each != leaders[shard])
            gifts[leaders[shard]] += [(shard, each) for each in takers]
    for giver in sorted(led, key=lambda host: (-led[host], host)):
        chain = _chain(giver, led, gifts)
        if chain:
            return chain
    return []


def _chain(
    giver: HostId, led: Mapping[HostId, int], gifts: Mapping[HostId, Sequence[tuple[ShardId, HostId]]]
) -> list[tuple[ShardId, HostId]]:
    """To the host that leads least, by the shortest way; [] if none leads at least two less."""
    came_by: dict[HostId, tuple[HostId, ShardId] | None] = {giver: None}  # in the order of distance
    waiting = deque([giver])
    while waiting:
        host = waiting.popleft()
        for shard, taker in gifts[host]:
            if taker not in came_by:
                came_by[taker] = (host, shard)
                waiting.append(taker)
    taker = min(came_by, key=lambda host: led[host])
    return _way_to(taker, came_by) if led[taker] <= led[giver] - 2 else []


def _way_to(host: HostId, came_by: Mapping[HostId, tuple[HostId, ShardId] | None]) -> list[tuple[ShardId, HostId]]:
    chain = []
    while (step := came_by[host]) is not None:
        chain.append((step[1], host))
        host = step[0]
    return chain
