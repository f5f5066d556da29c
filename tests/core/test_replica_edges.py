"""What a shell asks of a replica besides its normal path, and what happens where two things meet."""

import pytest

from holdfast.core.coordination.cluster import HostId
from holdfast.core.coordination.heartbeat import Role
from holdfast.core.errors import CorruptLog, NotPrimary, OutcomeUnknown, Overloaded
from holdfast.core.limits import HELD_MAX, REPLICA_BEAT
from holdfast.core.log.files import Create, Rename, Sync, Write
from holdfast.core.log.promise import encode_promise
from holdfast.core.log.segment import SECTOR
from holdfast.core.queue import command as c
from holdfast.core.replication.damaged import Damaged
from holdfast.core.replication.replica_message import Append, Chunk, Message, Pull, Restart
from holdfast.core.replication.station import Assigned, Done, Heard, NoticeKind
from holdfast.core.types import Epoch, Instant, WallMs
from tests.core.replica_cluster import LANE, SHARD, Cluster, Letter, serving
from tests.core.test_reconfiguration import drain_and_forget, names


def pause(cluster: Cluster) -> None:
    """The primary waits for the outcome of a change."""
    cluster.answer = lambda _, question: "never" if "Transact" in repr(type(question)) else "now"
    cluster.crash("c")
    cluster.run(2300)
    assert cluster.replica("a")._leader.changes.is_paused  # type: ignore[union-attr]


def now(cluster: Cluster) -> tuple[Instant, WallMs]:
    return Instant(cluster.now), WallMs(0)


# Reports and roles


def test_a_replica_reports_its_role_and_its_marks() -> None:
    cluster = serving()
    cluster.send("a", "one")
    cluster.run(300)
    reports = {name: cluster.replica(name).report(Instant(cluster.now)) for name in "abc"}
    assert [report.role for report in reports.values()] == [Role.PRIMARY, Role.MEMBER, Role.MEMBER]
    assert {(report.epoch, report.appended, report.durable, report.committed) for report in reports.values()} == {
        (1, 2, 2, 2)
    }
    assert reports["a"].silence_us < 200_000


def test_a_candidate_that_finds_damage_withdraws_and_says_so() -> None:
    cluster = serving()
    cluster.send("a", "one")
    cluster.run(200)
    cluster.crash("a")
    disk = cluster.nodes["b"].disk
    path = disk.paths("segments")[0]
    damaged = bytearray(disk.get(path))
    damaged[560] ^= 1
    disk.put(path, bytes(damaged))
    cluster.elect("b")
    cluster.run(1000)
    assert cluster.leaders() == []
    assert cluster.replica("b").report(Instant(cluster.now)).role is Role.DAMAGED
    assert cluster.nodes["b"].notices[-1].kind is NoticeKind.WITHDRAWN
    cluster.elect("c")
    cluster.run(300)
    assert cluster.replica("b").report(Instant(cluster.now)).role is Role.MEMBER


def test_a_damaged_replica_reports_so_and_leads_nothing() -> None:
    cluster = serving()
    node = cluster.nodes["b"]
    damaged = Damaged(SHARD, node.me, CorruptLog("bytes"), identity=b"b", now=Instant(0))
    assert damaged.report(Instant(cluster.now)).role is Role.DAMAGED
    assert damaged.deadline() == 0
    damaged.submit(c.Count(LANE), 1, *now(cluster))
    ((token, answer),) = damaged.step(Assigned(()), *now(cluster)).replies
    assert token == 1
    assert isinstance(answer, NotPrimary)


# Commands while the members change


def test_commands_wait_while_the_members_change_and_are_decided_then() -> None:
    cluster = serving()
    pause(cluster)
    replica = cluster.replica("a")
    commands = [c.Send(LANE, b"x", b"x", 1) for _ in range(2)]
    replica._leader.roll._unacked.clear()  # type: ignore[union-attr]  # not stalled, only waiting
    replica.submit(commands[0], "one", *now(cluster))
    replica.submit_all(commands, "two", *now(cluster))
    cluster.answer = lambda _, __: "now"
    cluster.run(3000)
    assert isinstance(cluster.answer_of("one"), c.Accepted)  # type: ignore[arg-type]
    assert [type(each) for each in cluster.answer_of("two")] == [c.Accepted] * 2  # type: ignore[arg-type]


