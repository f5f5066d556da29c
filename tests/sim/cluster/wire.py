"""The network between hosts, front-ends and the store: it delays, reorders, repeats, loses, and is cut, per direction.

A message that was sent arrives at most `twice` times, in any order, unless the plan of this run keeps order. A stream
(front-end to host) neither repeats nor reorders: what is lost there is lost with its connection.
"""

from collections.abc import Callable
from typing import Any, Final

from tests.sim.cluster.plan import Weather
from tests.sim.world import MS, SECOND, World

Link = tuple[str, str]  # one direction: from whom, to whom
NEAR: Final = (60, 400)  # microseconds on a good day
NEAR_SPAN: Final = NEAR[1] - NEAR[0] + 1
LATE: Final = 400 * MS


class Wire:
    def __init__(self, world: World, weather: Weather) -> None:
        self._world = world
        self._weather = weather
        self._cuts: dict[Link, int] = {}  # direction -> how many cuts hold it
        self._last: dict[Link, int] = {}  # when what was sent last arrives, where order is kept
        self.is_healed = False
        self.sent = 0

    def send(self, source: str, target: str, deliver: Callable[..., None], *args: Any) -> None:
        """A message between machines. Whether it arrives is open."""
        world, weather, link = self._world, self._weather, (source, target)
        self.sent += 1
        is_foul = (weather.drop or weather.twice or weather.late) and not self.is_healed
        if is_foul and self._befall(link, deliver, args):
            return
        at = world.now + NEAR[0] + int(world.random() * NEAR_SPAN)
        if weather.is_ordered:
            at = max(at, self._last.get(link, 0) + 1)
            self._last[link] = at
        if link not in self._cuts:
            world.at(at, self._arrive, link, deliver, args)

    def _befall(self, link: Link, deliver: Callable[..., None], args: tuple[Any, ...]) -> bool:
        """What the weather does to a message. True: nothing is left to be sent."""
        world, weather = self._world, self._weather
        if world.chance(weather.drop):
            world.fault("message lost")
            return True
        if world.chance(weather.twice):
            world.fault("message twice")
            self._carry_late(link, deliver, args)
        if world.chance(weather.late):
            world.fault("message late")
            self._carry_late(link, deliver, args)
            return True
        return False

    def _carry_late(self, link: Link, deliver: Callable[..., None], args: tuple[Any, ...]) -> None:
        world = self._world
        delay = world.between(*NEAR) + world.between(0, LATE)
        if link not in self._cuts:
            world.after(delay, self._arrive, link, deliver, args)

    def stream(self, source: str, target: str, deliver: Callable[..., None], *args: Any) -> None:
        """In order and once, if at all."""
        world, link = self._world, (source, target)
        at = max(world.now + NEAR[0] + int(world.random() * NEAR_SPAN), self._last.get(link, 0) + 1)
        self._last[link] = at
        if link not in self._cuts:
            world.at(at, self._arrive, link, deliver, args)

    def _arrive(self, link: Link, deliver: Callable[..., None], args: tuple[Any, ...]) -> None:
        if link not in self._cuts:
            deliver(*args)

    # Cuts

    def is_cut(self, source: str, target: str) -> bool:
        return (source, target) in self._cuts

    def cut(self, source: str, target: str) -> None:
        """One direction. Cuts add up: each is mended on its own."""
        self._cuts[source, target] = self._cuts.get((source, target), 0) + 1

    def mend(self, source: str, target: str) -> None:
        left = self._cuts.get((source, target), 0) - 1
        if left > 0:
            self._cuts[source, target] = left
        else:
            self._cuts.pop((source, target), None)

    def cut_for(self, links: list[tuple[str, str]], length: int) -> None:
        for source, target in links:
            self.cut(source, target)
        self._world.after(length, self._mend_all, links)

    def _mend_all(self, links: list[tuple[str, str]]) -> None:
        for source, target in links:
            self.mend(source, target)

    def heal(self) -> None:
        self.is_healed = True
        self._cuts.clear()

    def expose(self, weather: Weather) -> None:
        """Faults may befall it again."""
        self.is_healed = False
        self._weather = weather


def around(name: str, others: list[str], *, is_out: bool = True, is_in: bool = True) -> list[tuple[str, str]]:
    """The links between one and all others, in one direction or both."""
    links = [(name, other) for other in others if other != name] if is_out else []
    return links + ([(other, name) for other in others if other != name] if is_in else [])


def between(one: list[str], two: list[str]) -> list[tuple[str, str]]:
    """Both directions between two parts of a network."""
    return [link for a in one for b in two for link in ((a, b), (b, a))]


SHORT: Final = (50 * MS, 700 * MS)
LONG: Final = (2 * SECOND, 12 * SECOND)
