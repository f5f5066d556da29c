"""How much is measured."""

import sys
from dataclasses import dataclass, replace

from bench.dialects.dialect import MODES
from bench.rounds import FIFO


@dataclass(frozen=True)
class Scope:
    rounds: int
    seconds: float  # of one run
    backlog: int  # before a drain
    depth: int  # the deepest backlog of the sweep
    flat: int  # the most of what should cost nothing: in flight, delayed, groups, connections
    queues: int  # idle ones
    polls: int  # waiting ones
    latency_s: float
    warm: float = 1.0  # the part that a contender gets of the warm-up it asks for
    modes: tuple[str, ...] = (*MODES, "send" + FIFO, "cycle" + FIFO)
    has_experiments: bool = True
    fills_memory: bool = True  # first: a minute where memory comes slowly

    def changed(self, *, only: str | None = None, **values: float) -> "Scope":
        scope = replace(self, **values)  # type: ignore[arg-type]
        if only is None:
            return scope
        known = (*MODES, *(mode + FIFO for mode in MODES))
        modes = tuple(only.split(","))
        if unknown := set(modes) - set(known):
            sys.exit(f"unknown modes: {', '.join(sorted(unknown))}. Known are: {', '.join(known)}.")
        return replace(scope, modes=modes, has_experiments=False)


STANDARD = Scope(9, 1.0, 50_000, 1_000_000, 100_000, 100_000, 10_000, latency_s=20.0)
QUICK = Scope(1, 0.5, 10_000, 100_000, 1_000, 1_000, 1_000, latency_s=2.0, warm=0.2, modes=MODES, fills_memory=False)
