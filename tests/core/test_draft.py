"""Drafts: the running state, taken between two segments, is what the log leads to."""

from holdfast.core.log.draft import Drafts
from holdfast.core.log.primary import Primary
from holdfast.core.log.recovery import recover
from holdfast.core.log.segment_files import prepare_segment
from holdfast.core.log.snapshot import Advanced, keep_snapshot, list_snapshots, load_newest, remove_old, snapshot_path
from holdfast.core.queue.command import Configure, Receive, Send
from holdfast.core.queue.shard import Shard
from holdfast.core.types import Instant, LaneConfig, LaneId, Lsn, WallMs
from tests.core.memory_disk import RESERVE, SEGMENT, SHARD, MemoryDisk, Plain
from tests.sim.plan import shrunk

LANE = LaneId(1)


class Server:
    """A shard as its host runs it, with drafts."""

    def __init__(self, disk: MemoryDisk) -> None:
        self.disk = disk
        work = recover(SHARD, machine=Shard, identity=b"host", segment_bytes=SEGMENT, reserve_bytes=RESERVE)
        recovered = disk.run(work)
        self.replayed = recovered.replayed
        self.primary = Primary(recovered.shard, recovered.journal)
        self.journal = recovered.journal
        self.drafts = Drafts(recovered.shard, recovered.journal)
        self.time = self.journal.stamp
        self._spare()

    def _spare(self) -> None:
        if self.journal.wants_spare():
            number = self.journal.start_spare()
            assert self.disk.run(prepare_segment(number, key=b"key", size=SEGMENT))
            self.journal.end_spare(Plain())

    def ask(self, *commands: Configure | Send | Receive) -> None:
        """One flush with all of them, not synced."""
        self.time = Instant(self.time + 1000)
        for command in commands:
            self.primary.submit(command, None, self.time, WallMs(self.time))
        self.disk.do_all(self.primary.flush())

    def synced(self) -> None:
        self.primary.synced()
        self._spare()
        for stem in self.journal.sealed_without_index():
            self.disk.run(self.journal.write_index(stem))
            self.journal.indexed(stem)

    def send(self, count: int = 30) -> None:
        self.ask(*(Send(LANE, b"", bytes(100), 100) for _ in range(count)))
        self.synced()

    def fill(self, segments: int) -> None:
        enough = len(self.journal.segments) + segments
        while len(self.journal.segments) < enough:
            self.send()

    def keep(self) -> Advanced | None:
        draft = self.drafts.take()
        assert draft is not None
        return self.disk.run(keep_snapshot(draft.head, draft.body, draft.live))


def started() -> Server:
    server = Server(MemoryDisk())
    server.ask(Configure(LANE, LaneConfig()))
    server.synced()
    return server


def test_batches_that_reach_into_the_next_segment_leave_a_draft_of_what_is_before_it() -> None:
    server = started()
    drafts = 0
    for size in range(100, 200):
        server.time = Instant(server.time + 1000)
        sends = [Send(LANE, b"", bytes(size), size) for _ in range(10)]
        server.primary.submit_all(sends, None, server.time, WallMs(server.time))
        server.disk.do_all(server.primary.flush())
        server.synced()
        draft = server.drafts.take()
        if draft is not None:
            drafts += 1
            assert draft.head.lsn == server.journal.segments[-1].first - 1
    assert drafts == len(server.journal.segments) - 1 > 10
    shard = server.primary.shard
    assert Server(server.disk).primary.shard.lanes[LANE].count == shard.lanes[LANE].count == 1000


def test_a_start_from_a_draft_finds_the_state_that_was_there() -> None:
    server = started()
    server.fill(2)
    server.ask(Receive(LANE, 10, 30))
    server.synced()
    server.fill(1)
    done = server.keep()
    assert done == Advanced(Lsn(server.journal.segments[-1].first - 1), (), ())
    server.send(3)
    before = server.primary.shard
    again = Server(server.disk.copy())
    assert again.replayed < 40
    again.primary.shard.begin(before.epoch, before.now, before.wall)
    assert again.primary.shard.dump() == before.dump()


def test_a_draft_is_not_taken_before_its_last_record_is_committed() -> None:
    server = started()
    server.fill(1)
    server.drafts.take()
    segments = len(server.journal.segments)
    while len(server.journal.segments) == segments:
        server.ask(*(Send(LANE, b"", bytes(100), 100) for _ in range(30)))
        assert server.drafts.take() is None
        if len(server.journal.segments) == segments:
            server.synced()
    server.synced()
    assert server.drafts.take() is not None
    assert server.drafts.take() is None


def test_a_heavy_state_is_not_drafted() -> None:
    server = started()
    with shrunk({"DRAFT_WEIGHT": 31}):  # a lane has 32
        server.fill(2)
    assert server.drafts.take() is None
    server.ask(Receive(LANE, 10, 30))
    server.synced()
    with shrunk({"DRAFT_WEIGHT": 50}):
        server.fill(1)
    assert server.drafts.take() is not None
    assert server.primary.shard.weight(10**6) > 42


def test_the_first_segment_of_a_start_brings_a_draft_of_what_was_recovered() -> None:
    server = started()
    server.fill(1)
    again = Server(server.disk.copy())
    assert again.replayed > 0
    again.send(1)
    assert again.keep() is not None
    third = Server(again.disk.copy())
    assert third.replayed == 1


def test_a_draft_that_is_not_newer_than_the_newest_snapshot_is_dropped() -> None:
    server = started()
    server.fill(1)
    draft = server.drafts.take()
    assert draft is not None
    keep = (draft.head, draft.body, draft.live)
    assert server.disk.run(keep_snapshot(*keep)) is not None
    assert server.disk.run(keep_snapshot(*keep)) is None


def test_a_damaged_snapshot_does_not_count_as_the_older_one() -> None:
    server = started()
    made = []
    for _ in range(3):
        server.fill(1)
        done = server.keep()
        assert done is not None
        made.append(done.lsn)
        server.disk.run(remove_old(done))
    assert server.disk.run(list_snapshots()) == [made[2], made[1]]
    server.disk.put(snapshot_path(made[2]), b"damaged")
    server.fill(1)
    done = server.keep()
    assert done is not None
    assert done.snapshots == (made[2],)
    state, _ = server.disk.run(load_newest(SHARD, Shard))
    assert state.lsn == done.lsn
