"""Every store does the same. Each test runs on all of them; time is told by the test."""

import itertools
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from holdfast.core.coordination.store import (
    Check,
    Compacted,
    Delete,
    Event,
    LeaseGone,
    LeaseId,
    Put,
    Record,
    State,
    Transaction,
    Write,
)
from holdfast.stores.contract import Store
from holdfast.stores.memory import MemoryStore
from holdfast.stores.sqlite import SqliteStore, StoreError

KEPT = 20


class Time:
    def __init__(self) -> None:
        self.now = 1_000_000_000

    def __call__(self) -> int:
        return self.now

    def pass_s(self, seconds: float) -> None:
        self.now += int(seconds * 1e6)


Open = Callable[[], Store]


@pytest.fixture
def time() -> Time:
    return Time()


@pytest.fixture(params=["memory", "sqlite"])
def open_store(request: pytest.FixtureRequest, tmp_path: Path, time: Time) -> Iterator[Open]:
    """Another view of the same records, as another process would have, each time it is called."""
    state, opened = State(KEPT), []

    def open_memory() -> Store:
        return MemoryStore(state, now_us=time)

    def open_sqlite() -> Store:
        opened.append(SqliteStore(tmp_path / "store.db", now_us=time, events_kept=KEPT))
        return opened[-1]

    yield {"memory": open_memory, "sqlite": open_sqlite}[request.param]
    for each in opened:
        each.close()


@pytest.fixture
def store(open_store: Open) -> Store:
    return open_store()


def write(store: Store, *writes: Write, checks: tuple[Check, ...] = ()) -> bool:
    return store.transact(Transaction(checks, writes))


def keys(store: Store, prefix: str = "") -> list[str]:
    return [each.key for each in store.range(prefix).records]


# records and transactions


def test_an_empty_store_has_nothing_at_revision_0(store: Store) -> None:
    assert store.get("a") is None
    assert (store.range("").records, store.range("").revision) == ((), 0)
    assert store.watch("", 0).events == ()


def test_a_record_knows_what_made_it_and_what_wrote_it_last(store: Store) -> None:
    assert write(store, Put("a", b"1"))
    assert write(store, Put("b", b"x"))
    assert write(store, Put("a", b"2"))
    assert store.get("a") == Record("a", b"2", 1, 3)


def test_a_transaction_is_one_revision(store: Store) -> None:
    assert write(store, Put("a", b"1"), Put("b", b"2"), Put("c", b"3"))
    assert {each.revision for each in store.range("").records} == {1}


def test_a_record_that_went_and_came_again_is_another_one(store: Store) -> None:
    write(store, Put("a", b"1"))
    write(store, Delete("a"))
    assert store.get("a") is None
    write(store, Put("a", b"2"))
    assert store.get("a") == Record("a", b"2", 3, 3)


@pytest.mark.parametrize("check", [Check("a", 0), Check("a", 2), Check("b", 1)])
def test_a_check_that_does_not_hold_changes_nothing(store: Store, check: Check) -> None:
    write(store, Put("a", b"1"))
    assert not write(store, Put("a", b"2"), Put("c", b"3"), checks=(Check("a", 1), check))
    assert (keys(store), store.range("").revision) == (["a"], 1)
    assert [each.revision for each in store.watch("", 0).events] == [1]


def test_checks_that_hold_let_the_writes_happen(store: Store) -> None:
    write(store, Put("a", b"1"))
    assert write(store, Put("b", b"2"), Delete("a"), checks=(Check("a", 1), Check("b", 0)))
    assert keys(store) == ["b"]


def test_what_changes_nothing_is_no_revision(store: Store) -> None:
    write(store, Put("a", b"1"))
    assert write(store, Delete("nothing"))
    assert write(store, checks=(Check("a", 1),))
    assert store.range("").revision == 1


def test_a_transaction_writes_each_key_once(store: Store) -> None:
    with pytest.raises(ValueError, match="once"):
        write(store, Put("a", b"1"), Delete("a"))
    assert store.get("a") is None


def test_a_range_is_all_that_begins_with_a_prefix_in_order(store: Store) -> None:
    write(store, *(Put(key, b"") for key in ("b/2", "b", "a/é", "b/10", "b0", "c", "b/1")))
    assert keys(store, "b/") == ["b/1", "b/10", "b/2"]
    assert keys(store, "b") == ["b", "b/1", "b/10", "b/2", "b0"]
    assert keys(store) == ["a/é", "b", "b/1", "b/10", "b/2", "b0", "c"]
    assert keys(store, "d") == []


def test_what_one_view_writes_the_other_reads_at_once(open_store: Open) -> None:
    one, other = open_store(), open_store()
    for number in range(5):
        write(one, Put("a", b"%d" % number))
        held = other.get("a")
        assert held is not None
        assert held.value == b"%d" % number
        assert other.range("a").records == (held,)


def test_of_two_who_compare_and_swap_one_wins(open_store: Open) -> None:
    one, other = open_store(), open_store()
    write(one, Put("a", b"1"))
    assert write(other, Put("a", b"2"), checks=(Check("a", 1),))
    assert not write(one, Put("a", b"3"), checks=(Check("a", 1),))


# events


def test_events_come_in_order_of_revision_and_of_writing(store: Store) -> None:
    write(store, Put("b", b"1"), Put("a", b"2"))
    write(store, Delete("b"))
    found = store.watch("", 0)
    assert found.events == (
        Event(1, "b", Record("b", b"1", 1, 1)),
        Event(1, "a", Record("a", b"2", 1, 1)),
        Event(2, "b", None),
    )
    assert found.revision == 2
    assert store.watch("", 2).events == ()


