"""Clusters: every story, and what must hold for any spread."""

import difflib
import sys
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.core.cluster.federation import OFFICE, Federation
from holdfast.core.cluster.membership import Leased, Tick
from holdfast.core.cluster.spread import ClusterId, Share, Spread, Standing, pick, weights
from holdfast.core.coordination.asking import Fetched, Loaded, Outcome, Settled, Watched
from holdfast.core.coordination.store import Event, LeaseId, Record, Snapshot
from tests.federation.script import outputs_of
from tests.scenarios.script import Case, read_cases, text_of

STORIES = Path(__file__).with_name("clusters.txt")
CASES = {case.name: case for case in read_cases(STORIES)}


@pytest.mark.parametrize("case", CASES.values(), ids=list(CASES))
def test_story(case: Case) -> None:
    written = case.text().splitlines()
    happened = case.text(outputs_of(case)).splitlines()
    difference = difflib.unified_diff(written, happened, "written", "happened", lineterm="", n=12)
    assert written == happened, "\n" + "\n".join(difference)


spreads = st.lists(st.integers(0, 100), min_size=1, max_size=5).map(
    lambda each: Spread(tuple(Share(ClusterId(f"c{number}"), weight) for number, weight in enumerate(each)))
)
standings = st.dictionaries(
    st.sampled_from([ClusterId(f"c{each}") for each in range(5)]), st.sampled_from([0, 50, 100])
)


@given(spreads, standings, st.integers(0, 10**9))
def test_each_cluster_gets_exactly_its_share(spread: Spread, parts: dict[ClusterId, int], first: int) -> None:
    standing = {cluster: Standing(part) for cluster, part in parts.items()}
    now = weights(spread, standing)
    total = sum(weight for _, weight in now)
    if total > 20_000:
        return
    went = Counter(pick(spread, standing, number) for number in range(first, first + total))
    assert went == Counter(dict(now)) - Counter()


def test_equal_clusters_take_turns() -> None:
    spread = Spread((Share(ClusterId("east")), Share(ClusterId("west"))))
    went = [pick(spread, {}, number) for number in range(20)]
    assert Counter(went) == {"east": 10, "west": 10}
    assert max(len(run) for run in "".join(each[0] for each in went).replace("w", " ").split()) <= 2


def test_an_answer_that_was_overtaken_changes_nothing_and_an_unknown_one_is_looked_up() -> None:
    machine = Federation("m1", 0)
    machine.step(Loaded(Snapshot((), 1)), 0)
    asked = machine.step(Leased(LeaseId(1)), 2_000_000)
    token = asked.transacts[0].token
    looked_up = machine.step(Settled(token, Outcome.UNKNOWN), 2_000_001)
    assert [each.key for each in looked_up.fetches] == [OFFICE]
    newer = Record(OFFICE, b"m2", 7, 7)
    machine.step(Watched(Event(7, OFFICE, newer)), 2_000_002)
    machine.step(Fetched(looked_up.fetches[0].token, Record(OFFICE, b"m1", 5, 5), 6), 2_000_003)
    machine.step(Tick(), machine.deadline())
    assert not machine.is_manager


def test_the_file_is_written_as_it_was_read() -> None:
    assert text_of(CASES.values()) == STORIES.read_text(encoding="utf-8")


if __name__ == "__main__":  # python -m tests.federation.test_federation: writes the stories anew
    for case in CASES.values():
        for block, output in zip(case.blocks, outputs_of(case), strict=True):
            block.expected = output
    sys.exit(not STORIES.write_text(text_of(CASES.values()), encoding="utf-8"))
