"""What is said of a batch. Some of its commands may wait for headers, so that their outcomes come one by one and leave
together."""

from collections.abc import Sequence
from typing import Any

from holdfast.core.errors import OutcomeUnknown
from holdfast.core.queue.columns import AcceptedAll, DeletedAll
from holdfast.core.queue.command import DONE, EMPTY_DELIVERY, Need, Outcome
from holdfast.core.values import Fact

Said = Outcome | list[Outcome] | AcceptedAll | DeletedAll  # a list: of a batch, in its order


class Several:
    __slots__ = ("left", "outcomes", "token")

    def __init__(self, token: Any, outcomes: list[Outcome], *, left: int) -> None:
        self.token = token
        self.outcomes = outcomes
        self.left = left  # so many are not known yet


class Place(Fact, frozen=True):
    """The token of such a command: where its outcome belongs."""

    several: Several
    index: int


def split(executed: Sequence[Outcome | Need]) -> tuple[list[Outcome], list[tuple[int, Need]]]:
    """Outcomes, EMPTY_DELIVERY in the place of those that are not known, and what these need, with their places."""
    if executed and executed[0] is DONE and executed.count(DONE) == len(executed):
        return [*executed], []  # type: ignore[list-item]  # no Need is among them
    outcomes: list[Outcome] = []
    waiting: list[tuple[int, Need]] = []
    for outcome in executed:
        if type(outcome) is Need:
            waiting.append((len(outcomes), outcome))
            outcomes.append(EMPTY_DELIVERY)
        else:
            outcomes.append(outcome)
    return outcomes, waiting


def unknown(said: Said) -> Outcome | list[Outcome]:
    """What is said instead when nobody knows whether it will be true."""
    if isinstance(said, list):
        return [OutcomeUnknown() for _ in said]
    if isinstance(said, AcceptedAll | DeletedAll):
        return [OutcomeUnknown() for _ in range(said.count)]
    return OutcomeUnknown()