def test_a_command_that_waits_can_be_cancelled() -> None:
    cluster = serving()
    pause(cluster)
    replica = cluster.replica("a")
    replica._leader.roll._unacked.clear()  # type: ignore[union-attr]
    replica.submit(c.Count(LANE), "gone", *now(cluster))
    assert replica.cancel("gone")
    assert not replica.cancel("gone")
    cluster.answer = lambda _, __: "now"
    cluster.run(3000)
    assert cluster.answer_of("gone") is None  # type: ignore[arg-type]


def test_only_so_many_commands_wait() -> None:
    cluster = serving()
    pause(cluster)
    replica = cluster.replica("a")
    replica._leader.roll._unacked.clear()  # type: ignore[union-attr]
    for number in range(HELD_MAX + 1):
        replica.submit(c.Count(LANE), number, *now(cluster))
    out = replica.step(Done(0), *now(cluster))
    assert [(token, type(answer)) for token, answer in out.replies] == [(HELD_MAX, Overloaded)]


def test_a_batch_is_answered_with_one_outcome_each() -> None:
    cluster = serving()
    replica = cluster.replica("a")
    replica.submit_all([c.Send(LANE, b"x", b"x", 1), c.Count(LANE)], "batch", *now(cluster))
    cluster.run(200)
    assert [type(each).__name__ for each in cluster.answer_of("batch")] == ["Accepted", "Counts"]  # type: ignore[arg-type]
    cluster.replica("b").submit_all([c.Count(LANE)], "elsewhere", *now(cluster))
    cluster.run(100)
    assert [type(each) for each in cluster.answer_of("elsewhere")] == [NotPrimary]  # type: ignore[arg-type]


def test_headers_that_come_while_the_members_change_are_used_later() -> None:
    cluster = serving()
    for number in range(3):
        cluster.send("a", str(number))
    cluster.run(200)
    replica = cluster.replica("a")
    primary = replica.primary
    assert primary is not None
    primary.shard.lanes[LANE].backlog.window = None
    waiting = cluster.submit("a", c.Receive(LANE))
    (need,) = primary.needs()
    found = primary.journal.headers(need)
    pause(cluster)
    replica.loaded(need, found.headers, found.upto)  # type: ignore[union-attr]
    assert cluster.answer_of(waiting) is None
    cluster.answer = lambda _, __: "now"
    cluster.run(3000)
    assert len(cluster.answer_of(waiting).messages) == 1


def test_a_deposed_primary_answers_everybody() -> None:
    cluster = serving()
    cluster.lost = lambda letter: isinstance(letter.message, Append) and bool(letter.message.data)
    sent = cluster.send("a", "one")
    cluster.replica("a").submit_all([c.Send(LANE, b"x", b"x", 1)], "batch", *now(cluster))
    cluster.replica("a").submit(c.Receive(LANE), "poll", *now(cluster), wait_s=20)
    cluster.settle()
    cluster.lost = lambda _: False
    cluster.elect("b")
    cluster.run(200)
    assert isinstance(cluster.answer_of(sent), OutcomeUnknown)
    assert [type(each) for each in cluster.answer_of("batch")] == [OutcomeUnknown]  # type: ignore[arg-type]
    assert cluster.answer_of("poll") == c.EMPTY_DELIVERY  # type: ignore[arg-type]


def test_own_time_goes_on_from_the_last_stamp() -> None:
    cluster = serving()
    replica = cluster.replica("a")
    first = replica.own(Instant(cluster.now))
    assert replica.own(Instant(cluster.now + 5)) == first + 5
    assert cluster.replica("b").own(Instant(cluster.now)) == 0


