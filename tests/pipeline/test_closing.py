"""When an hour is closed."""

from holdfast.ledger.closing import GRACE_US, closable, passed_us
from holdfast.ledger.positions import Position
from tests.pipeline.emitter import DAY, HOUR, T0


def passed(*, troubled: tuple[str, ...] = (), abandoned: tuple[str, ...] = (), **positions: Position) -> int:
    return (passed_us(positions, troubled=troubled, abandoned=abandoned, now_us=T0 + DAY) - T0) // HOUR


def at(hours: int, *, is_final: bool = False) -> Position:
    return Position(until_us=T0 + hours * HOUR, is_final=is_final)


def test_the_slowest_node_decides() -> None:
    assert passed(a=at(5), b=at(3), c=at(9)) == 3


def test_a_node_that_ended_well_holds_nothing_open() -> None:
    assert passed(a=at(5), b=at(3, is_final=True)) == 5
    assert passed(a=at(5, is_final=True)) == 24


def test_a_node_with_a_problem_holds_its_hours_open_even_if_its_last_epoch_ended() -> None:
    assert passed(a=at(5), b=at(3, is_final=True), troubled=("b",)) == 3


def test_a_node_of_which_nothing_could_be_read_holds_everything_open() -> None:
    assert passed_us({"a": at(5)}, troubled=["new"], abandoned=[], now_us=T0) == 0


def test_a_node_that_never_comes_back_is_named_by_the_operator() -> None:
    assert passed(a=at(5), b=at(3), c=at(1), troubled=("c",), abandoned=("b", "c")) == 5


def test_a_clock_in_the_future_closes_nothing_early() -> None:
    assert passed(a=at(1000)) == 24


def test_an_hour_closes_when_it_and_the_grace_have_passed() -> None:
    hours = [T0, T0 + HOUR]
    assert closable(hours, T0 + HOUR + GRACE_US - 1) == []
    assert closable(hours, T0 + HOUR + GRACE_US) == [T0]
    assert closable(hours, T0 + 2 * HOUR, grace_us=0) == hours
