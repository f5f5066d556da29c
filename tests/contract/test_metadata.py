"""The metadata on every store: two of them, as two processes would have, and none sees less than the truth."""

from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec
import pytest

from holdfast.core.coordination import catalogue as records
from holdfast.core.coordination.catalogue import FORMER, QUEUES, Outdated, QueueRow
from holdfast.core.coordination.identity import ROOT
from holdfast.core.coordination.store import Put, State, Transaction
from holdfast.core.types import LaneId, QueueName, ShardId, WallMs
from holdfast.frontend.follow import Follow
from holdfast.frontend.keyring import Keyring
from holdfast.frontend.locate import Directory
from holdfast.metadata import service
from holdfast.metadata.catalogue import Catalogue
from holdfast.metadata.identities import Credentials, Identities, IdentityError
from holdfast.metadata.service import Metadata, MetadataError, begin, check_format
from holdfast.protocol.names import Site
from holdfast.runtime.crypto import MasterKey, ReceiptKey
from holdfast.stores.contract import Store
from holdfast.stores.memory import MemoryStore
from holdfast.stores.sqlite import SqliteStore

HOME = "000000000000"
KEPT = 50
Open = Callable[[], Store]


@pytest.fixture(params=["memory", "sqlite"])
def open_store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Open]:
    state, opened = State(KEPT), []

    def open_sqlite() -> Store:
        opened.append(SqliteStore(tmp_path / "metadata.db", events_kept=KEPT))
        return opened[-1]

    yield {"memory": lambda: MemoryStore(state), "sqlite": open_sqlite}[request.param]
    for each in opened:
        each.close()


class Process:
    """What one process has of the metadata."""

    def __init__(self, store: Store) -> None:
        self.metadata = Metadata(store)
        self.catalogue = Catalogue(self.metadata)
        self.identities = Identities(self.metadata, MasterKey(bytes(32)))
        self.directory = Directory(Site(), receipt_key=ReceiptKey(bytes(32)))
        self.keyring = Keyring(self.identities, lambda _key, _day: None)
        self.follow = Follow(self.metadata, self.directory, self.keyring)
        self.follow.load()

    def make(self, name: str, **attributes: str) -> QueueRow:
        lane = self.catalogue.new_lane(ShardId(1))
        row = QueueRow(QueueName(HOME, name), lane, ShardId(1), attributes, {"team": "a"}, WallMs(1), WallMs(2), 3)
        self.catalogue.add(row)
        self.follow.catch_up()
        return self.row(name)

    def row(self, name: str) -> QueueRow:
        queue = self.directory.get(QueueName(HOME, name))
        assert queue is not None
        return queue.row

    def names(self) -> list[str]:
        return [each.queue.name for each in sorted(self.directory.rows(), key=lambda row: row.queue)]


@pytest.fixture
def one(open_store: Open) -> Process:
    return Process(open_store())


@pytest.fixture
def other(open_store: Open) -> Process:
    return Process(open_store())


# queues


def test_a_queue_has_a_record_only_while_its_lane_is_not_loose(one: Process) -> None:
    lane = one.catalogue.new_lane(ShardId(7))
    assert one.catalogue.loose_lanes() == [(lane, 7)]
    row = QueueRow(QueueName(HOME, "jobs"), lane, ShardId(7), {"DelaySeconds": "3"}, {}, WallMs(1), WallMs(2))
    one.catalogue.add(row)
    assert one.catalogue.loose_lanes() == []
    one.follow.catch_up()
    held = one.row("jobs")
    assert msgspec.structs.replace(held, revision=0) == row
    one.catalogue.remove(held)
    assert one.catalogue.loose_lanes() == [(lane, 7)]
    one.catalogue.dropped(lane)
    assert one.catalogue.loose_lanes() == []


def test_a_queue_is_not_added_when_a_start_has_dropped_its_lane_meanwhile(one: Process, other: Process) -> None:
    lane = one.catalogue.new_lane(ShardId(1))
    other.catalogue.dropped(lane)
    row = QueueRow(QueueName(HOME, "jobs"), lane, ShardId(1), {}, {}, WallMs(1), WallMs(2))
    with pytest.raises(Outdated):
        one.catalogue.add(row)