def test_time_goes_on_where_nothing_was_written_for_long() -> None:
    cluster = serving()
    cluster.run(600_000)
    before = cluster.replica("a").own(Instant(cluster.now))
    cluster.crash("a")
    begun = cluster.now
    cluster.elect("b")
    cluster.run(500)
    after = cluster.replica("b").own(Instant(cluster.now))
    assert before - REPLICA_BEAT <= after <= before + cluster.now - begun


def test_time_of_a_leader_before_the_last_one_is_nothing_to_go_by() -> None:
    cluster = serving()
    cluster.run(600_000)  # everybody hears from the first that ten minutes have passed
    cluster.crash("a")
    cluster.crash("b")
    cluster.start("b")  # and this one does not remember it
    cluster.elect("b")
    cluster.run(500)
    before, begun = cluster.replica("b").own(Instant(cluster.now)), cluster.now
    assert before < 10_000_000
    cluster.elect("c")
    cluster.run(500)
    after = cluster.replica("c").own(Instant(cluster.now))
    assert before - REPLICA_BEAT <= after <= before + cluster.now - begun, "what was delayed there is not early here"


# Fencing


def test_a_torn_tail_needs_the_word_of_another_member() -> None:
    cluster = serving()
    cluster.send("a", "one")
    cluster.run(200)
    for name in "abc":
        cluster.crash(name)
    disk = cluster.nodes["b"].disk
    path = disk.paths("segments")[0]
    damaged = bytearray(disk.get(path))
    end = len(damaged.rstrip(b"\0"))
    damaged[end - 1] ^= 1  # the last frame, acknowledged, went bad: it looks torn
    disk.put(path, bytes(damaged))
    cluster.start("b")
    cluster.assign("b")
    before = cluster.lsns("b")
    cluster.elect("b")
    cluster.run(5000)
    assert cluster.replica("b").report(Instant(cluster.now)).role is Role.CANDIDATE
    cluster.crash("b")
    cluster.start("b")  # the mark outlives a restart
    cluster.elect("b")
    cluster.run(5000)
    assert cluster.leaders() == []
    cluster.start("c")
    cluster.run(3000)
    assert cluster.leaders() == ["b"]
    assert cluster.lsns("b") == before + 1


def test_a_promise_that_is_only_in_the_page_cache_is_made_durable_before_it_is_answered_for() -> None:
    cluster = serving()
    node = cluster.nodes["c"]
    promise = encode_promise(Epoch(7), b"c")
    for operation in (
        Create("promise.tmp"),
        Write("promise.tmp", 0, promise),
        Sync("promise.tmp"),
        Rename("promise.tmp", "promise"),
    ):
        node.disk.do(operation)
    node.replica = None  # killed before the folder was synced
    cluster.start("c")
    cluster.crash("c")
    assert node.disk.get("promise") == promise


def test_a_segment_that_was_torn_behind_its_header_is_received_again() -> None:
    cluster = serving()
    cluster.crash("c")
    disk = cluster.nodes["c"].disk
    path = disk.paths("segments")[0]
    disk.put(path, disk.get(path)[:SECTOR].ljust(cluster.segment, b"\0"))
    cluster.start("c")
    cluster.run(500)
    stems = [segment.stem for segment in cluster.replica("c").log.archive.segments]
    assert stems == [segment.stem for segment in cluster.replica("a").log.archive.segments]
    assert cluster.files("a") == cluster.files("c")


def test_a_late_cut_does_nothing() -> None:
    cluster = serving()
    cuts: list[Letter] = []

    def note(letter: Letter) -> bool:
        if type(letter.message).__name__ == "Cut":
            cuts.append(Letter(letter.sender, letter.target, letter.data))
        return "a" in (letter.sender, letter.target) and not cuts_allowed[0]

    cuts_allowed = [False]
    cluster.lost = note
    cluster.send("a", "only on a")
    cluster.settle()
    cluster.elect("b")
    cluster.run(600)
    cuts_allowed[0] = True
    cluster.assign("abc")
    cluster.run(3000)
    assert cuts
    cluster.send("b", "another")
    cluster.run(500)
    before = cluster.files("a")
    cluster.wire += cuts
    cluster.settle()
    assert cluster.files("a") == before


