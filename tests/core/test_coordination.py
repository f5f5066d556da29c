"""Writes of one machine: one at a time for each key, read back however they ended."""

from holdfast.core.cluster.arrangement import Settings
from holdfast.core.cluster.membership import Leased, Manager, Thawed, Tick, What
from holdfast.core.coordination.asking import Desk, Fetched, Loaded, Outcome, Settled
from holdfast.core.coordination.cluster import HostId
from holdfast.core.coordination.store import LeaseId, Snapshot, Transaction
from holdfast.core.limits import ASK_PATIENCE, ASKS_MAX

NOTHING = Transaction((), ())


def test_a_key_is_free_again_when_it_was_read_back_whatever_the_outcome() -> None:
    for outcome in Outcome:
        desk = Desk()
        desk.write("a", NOTHING, 0)
        assert not desk.is_free("a")
        assert desk.is_free("b")
        desk.settle(Settled(desk.transacts[0].token, outcome), 1)
        assert not desk.is_free("a")
        fetch = desk.fetches[0]
        assert desk.receive(Fetched(fetch.token, None, 5)) == "a"
        assert desk.is_free("a")


def test_answers_that_nobody_waits_for_are_ignored() -> None:
    desk = Desk()
    desk.settle(Settled(7, Outcome.DONE), 0)
    assert desk.receive(Fetched(7, None, 1)) is None
    assert desk.fetches == []


def test_a_write_without_an_answer_is_given_up_and_looked_up_until_the_store_answers() -> None:
    desk = Desk()
    desk.write("a", NOTHING, 0)
    late = desk.transacts[0].token
    desk.look_for_answers(ASK_PATIENCE - 1)
    assert desk.fetches == []
    desk.look_for_answers(ASK_PATIENCE)
    desk.look_for_answers(2 * ASK_PATIENCE)
    first, second = desk.fetches
    desk.settle(Settled(late, Outcome.DONE), 2 * ASK_PATIENCE)
    assert desk.receive(Fetched(first.token, None, 1)) is None, "it was given up"
    assert desk.receive(Fetched(second.token, None, 1)) == "a"


def test_no_more_is_asked_at_once_than_the_bound() -> None:
    desk = Desk()
    for number in range(ASKS_MAX):
        desk.write(f"key {number}", NOTHING, 0)
    assert not desk.is_free("one more")


def test_a_manager_does_nothing_with_a_restored_store_until_an_operator_has_looked() -> None:
    manager = Manager(HostId("a"), 1, settings=Settings(), now=0, seen_revision=10)
    manager.step(Leased(LeaseId(1)), 0)
    assert manager.step(Loaded(Snapshot((), 5)), 1).needs_load
    frozen = manager.step(Loaded(Snapshot((), 5)), 2)
    assert [each.what for each in frozen.notes] == [What.FROZEN]
    assert not frozen.needs_load
    assert manager.step(Tick(), manager.deadline()).transacts == []
    assert manager.step(Thawed(5), manager.deadline()).needs_load
    manager.step(Loaded(Snapshot((), 5)), manager.deadline() - 1)
    assert len(manager.step(Tick(), manager.deadline()).transacts) == 1, "it stands for the office"
