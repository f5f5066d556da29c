"""The replication protocol holds within small bounds, each weakening is noticed, and the search itself is exact."""

import pytest

from tests.model.healing import can_heal, heal_all
from tests.model.invariants import violation
from tests.model.search import exhaust, successors, wander
from tests.model.state import Bounds, Rules, first_state
from tests.model.trace import show
from tests.model.weakenings import FURTHER, LISTED, SMALL

ALL = LISTED | FURTHER
STEPS = {"append", "fsync", "deliver", "commit", "suspect", "apply", "request", "told", "deposed", "candidate"}
STEPS |= {"fence", "answer", "freeze", "crash"}


def test_every_state_within_small_bounds_keeps_what_was_acknowledged() -> None:
    found = exhaust(SMALL._replace(crashes=1), Rules())
    assert not found.said, show(found.trace, found.said)
    assert found.is_complete
    assert set(found.kinds) == STEPS  # nothing was left out, so nothing was proven of it by accident


@pytest.mark.parametrize("name", ALL)
def test_a_weakening_is_noticed_and_its_history_can_be_followed(name: str) -> None:
    weakening = ALL[name]
    found = exhaust(weakening.bounds, weakening.rules, states_max=150_000, judge=weakening.judge)
    assert found.said
    before = first_state(weakening.bounds)
    for label, after in found.trace:
        assert (label, after) in list(successors(before, weakening.bounds, weakening.rules))
        before, last = after, before
    assert weakening.judge(last, before) == found.said
    assert found.said in show(found.trace, found.said)


def test_without_one_weakening_its_own_bounds_show_nothing() -> None:
    """The smallest of them; the larger ones are what `make model` searches."""
    for name in ("late-copy-cuts", "no-fencing"):
        assert not exhaust(ALL[name].bounds, Rules()).said


def test_whatever_has_happened_the_shard_can_be_brought_to_serve_again() -> None:
    bounds = Bounds(epochs=4, lsns=2, crashes=2, wipes=1, rots=1, requests=2, has_slow_disks=True)
    found = heal_all(bounds, seed=1, histories=60)
    assert not found.said, show(found.trace, found.said)


def test_a_shard_that_cannot_find_enough_members_is_not_taken_to_serve() -> None:
    assert can_heal(first_state(SMALL), SMALL)
    assert not can_heal(first_state(SMALL), SMALL._replace(min_members=4))


def test_a_walk_is_the_same_for_the_same_seed_and_differs_for_another() -> None:
    bounds = Bounds(epochs=5, lsns=3, crashes=2, wipes=1, rots=1, has_snapshots=True, has_slow_disks=True)
    walks = [wander(bounds, Rules(), seed=seed, steps=2_000) for seed in (1, 1, 2)]
    assert not any(walk.said for walk in walks)
    assert walks[0].kinds == walks[1].kinds != walks[2].kinds


def test_a_walk_finds_a_weakening_too() -> None:
    bounds = Bounds(epochs=2, lsns=1, crashes=0, wipes=0, requests=1)
    assert wander(bounds, Rules(all_members_commit=False), seed=1, steps=200_000, judge=violation).said