def test_an_answer_between_members_is_nobodys_order() -> None:
    cluster = serving()
    end = cluster.replica("c").log.end
    cluster.step("b", heard("c", Append(cluster.record.epoch, end, end.stem, b"", b"", end.lsn, is_leading=False)))
    assert cluster.wire == []


def heard(sender: str, message: Message) -> Heard:
    return Heard(HostId(sender), message)


# Copies


def test_a_copy_goes_on_when_pieces_get_lost() -> None:
    cluster = serving()
    cluster.assign("abc")
    cluster.crash("c")
    cluster.run(3000)
    drain_and_forget(cluster)
    lost: list[Letter] = []

    def lose(letter: Letter) -> bool:
        is_lost = isinstance(letter.message, Chunk) and len(lost) < 3
        if is_lost:
            lost.append(letter)
        return is_lost

    cluster.lost = lose
    cluster.start("c")
    cluster.run(8000)
    assert len(lost) == 3
    assert sorted(names(cluster)) == ["a", "b", "c"]
    assert cluster.files("a") == cluster.files("c")


def test_a_copy_that_is_fenced_off_begins_again() -> None:
    cluster = serving()
    cluster.assign("abc")
    cluster.crash("c")
    cluster.run(3000)
    drain_and_forget(cluster)
    cluster.lost = lambda letter: isinstance(letter.message, Chunk)
    cluster.start("c")
    cluster.run(1500)
    assert cluster.replica("c").is_copying
    cluster.lost = lambda _: False
    cluster.elect("b")
    cluster.run(10_000)
    assert sorted(names(cluster)) == ["a", "b", "c"]
    assert cluster.files("b") == cluster.files("c")


def test_a_member_does_not_start_over_however_it_is_told() -> None:
    cluster = serving()
    cluster.send("a", "one")
    cluster.run(200)
    end = cluster.replica("b").log.end
    before = cluster.files("b")
    cluster.step("b", heard("a", Restart(cluster.record.epoch, end, end.lsn, ())))
    cluster.run(1000)
    assert cluster.files("b") == before


def test_bytes_that_do_not_fit_are_not_taken_and_asked_for_again() -> None:
    cluster = serving()
    replica = cluster.replica("b")
    end = replica.log.end
    for data in (b"x" * 512, bytes(1024)):
        for stem in (end.stem, "00000001-00000000000000ff"):
            cluster.now += 100_000
            cluster.step("b", heard("a", Append(cluster.record.epoch, end, stem, data, b"", end.lsn)))
    assert replica.log.end == end
    pulls = [letter.message for letter in cluster.wire if isinstance(letter.message, Pull)]
    assert [pull.is_lost for pull in pulls] == [False, False, True, True]  # a broken message is not a broken log


@pytest.mark.parametrize("problem", ["missing", "foreign"])
def test_a_promise_that_is_missing_or_foreign_is_damage(problem: str) -> None:
    cluster = serving()
    cluster.crash("c")
    disk = cluster.nodes["c"].disk
    if problem == "missing":
        disk.names.pop("promise")
        disk.durable.pop("promise")
    else:
        disk.put("promise", cluster.nodes["b"].disk.get("promise"))
    cluster.start("c")
    assert isinstance(cluster.nodes["c"].replica, Damaged)
    cluster.assign("abc")
    cluster.run(20_000)
    assert cluster.files("a") == cluster.files("c")


def test_a_candidate_whose_source_falls_silent_goes_on_without_it() -> None:
    cluster = serving()
    cluster.lost = lambda letter: isinstance(letter.message, Append) and letter.target == "b"
    cluster.send("a", "only on a and c")
    cluster.settle()
    cluster.crash("a")
    cluster.lost = lambda letter: letter.sender == "c" and isinstance(letter.message, Append)
    cluster.elect("b")
    cluster.run(200)
    cluster.run(8000)
    assert cluster.leaders() == ["b"]
