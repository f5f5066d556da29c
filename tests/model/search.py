"""Breadth-first through all states, or at random; either way what is found comes with its steps.

A state that was seen is remembered by its 64-bit hash alone (all values are small non-negative integers, so the
hash is the same in every run). Two states with one hash would hide each other: with a million states the chance
of one such pair is about 1 in 40 million.
"""

import random
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from tests.model import changing, faults, writing
from tests.model.invariants import violation
from tests.model.state import Bounds, Rules, State, first_state
from tests.model.writing import Label

Judge = Callable[[State, State], str]


@dataclass
class Found:
    """What a search did, and the first violation it met."""

    states: int = 0
    steps: int = 0
    depth: int = 0
    is_complete: bool = False  # every state within the bounds was visited
    seconds: float = 0.0  # of CPU
    said: str = ""
    trace: list[tuple[Label, State]] = field(default_factory=list)
    kinds: Counter[str] = field(default_factory=Counter)


def successors(state: State, bounds: Bounds, rules: Rules) -> Iterator[tuple[Label, State]]:
    """What can happen next. Where a client can be answered it is: that changes nothing but what must not be lost,
    so whatever goes wrong with a later answer, or none, goes wrong with this one.
    """
    answered = next(writing.answers(state, bounds, rules), None)
    if answered:
        yield answered
        return
    yield from writing.steps(state, bounds, rules)
    yield from changing.steps(state, bounds, rules)
    yield from faults.steps(state, bounds, rules)


def exhaust(bounds: Bounds, rules: Rules, *, states_max: int = 10**9, judge: Judge = violation) -> Found:
    """All states, nearest first, so that the first violation has the fewest steps."""
    began = time.process_time()
    first = first_state(bounds)
    parents = {hash(first): 0}
    level, found = [first], Found()
    while level:
        deeper: list[State] = []
        for state in level:
            parent = hash(state)
            for label, after in successors(state, bounds, rules):
                found.steps += 1
                key = hash(after)
                if key in parents:
                    continue
                parents[key] = parent
                found.kinds[label[0]] += 1  # type: ignore[index]
                found.said = judge(state, after)
                if found.said:
                    found.trace = retrace(first, key, parents, bounds=bounds, rules=rules)
                    break
                deeper.append(after)
            if found.said or len(parents) >= states_max:
                break
        else:
            found.depth += bool(deeper)
            level = deeper
            continue
        break
    found.is_complete = not level
    found.states, found.seconds = len(parents), time.process_time() - began
    return found


def retrace(
    first: State, key: int, parents: dict[int, int], *, bounds: Bounds, rules: Rules
) -> list[tuple[Label, State]]:
    """Steps are not kept while searching: they are found again on the one way that matters."""
    way = [key]
    while parents[way[-1]]:
        way.append(parents[way[-1]])
    state, trace = first, []
    for wanted in reversed(way[:-1]):
        label, state = next(pair for pair in successors(state, bounds, rules) if hash(pair[1]) == wanted)
        trace.append((label, state))
    return trace


def wander(
    bounds: Bounds, rules: Rules, *, seed: int, steps: int, length: int = 200, judge: Judge = violation
) -> Found:
    """Histories drawn at random, each from the beginning. The kind of step is drawn first: some have many choices."""
    began = time.process_time()
    chance, found = random.Random(seed), Found()
    seen: set[int] = set()
    while found.steps < steps and not found.said:
        state, trace = first_state(bounds), []
        for _ in range(length):
            choices: dict[object, list[tuple[Label, State]]] = {}
            for label, after in successors(state, bounds, rules):
                choices.setdefault(label[0], []).append((label, after))
            if not choices:
                break
            label, after = chance.choice(choices[chance.choice(sorted(choices, key=str))])
            found.steps += 1
            found.kinds[str(label[0])] += 1
            seen.add(hash(after))
            trace.append((label, after))
            found.said = judge(state, after)
            if found.said:
                found.trace = trace
                break
            state = after
        found.depth = max(found.depth, len(trace))
    found.states, found.seconds = len(seen), time.process_time() - began
    return found
