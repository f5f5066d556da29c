"""What replicas say and what they have made of their logs, against the platters.

    I9   a primary that has not heard all members for half a second hands nothing out
    I4   an acknowledgement, or the answer to a fence, is of the epoch that stands in the promise file of this disk
    I21  the live state of every replica is what the snapshot and the log on its own disk lead to; and followers have
         applied nothing that is not committed, for `apply` has no undo

The live state is the one thing here that is the replica's own. Everything it is compared with is read from disks.
"""

from typing import TYPE_CHECKING, Final

from holdfast.core.errors import CorruptLog
from holdfast.core.limits import UNSURE_AFTER
from holdfast.core.log.segment import parse_stem
from holdfast.core.queue.shard import Shard
from holdfast.core.replication.replica import Replica
from holdfast.core.replication.replica_log import ReplicaLog
from holdfast.core.replication.replica_message import Ack, Fenced, Message
from holdfast.core.types import ShardId
from tests.sim import replayed
from tests.sim.log import promised_epoch
from tests.sim.request import Request
from tests.sim.world import MS, SECOND, Violation

if TYPE_CHECKING:
    from tests.sim.cluster.checkers import ClusterCheckers
    from tests.sim.cluster.seat import Seat

COMPARE_EVERY: Final = 9 * SECOND  # live state against disk, per seat
LOOK_EVERY: Final = 100 * MS  # at what a follower has applied


class Looks:
    """When a host's part in a shard is looked at again, whatever process runs there."""

    __slots__ = ("compare_at", "look_at")

    def __init__(self) -> None:
        self.look_at = self.compare_at = 0


class Replicas:
    def __init__(self, checkers: "ClusterCheckers") -> None:
        self._checkers = checkers
        self._tally = checkers.tally
        self._looks: dict[tuple[str, int], Looks] = {}
        self._heard: dict[tuple[str, int, str], int] = {}  # host, shard, whom: when last

    # Messages

    def sends(self, seat: "Seat", message: Message) -> None:
        if not isinstance(message, (Ack, Fenced)):
            return
        disk = seat.node.disk
        file = disk.solid_names[f"{seat.shard}/"].get("promise")
        if disk.flips and any(flip.file is file for flip in disk.flips):
            return  # what stood there cannot be told any more
        promised = promised_epoch(file.solid) if file is not None else 0
        if message.epoch != promised:
            where = f"{seat.node.name} answers for shard {seat.shard} in epoch {message.epoch}"
            self._tally.check("I4", False, f"{where}, and has promised {promised}")
        self._tally.counts["I4"] += 1

    def hears(self, seat: "Seat", sender: str) -> None:
        self._heard[seat.node.name, seat.shard, sender] = seat.world.now

    def handed_out(self, request: Request) -> None:
        """Who has not heard all its members for so long hands nothing out: somebody else may lead. It was decided after
        the request began, and nothing was heard from them since that could have changed it."""
        process = self._checkers.cluster.node(request.host).daemon
        seat = process.seats.get(ShardId(request.shard)) if process is not None else None
        for member in self._checkers.members_of(request.shard, seat.epoch) if seat is not None else ():
            heard = self._heard.get((request.host, request.shard, str(member.host)), 0)
            is_sure = member.host == request.host or request.begun - heard < UNSURE_AFTER
            text = f"{request.host} handed out of shard {request.shard}, and has not heard {member.host} since {heard}"
            self._tally.check("I9", is_sure, text)

    # States

    def looks_at(self, host: str, shard: int) -> Looks:
        return self._looks.setdefault((host, shard), Looks())

    def stepped(self, seat: "Seat", replica: Replica) -> None:
        """After every step: now and then a look, when live state and disk can be compared."""
        now, looks = seat.world.now, seat.looks
        if now < looks.look_at or replica.is_copying:
            return
        archive = replica.archive
        if isinstance(archive, ReplicaLog):
            looks.look_at = now + LOOK_EVERY
            self._check_applied(seat, archive)
        if now < looks.compare_at:
            looks.look_at = now + LOOK_EVERY
        elif not seat.node.disk.flips:
            live = _settled_state(replica, archive)
            if live is not None:
                looks.compare_at = now + COMPARE_EVERY * seat.world.pace
                self._compare(seat, live)

    def _check_applied(self, seat: "Seat", log: ReplicaLog) -> None:
        place = log.base
        if place.stem:
            epoch, lsn = parse_stem(place.stem)[0], place.lsn
            is_committed = self._checkers.is_committed(seat.shard, (epoch, lsn))
            text = f"{seat.node.name} applied lsn {lsn} of epoch {epoch} of shard {seat.shard}, which is not committed"
            self._tally.check("I21", is_committed, text)

    def _compare(self, seat: "Seat", live: Shard) -> None:
        where = f"{seat.node.name} shard {seat.shard} at lsn {live.lsn}"
        try:
            other = replayed.state(seat.node.disk, seat.shard, upto=live.lsn)
        except CorruptLog as problem:
            raise Violation("I21", f"{where}: snapshot and log cannot be replayed: {problem}") from problem
        assert other is not None
        self._tally.check("I21", other.lsn == live.lsn, f"{where}: the disk is at lsn {other.lsn}")
        if other.now != live.now or other.epoch != live.epoch:
            other.begin(live.epoch, live.now, live.wall)
        other.wall = live.wall
        difference = replayed.difference(live, other)
        self._tally.check("I21", not difference, f"{where}: live state and disk differ: {difference}")


def _settled_state(replica: Replica, archive: object) -> Shard | None:
    """None: a leader has decided what is not written yet."""
    if isinstance(archive, ReplicaLog):
        return archive.state
    primary = replica.primary
    assert primary is not None, "who does not lead has a log that follows"
    journal = primary.journal
    return primary.shard if journal.appended == journal.durable else None
