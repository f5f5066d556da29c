"""Who is measured: a server that runs, how to speak to it, and what its acknowledgement is worth."""

import tempfile
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from bench.dialects.dialect import Dialect
from bench.memory import Filler
from bench.processes import Served


class Absent(Exception):
    """A peer that is not on this machine, and why."""


@dataclass(frozen=True)
class Place:
    """Where a server may put its files, and on which core it runs. `top_up` fills what memory has become free
    (memory.py), and is called before each measurement."""

    folder: Path
    core: int
    top_up: Callable[[], object] = Filler(None).top_up

    def inside(self, name: str) -> "Place":
        folder = Path(tempfile.mkdtemp(prefix=f"{name.replace(' ', '-')}.", dir=self.folder))
        return replace(self, folder=folder)


@dataclass
class Running:
    served: Served
    dialect: Dialect
    version: str


@dataclass(frozen=True)
class Contender:
    """`start` raises Absent when there is nothing to start."""

    name: str
    is_durable: bool  # on disk before it is acknowledged
    setting: str
    start: Callable[[Place], Running]
    rounds_max: int = 100  # the very slow ones are not asked often
    warm_s_max: float = 0.0  # what a just-in-time compiler may need before it is measured