def test_a_watcher_of_a_prefix_is_told_of_nothing_else_and_still_goes_on(store: Store) -> None:
    write(store, Put("a/1", b""))
    write(store, Put("b/1", b""))
    found = store.watch("a/", 0)
    assert ([each.key for each in found.events], found.revision) == (["a/1"], 2)


def test_from_a_snapshot_on_nothing_is_missed(open_store: Open) -> None:
    one, other = open_store(), open_store()
    write(one, Put("a", b"1"))
    seen = other.range("")
    write(one, Put("a", b"2"))
    assert [each.revision for each in other.watch("", seen.revision).events] == [2]


def test_a_watcher_that_lags_too_far_behind_is_told(store: Store) -> None:
    for number in range(KEPT + 1):
        write(store, Put("a", b"%d" % number))
    assert len(store.watch("", 1).events) == KEPT
    with pytest.raises(Compacted):
        store.watch("", 0)


def test_a_watcher_that_waits_is_woken_by_another_view(open_store: Open) -> None:
    waiting, other = open_store(), open_store()
    writer = threading.Timer(0.05, write, (other, Put("a", b"1")))
    writer.start()
    found = waiting.watch("", 0, wait_s=10)
    writer.join()
    assert [each.key for each in found.events] == ["a"]


def test_a_watcher_waits_no_longer_than_asked(store: Store) -> None:
    assert store.watch("", 0, wait_s=0.03).events == ()


# leases


def test_records_of_a_lease_go_when_it_is_not_renewed(open_store: Open, time: Time) -> None:
    store, other = open_store(), open_store()
    lease = store.grant(5)
    write(store, Put("b", b"", lease), Put("a", b"", lease), Put("kept", b""))
    time.pass_s(4.9)
    assert keys(other) == ["a", "b", "kept"]
    time.pass_s(0.1)
    assert keys(other) == ["kept"]
    assert [(each.key, each.record) for each in store.watch("", 1).events] == [("a", None), ("b", None)]
    assert not store.renew(lease)


def test_a_lease_that_is_renewed_lasts(open_store: Open, time: Time) -> None:
    store, other = open_store(), open_store()
    lease = store.grant(5)
    write(store, Put("a", b"", lease))
    for _ in range(4):
        time.pass_s(3)
        assert other.renew(lease)
    assert keys(store) == ["a"]


def test_a_revoked_lease_ends_at_once_and_only_once(store: Store) -> None:
    lease, other = store.grant(5), store.grant(5)
    assert lease != other
    write(store, Put("a", b"", lease), Put("b", b"", other))
    store.revoke(lease)
    store.revoke(lease)
    assert keys(store) == ["b"]
    assert not store.renew(lease)


def test_nothing_can_be_bound_to_a_lease_that_has_ended(store: Store, time: Time) -> None:
    lease = store.grant(1)
    time.pass_s(1)
    for gone in (lease, LeaseId(99)):
        with pytest.raises(LeaseGone):
            write(store, Put("b", b""), Put("a", b"", gone))
    assert keys(store) == []


def test_a_record_that_is_written_again_without_its_lease_stays(store: Store, time: Time) -> None:
    lease = store.grant(1)
    write(store, Put("a", b"1", lease))
    write(store, Put("a", b"2"))
    time.pass_s(2)
    assert keys(store) == ["a"]


def test_a_clock_that_began_anew_does_not_make_a_lease_longer(store: Store, time: Time) -> None:
    lease = store.grant(5)
    write(store, Put("a", b"", lease))
    time.now = 1_000
    assert keys(store) == ["a"]
    time.pass_s(5)
    assert keys(store) == []


# all against one


NAMES = st.sampled_from(["a", "a/1", "a/2", "b"])
WRITES = st.one_of(st.builds(Put, NAMES, st.binary(max_size=2)), st.builds(Delete, NAMES))
CHECKS = st.builds(Check, NAMES, st.integers(0, 4))
TRANSACTIONS = st.lists(
    st.builds(
        Transaction,
        st.lists(CHECKS, max_size=1).map(tuple),
        st.lists(WRITES, max_size=3, unique_by=lambda each: each.key).map(tuple),
    ),
    max_size=8,
)
_numbers = itertools.count()


@given(TRANSACTIONS)
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_sqlite_and_memory_agree_on_every_history(tmp_path: Path, history: list[Transaction]) -> None:
    memory = MemoryStore()
    sqlite = SqliteStore(tmp_path / f"{next(_numbers)}.db")
    try:
        for transaction in history:
            assert memory.transact(transaction) == sqlite.transact(transaction)
            assert memory.range("a") == sqlite.range("a")
        assert memory.watch("a", 0) == sqlite.watch("a", 0)
    finally:
        sqlite.close()


def test_a_file_of_another_format_is_refused(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "store.db")
    store._connection.execute("PRAGMA user_version = 99")
    store.close()
    with pytest.raises(StoreError, match="format 99"):
        SqliteStore(tmp_path / "store.db")


def test_what_was_written_is_there_after_opening_again(tmp_path: Path) -> None:
    for number in range(3):
        store = SqliteStore(tmp_path / "store.db")
        assert write(store, Put(f"{number}", b""))
        assert store.range("").revision == number + 1
        store.close()