def test_lane_ids_are_never_used_twice_by_several_processes(one: Process, other: Process) -> None:
    lanes = [each.catalogue.new_lane(ShardId(1)) for _ in range(5) for each in (one, other)]
    for lane in lanes:
        one.catalogue.dropped(lane)
    lanes.append(other.catalogue.new_lane(ShardId(1)))
    assert lanes == sorted(set(lanes))


def test_what_one_process_changes_the_other_reads_exactly(one: Process, other: Process) -> None:
    row = one.make("jobs")
    for number in range(5):
        changed = msgspec.structs.replace(one.row("jobs"), attributes={"DelaySeconds": f"{number}"})
        one.catalogue.update(changed)
        one.follow.catch_up()
        other.follow.catch_up()
        assert other.row("jobs") == one.row("jobs")
        assert other.row("jobs").attributes == {"DelaySeconds": f"{number}"}
    one.catalogue.remove(one.row("jobs"))
    other.follow.catch_up()
    assert other.names() == []
    assert other.directory.arn_of_lane(row.lane | 1 << 48).endswith(":jobs")


def test_a_queue_that_another_process_made_is_found_at_once(one: Process, other: Process) -> None:
    one.make("jobs")
    assert other.directory.find(f"http://h/{HOME}/jobs", "").name.name == "jobs"


def test_a_change_of_something_outdated_is_refused(one: Process, other: Process) -> None:
    one.make("jobs")
    other.follow.catch_up()
    mine, theirs = one.row("jobs"), other.row("jobs")
    other.catalogue.update(msgspec.structs.replace(theirs, tags={"by": "other"}))
    for change in (one.catalogue.update, one.catalogue.remove, one.catalogue.add):
        with pytest.raises(Outdated):
            change(mine)
    one.follow.catch_up()
    assert one.row("jobs").tags == {"by": "other"}


def test_a_queue_that_did_not_change_stays_the_same_object(one: Process) -> None:
    """What admission remembers is bound to it."""
    one.make("jobs")
    queue = one.directory.get(QueueName(HOME, "jobs"))
    one.make("others")
    one.follow.load()
    assert one.directory.get(QueueName(HOME, "jobs")) is queue


def test_one_that_slept_for_too_long_reads_everything_again(one: Process, other: Process) -> None:
    one.make("gone")
    other.follow.catch_up()
    one.catalogue.remove(one.row("gone"))
    for number in range(KEPT):
        one.make(f"{number:02}")
    other.follow.catch_up()
    assert other.names() == one.names() == [f"{number:02}" for number in range(KEPT)]


def test_names_rest_after_their_queues_are_deleted_also_for_a_process_that_starts_later(
    one: Process, open_store: Open
) -> None:
    one.make("jobs")
    one.catalogue.remove(one.row("jobs"))
    one.follow.catch_up()
    for process in (one, Process(open_store())):
        assert process.follow.is_resting(QueueName(HOME, "jobs"))
        assert not process.follow.is_resting(QueueName("111111111111", "jobs"))


def test_names_that_have_rested_are_free(one: Process) -> None:
    row = one.make("jobs")
    long_ago = records.remove(row, WallMs(1), former=())
    one.metadata.transact(long_ago)
    one.follow.catch_up()
    assert not one.follow.is_resting(row.queue)


