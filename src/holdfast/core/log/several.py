"""A batch some of whose commands wait for headers, so that their outcomes come one by one and leave together."""

from typing import Any

from holdfast.core.queue.command import Outcome
from holdfast.core.values import Fact


class Several:
    __slots__ = ("left", "outcomes", "token")

    def __init__(self, token: Any, outcomes: list[Outcome]) -> None:
        self.token = token
        self.outcomes = outcomes
        self.left = 0


class Place(Fact, frozen=True):
    """The token of such a command: where its outcome belongs."""

    several: Several
    index: int
