"""What one seed will do: which faults it has and how often, how small the limits are, which queues there are.

Drawn first, from the seed alone. Limits are made small so that segments roll, windows are reloaded and outboxes fill
up within seconds; the code under test is the same.
"""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from random import Random
from typing import Any, Final

import msgspec

from tests.sim.world import SECOND


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    seconds: int = 15  # of load
    quiet_s: tuple[int, ...] = ()  # pauses of all clients: windows and retention pass
    rate: int = 200  # commands per second, roughly
    sync_us: int = 800
    segment_bytes: int = 32_768
    reserve_bytes: int = 16_384
    limits: dict[str, int] = {}
    snapshot_every: int = 3  # sealed segments
    spare_ms: int = 0  # how much longer the next segment may take
    # mean time between faults in seconds; 0: never
    power_s: float = 0
    kill_s: float = 0
    pause_s: float = 0
    jump_s: float = 0
    flip_s: float = 0
    full_s: float = 0
    vanish_s: float = 0
    # probabilities
    failpoint: float = 0  # of a crash at an operation of a rare kind
    power_share: float = 0.5  # of crashes that are power cuts
    relapse: float = 0  # that a crash is followed by another one soon
    write_error: float = 0
    sync_error: float = 0
    read_error: float = 0
    slow_sync: float = 0
    hand_over_loss: float = 0
    hand_over_twice: float = 0
    reply_loss: float = 0
    # the queues
    has: tuple[str, ...] = ()
    lives: tuple[int, ...] = (0, 3)  # seconds, of the queue whose messages have a time to live
    retentions: tuple[int, ...] = (5, 12)  # seconds, of the same queue


QUIET: Final = Plan()  # no faults: for directed tests


def draw(seed: int) -> Plan:
    rng = Random(f"plan {seed}")
    return Plan(
        seconds=rng.choice((6, 10, 15, 25)),
        quiet_s=tuple(rng.choice((40, 100, 310)) for _ in range(rng.choice((0, 0, 1, 2)))),
        sync_us=rng.choice((200, 800, 800, 4000)),
        segment_bytes=rng.choice((32_768, 49_152, 65_536)),
        limits=_limits(rng) | {"DRAFT_WEIGHT": Random(f"drafts {seed}").choice((0, 8_192))},
        snapshot_every=rng.choice((1, 2, 4)),
        spare_ms=Random(f"spares {seed}").choice((0, 0, 500, 3000)),
        has=tuple(name for name in OPTIONAL if rng.random() < 0.6),
        **_faults(rng),
    )


def _faults(rng: Random) -> dict[str, Any]:
    def maybe(share: float, *values: float) -> float:
        value = rng.choice(values)
        return value if rng.random() < share else 0

    return {
        "power_s": maybe(0.6, 1.5, 4, 10),
        "kill_s": maybe(0.6, 1.5, 4, 10),
        "pause_s": maybe(0.3, 4, 10),
        "jump_s": maybe(0.3, 2, 10),
        "flip_s": maybe(0.25, 1, 4),
        "full_s": maybe(0.25, 4, 10),
        "vanish_s": maybe(0.5, 0.3, 2),
        "failpoint": maybe(0.6, 0.003, 0.01, 0.04),
        "power_share": rng.choice((0.2, 0.5, 0.8)),
        "relapse": maybe(0.5, 0.1, 0.5),
        "write_error": maybe(0.2, 0.0003, 0.001),
        "sync_error": maybe(0.25, 0.0003, 0.001),
        "read_error": maybe(0.2, 0.0003, 0.001),
        "slow_sync": maybe(0.3, 0.002, 0.02),
        "hand_over_loss": maybe(0.4, 0.1, 0.4),
        "hand_over_twice": maybe(0.4, 0.1, 0.4),
        "reply_loss": maybe(0.4, 0.01, 0.1),
    }


def _limits(rng: Random) -> dict[str, int]:
    load = rng.choice((4, 16, 64))
    in_flight, windows = rng.choice(((30, 30 + 3 * load), (120_000, 3_000), (120_000, 262_144)))
    return {
        "STRETCH_BITS": rng.choice((4, 5, 6)),
        "WINDOW_MAX": load * rng.choice((1, 2)),
        "WINDOW_TOTAL": windows,
        "LOAD_MAX": load,
        "FRAME_BYTES_MAX": rng.choice((2_048, 8_192)),
        "READ_BYTES": rng.choice((4_096, 16_384, 1_048_576)),
        "TICK_WORK": 8,
        "OUTBOX_IN_FLIGHT": rng.choice((2, 8, 64)),
        "OUTBOX_MAX": rng.choice((8, 20_000)),
        "IN_FLIGHT_MAX": in_flight,
        "DEDUP_WINDOW": rng.choice((4, 20, 300)) * SECOND,
        "STEP_ENTRIES": 16,
        "STEP_BYTES": 1024,
        "LIVING_SHARE": rng.choice((4, 10, 20)),
    }


@contextmanager
def shrunk(limits: dict[str, int]) -> Iterator[None]:
    """The core with these limits. Every module of it has the names it imported."""
    changed: list[tuple[Any, str, int]] = []
    for path in sorted(name for name in sys.modules if name.startswith("holdfast.core.")):
        module = sys.modules[path]
        for name, value in limits.items():
            if name in vars(module):
                changed.append((module, name, getattr(module, name)))
                setattr(module, name, value)
    try:
        yield
    finally:
        for module, name, value in changed:
            setattr(module, name, value)


OPTIONAL: Final = (
    "fair",
    "delayed",
    "mortal",
    "fifo-dead",
    "fifo-content",
    "once",
    "request-dedup",
    "bounded",
    "grave",
)
