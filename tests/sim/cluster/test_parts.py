"""The simulated wire and store themselves: what they may do to a message and to a transaction, and what not."""

from typing import Any

import pytest

from holdfast.core.coordination.store import Check, Event, Put, Transaction
from tests.sim.cluster.plan import StoreWeather, Weather
from tests.sim.cluster.store import STORE, TIMEOUT, UNKNOWN, Store, StoreClient, Watch
from tests.sim.cluster.wire import Wire, around, between
from tests.sim.world import MS, SECOND, World


def received(weather: Weather, count: int = 200) -> list[int]:
    world = World(3)
    got: list[int] = []
    wire = Wire(world, weather)
    for number in range(count):
        wire.send("a", "b", got.append, number)
        world.run(world.now + 100)
    world.run(world.now + SECOND)
    return got


def test_on_a_good_day_messages_arrive_once_and_in_order() -> None:
    assert received(Weather()) == list(range(200))


def test_messages_are_lost_repeated_and_reordered_as_the_weather_says() -> None:
    assert set(received(Weather(drop=0.2))) < set(range(200))
    assert len(received(Weather(twice=0.2))) > 200
    late = received(Weather(late=0.2, is_ordered=False))
    assert sorted(late) == list(range(200))
    assert late != sorted(late)


def test_a_cut_holds_in_its_direction_only_and_cuts_add_up() -> None:
    world = World(1)
    got: list[str] = []
    wire = Wire(world, Weather())
    wire.cut_for([("a", "b")], 10 * MS)
    wire.cut_for([("a", "b")], 20 * MS)
    wire.send("a", "b", got.append, "cut")
    wire.send("b", "a", got.append, "back")
    world.run(15 * MS)
    wire.send("a", "b", got.append, "still cut")
    world.run(25 * MS)
    wire.send("a", "b", got.append, "mended")
    world.run(30 * MS)
    assert got == ["back", "mended"]


def test_links_around_a_host_and_between_two_parts_are_named_in_both_directions() -> None:
    assert around("a", ["a", "b"]) == [("a", "b"), ("b", "a")]
    assert around("a", ["b"], is_in=False) == [("a", "b")]
    assert sorted(between(["a"], ["b", "c"])) == [("a", "b"), ("a", "c"), ("b", "a"), ("c", "a")]


class Asking:
    def __init__(self, weather: StoreWeather) -> None:
        self.world = World(5)
        self.store = Store(self.world, Wire(self.world, Weather()), weather)
        self.client = StoreClient("h1", self.store, self.world.after)
        self.answers: list[Any] = []

    def put(self, key: str, *, revision: int = 0) -> Any:
        """The first answer; time goes on until it is there."""
        before = len(self.answers)
        self.client.transact(Transaction((Check(key, revision),), (Put(key, b"v"),)), self.answers.append)
        self.world.run_while(lambda: len(self.answers) == before, self.world.now + 2 * TIMEOUT)
        return self.answers[before]


def test_a_transaction_is_done_or_refused() -> None:
    asking = Asking(StoreWeather())
    assert asking.put("k") is True
    assert asking.put("k") is False


@pytest.mark.parametrize(
    ("weather", "is_applied"),
    [(StoreWeather(request_lost=1), False), (StoreWeather(reply_lost=1), True), (StoreWeather(applied_late=1), True)],
)
def test_an_unknown_outcome_is_a_request_or_a_reply_lost_or_a_late_change(
    weather: StoreWeather, is_applied: bool
) -> None:
    asking = Asking(weather)
    answer = asking.put("k")
    asking.world.run(asking.world.now + 10 * SECOND)
    assert answer is UNKNOWN or (weather.applied_late and answer is True)
    assert (asking.store.state.get("k") is not None) is is_applied
    assert len(asking.answers) == 1


def test_a_store_that_is_away_or_cut_off_answers_nobody() -> None:
    asking = Asking(StoreWeather())
    asking.store.away_until = 3 * SECOND
    assert asking.put("k") is UNKNOWN
    asking.world.run(4 * SECOND)
    asking.store.wire.cut("h1", STORE)
    assert asking.put("k") is UNKNOWN
    asking.store.wire.mend("h1", STORE)
    assert asking.put("k") is True


def test_a_watch_tells_every_change_in_order_and_everything_again_after_a_restore() -> None:
    asking = Asking(StoreWeather())
    seen: list[Event] = []
    Watch(asking.client, "a", on_event=seen.append, on_revision=lambda _: None)
    for key in ("a1", "b1", "a2"):
        asking.put(key)
    asking.store.save()
    asking.put("a3")
    asking.world.run(asking.world.now + SECOND)
    assert [event.key for event in seen] == ["a1", "a2", "a3"]
    asking.store.restore()
    asking.world.run(asking.world.now + SECOND)
    assert [event.key for event in seen[3:]] == ["a1", "a2"]
