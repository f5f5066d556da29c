"""Can it always go on? From a state, without another fault, the shard is brought to acknowledge one more record.

Rules that only ever refuse would keep everything safe. So each state is asked whether some member of the last
configuration can still be named, make sure of the log, and serve: by steps of the protocol, taken in the obvious order.
Not asked for where nobody is left who could: all disks of the configuration are gone, or the only one left has a
damaged tail.
"""

import random
import time

from tests.model.search import Found, successors
from tests.model.state import CANDIDATE, PRIMARY, Bounds, Rules, State, first_state
from tests.model.writing import Label

STEPS_MAX = 60  # a fail-over with three others and one record takes about 20
HISTORY_MAX = 60


def heal_all(bounds: Bounds, *, seed: int, histories: int) -> Found:
    """Histories drawn at random, and cut off anywhere: can each of them go on?"""
    began = time.process_time()
    chance, found = random.Random(seed), Found()
    while found.states < histories and not found.said:
        state, found.trace = first_state(bounds), []
        for _ in range(chance.randint(1, HISTORY_MAX)):
            steps = list(successors(state, bounds, Rules()))
            if not steps:  # everything that the bounds allow has happened
                break
            found.trace.append(chance.choice(steps))
            state = found.trace[-1][1]
        found.states += 1
        found.steps += len(found.trace)
        found.depth = max(found.depth, len(found.trace))
        if not can_heal(state, bounds):
            found.said = "I15 the shard cannot be brought to serve again"
    found.seconds = time.process_time() - began
    return found


def can_heal(state: State, bounds: Bounds) -> bool:
    wide = bounds._replace(
        epochs=state.record.epoch + 1,
        lsns=max(len(host.log) for host in state.hosts) + 1,
        requests=len(state.requests) + 1,
        crashes=0,
        wipes=0,
        rots=0,
    )
    return any(_leads(state, candidate, wide) for candidate in able(state)) or not able(state)


def able(state: State) -> list[int]:
    """Members of the last configuration that have their disks; one with a damaged tail needs another to ask."""
    living = [index for index, life in state.record.members if state.hosts[index].life == life]
    return [index for index in living if not state.hosts[index].damaged or len(living) > 1]


def _leads(state: State, candidate: int, bounds: Bounds) -> bool:
    """Takes the most useful step that there is until the candidate has answered a client in its epoch."""
    epoch, told = state.record.epoch + 1, len(state.acknowledged)
    for _ in range(STEPS_MAX):
        ranked = [
            (rank, number, after)
            for number, (label, after) in enumerate(successors(state, bounds, Rules()))
            if (rank := _rank(label, state, candidate, epoch))
        ]
        if not ranked:
            return False
        state = min(ranked)[2]
        is_leading = state.hosts[candidate].role == PRIMARY and state.hosts[candidate].epoch == epoch
        if is_leading and len(state.acknowledged) > told and state.acknowledged[-1] == epoch:
            return True
    return False


def _rank(label: Label, state: State, candidate: int, epoch: int) -> int:
    """How useful a step is; 1 is best, 0 is none. Whatever was asked of the store before is left alone."""
    host = state.hosts[candidate]
    is_candidate = (host.role, host.epoch) == (CANDIDATE, epoch)
    match label:
        case ("commit", _, _, _):
            return 1
        case ("told", index, number) if is_candidate and (index, number) == (candidate, epoch):
            return 2
        case ("apply", index, number, members) if (index, number) == (candidate, epoch):
            return 3 if is_candidate or not members else 0
        case ("candidate", index, number, _) if (index, number) == (candidate, epoch):
            return 4
        case ("answer", index, _, _) if is_candidate and index == candidate:
            return 5
        case ("fsync", _, _):
            return 6
        case ("freeze", index, number, _) if (index, number) == (candidate, epoch):
            return 7
        case ("deliver", _, number, _) if number == epoch:
            return 8
        case ("append", index, number, _) if (index, number) == (candidate, epoch):
            return 9
        case ("request", index, _, tuple(members)) if is_candidate and index == candidate:
            return 20 - len(members)
        case ("suspect", index, number) if (index, number) == (candidate, epoch):
            return 30
    return 0
