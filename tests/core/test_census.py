"""What a primary says of its lanes is right, names only those that matter, and never gets long."""

import msgspec

from holdfast.core.cluster.arrangement import Settings
from holdfast.core.cluster.lane_keeper import Expand, LaneKeeper, Order, Queue
from holdfast.core.cluster.membership import Manager
from holdfast.core.cluster.table import LaneRow, Layout
from holdfast.core.coordination.census import Census, LaneUse
from holdfast.core.coordination.cluster import DiskId, HostId, Life
from holdfast.core.coordination.heartbeat import Heartbeat, Role, ShardReport
from holdfast.core.coordination.sizing import LaneLimits, QueueUse
from holdfast.core.limits import CENSUS_LANES, EXPAND_AFTER, NOTED_LANES_MAX, SECOND
from holdfast.core.queue.lane import Lane
from holdfast.core.types import Epoch, Instant, LaneConfig, LaneId, Lsn, QueueName, Seq, ShardId
from tests.core.one_cluster import view_of
from tests.core.replica_cluster import LANE, serving

BEAT = SECOND // 5
SMALL = LaneLimits(messages=1000, bytes=1_000_000, in_flight=100, sends_per_s=500)


def lanes(count: int) -> dict[LaneId, Lane]:
    return {LaneId(number): Lane(LaneId(number), LaneConfig()) for number in range(1, count + 1)}


def looked(census: Census, there: dict[LaneId, Lane], beats: int, *, begin: int = 0) -> dict[LaneId, tuple[int, ...]]:
    for number in range(begin + 1, begin + beats + 1):
        uses = census.look(there, 0, Instant(number * BEAT))
    return {each.lane: msgspec.structs.astuple(each.use) for each in uses}


def test_a_full_lane_is_named_with_all_its_numbers_and_idle_ones_are_not() -> None:
    there, census = lanes(10), Census(Instant(0), SMALL)
    there[LaneId(7)].count, there[LaneId(7)].bytes, there[LaneId(7)].in_flight = 800, 70_000, 5
    assert looked(census, there, 2) == {7: (800, 70_000, 5, 0)}


def test_the_rate_of_a_lane_is_what_it_was_sent() -> None:
    there, census = lanes(3), Census(Instant(0), SMALL)
    for number in range(1, 100):
        there[LaneId(2)].last_seq = Seq(number * 80)
        uses = census.look(there, 0, Instant(number * BEAT))
    assert [(each.lane, each.use.sends_per_s) for each in uses] == [(2, 400)]


def test_two_looks_at_the_same_time_say_nothing_new() -> None:
    there, census = lanes(1), Census(Instant(0), SMALL)
    there[LaneId(1)].count = 900
    assert looked(census, there, 2)
    assert census.look(there, 10, Instant(2 * BEAT)) == ()
    assert looked(census, there, 1, begin=2)


def test_a_lane_that_calms_down_is_no_longer_named() -> None:
    there, census = lanes(3), Census(Instant(0), SMALL)
    there[LaneId(1)].count = 900
    assert looked(census, there, 2)
    there[LaneId(1)].count = 10
    assert looked(census, there, 1, begin=2) == {}
    del there[LaneId(1)]
    assert looked(census, there, 3, begin=3) == {}


def test_every_lane_of_many_is_met_and_only_the_fullest_are_named() -> None:
    there, census = lanes(5 * CENSUS_LANES), Census(Instant(0), SMALL)
    for number, lane in enumerate(there.values()):
        lane.count = 100 + number % 900 if number % 20 == 0 else 0
    last = there[LaneId(5 * CENSUS_LANES)]
    last.count = 1000
    found = looked(census, there, 6)
    assert len(found) == NOTED_LANES_MAX
    assert last.lane in found
    assert min(messages for messages, *_ in found.values()) > 500


def test_a_primary_reports_its_load_and_a_full_lane_and_the_report_survives_the_wire() -> None:
    cluster = serving()
    primary = cluster.replica("a").primary
    assert primary is not None
    for _ in range(40):
        for _ in range(5):
            cluster.send("a", "x" * 200)
        cluster.run(200)
        report = cluster.replica("a").report(Instant(cluster.now))
    assert 5 * 200 * 5 < report.load < 20_000  # with heads, records and padding
    assert report.lanes == ()  # two hundred messages are nothing
    primary.shard.lanes[LANE].bytes = 60 << 30
    for _ in range(2):
        cluster.run(200)
        report = cluster.replica("a").report(Instant(cluster.now))
    assert [(each.lane, each.use.messages, each.use.bytes) for each in report.lanes] == [(LANE, 200, 60 << 30)]
    assert cluster.replica("b").report(Instant(cluster.now)).lanes == ()
    beat = Heartbeat(HostId("a"), DiskId("d"), cluster.nodes["a"].me.life, 1, 1, shards=(report,))
    assert msgspec.msgpack.decode(msgspec.msgpack.encode(beat), type=Heartbeat) == beat


def test_a_queue_that_its_primary_reports_full_is_expanded_to_another_host() -> None:
    manager = Manager(HostId("a"), 1, settings=Settings(), now=0)
    manager.view = view_of("abc", ["abc", "bca", "cab"])
    lane, queue = LaneId(9), QueueName("000000000000", "orders")
    full = LaneUse(lane, QueueUse(messages=45_000_000))
    speaking = [("a", Role.PRIMARY, (full,)), ("b", Role.MEMBER, (LaneUse(lane, QueueUse()),))]
    for name, role, uses in speaking:
        report = ShardReport(ShardId(1), Epoch(1), role, Epoch(1), *3 * (Lsn(1),), 0, load=5, lanes=uses)
        manager.hearing.hear(Heartbeat(HostId(name), DiskId(name), Life(1), 1, 1, (report,)), now=0)
    assert manager.lane_uses() == {lane: full.use}
    keeper, queues = LaneKeeper(), {queue: Queue(Layout((LaneRow(lane, ShardId(1)),)), Order.NONE)}
    assert keeper.look(queues, manager.lane_uses(), shards=manager.shards(), now=0) == []
    wishes = keeper.look(queues, manager.lane_uses(), shards=manager.shards(), now=EXPAND_AFTER)
    assert wishes == [Expand(queue, (ShardId(2),))]