def test_names_of_deleted_queues_are_kept_up_to_a_number(one: Process, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(records, "FORMER_MAX", 3)
    for number in range(5):
        one.catalogue.remove(one.make(f"q{number}"))
    held = [records.former_of(each).queue.name for each in one.metadata.range(FORMER)]
    assert held == ["q2", "q3", "q4"]


# identities


def test_a_key_that_another_process_made_is_known_at_once(one: Process, other: Process) -> None:
    assert other.keyring.secret_of("AKIANOBODY") is None
    one.identities.add_account(HOME)
    made = one.identities.add_key(one.identities.user(HOME, ROOT))
    assert other.keyring.secret_of(made.id) == made.secret


def test_a_key_that_another_process_disabled_is_unknown_after_catching_up(one: Process, other: Process) -> None:
    one.identities.add_account(HOME)
    made = one.identities.add_key(one.identities.user(HOME, ROOT))
    assert other.keyring.secret_of(made.id) == made.secret
    one.identities.disable_key(made.id)
    other.follow.catch_up()
    assert other.keyring.secret_of(made.id) is None


def test_a_policy_that_changes_makes_its_users_callers_new_and_no_others(one: Process, other: Process) -> None:
    one.identities.add_account(HOME)
    users = [one.identities.add_user(HOME, name) for name in ("ann", "bob")]
    keys = [one.identities.add_key(each).id for each in users]
    for key in keys:
        other.keyring.secret_of(key)
    before = [other.keyring.caller(key, 1) for key in keys]
    document = '{"Statement": {"Effect": "Allow", "Action": "sqs:*", "Resource": "*"}}'
    one.identities.put_policy(users[0], "p", document=document)
    other.follow.catch_up()
    for key in keys:
        other.keyring.secret_of(key)
    after = [other.keyring.caller(key, 1) for key in keys]
    assert (len(after[0].policies), after[1] is before[1]) == (1, True)
    one.identities.remove_policy(users[0], "p")
    assert one.identities.user(HOME, "ann").policies == {}


def test_the_use_of_a_key_is_noted_by_day(one: Process, other: Process) -> None:
    one.identities.add_account(HOME)
    made = one.identities.add_key(one.identities.user(HOME, ROOT))
    for process, day in ((one, 5), (other, 7), (one, 6)):
        process.identities.note_use(made.id, day)
    assert other.identities.used_days() == {made.id: 7}


def test_what_is_there_is_not_made_again(one: Process, other: Process) -> None:
    one.identities.add_account(HOME)
    root = one.identities.user(HOME, ROOT)
    other.identities.add_account(HOME)
    assert other.identities.user(HOME, ROOT) == root
    made = one.identities.add_key(root)
    with pytest.raises(IdentityError, match="already"):
        other.identities.add_key(root, Credentials(made.id, "another-secret"))
    one.identities.add_user(HOME, "ann")
    with pytest.raises(IdentityError, match="already"):
        other.identities.add_user(HOME, "ann")


def test_keys_are_listed_in_the_order_they_were_made(one: Process) -> None:
    one.identities.add_account(HOME)
    made = [one.identities.add_key(one.identities.user(HOME, ROOT)).id for _ in range(5)]
    one.identities.disable_key(made[1])
    assert [each.id for each in one.identities.all_keys()] == made


# the store under it


def test_a_store_of_another_format_is_refused(open_store: Open) -> None:
    store = open_store()
    assert not check_format(store, where="here")
    begin(store)
    begin(store, [Put("never", b"")])
    assert check_format(store, where="here")
    assert store.get("never") is None
    store.transact(Transaction((), (Put(service.FORMAT_KEY, b"99"),)))
    with pytest.raises(MetadataError, match="format 99"):
        check_format(store, where="here")


def test_what_was_read_is_kept_until_it_changes(one: Process, other: Process) -> None:
    one.metadata.transact(Transaction((), (Put("a", b"1"),)))
    assert other.metadata.get("a") is other.metadata.get("a")
    one.metadata.transact(Transaction((), (Put("a", b"2"),)))
    other.metadata.catch_up()
    held = other.metadata.get("a")
    assert held is not None
    assert held.value == b"2"


def test_a_process_that_starts_sees_all_queues(one: Process, open_store: Open) -> None:
    for number in range(3):
        one.make(f"q{number}")
    assert Process(open_store()).names() == ["q0", "q1", "q2"]
    assert [each.key for each in open_store().range(QUEUES).records] == [f"queue/{HOME}/q{each}" for each in range(3)]
    assert LaneId(3) == one.row("q2").lane
