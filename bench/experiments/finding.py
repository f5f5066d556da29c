"""What an experiment returns, and a server for it."""

import contextlib
import shutil
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from bench import holdfast_server
from bench.contender import Place
from bench.dialects.sqs import Sqs
from bench.processes import Served


@dataclass
class Finding:
    figures: dict[str, float] = field(default_factory=dict)
    curves: dict[str, list[tuple[float, float]]] = field(default_factory=dict)


@dataclass
class Host:
    """A Holdfast that can be killed and started again on the same data."""

    place: Place
    data: Path
    served: Served
    sqs: Sqs

    def restart(self) -> None:
        self.served, self.sqs = _start(self.place, self.data)


@contextlib.contextmanager
def host(place: Place, name: str, *, data: Path | None = None) -> Iterator[Host]:
    """`data` on another file system; else beside the server's log. Both are removed at the end."""
    inside = place.inside(name)
    data = data or inside.folder / "data"
    served, sqs = _start(inside, data)
    made = Host(inside, data, served, sqs)
    try:
        yield made
    finally:
        made.served.stop()
        shutil.rmtree(data, ignore_errors=True)
        shutil.rmtree(inside.folder, ignore_errors=True)


def _start(place: Place, data: Path) -> tuple[Served, Sqs]:
    running = holdfast_server.start(place, data=data)
    assert isinstance(running.dialect, Sqs)
    return running.served, running.dialect
