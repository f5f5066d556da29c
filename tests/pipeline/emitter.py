"""A node that hands over segments, as the server's usage writer does, with rows that a test chooses."""

import random
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from holdfast.usage import schema, segment
from holdfast.usage.places import Place, Stream

SECOND = 1_000_000
MINUTE = 60 * SECOND
HOUR = 60 * MINUTE
DAY = 24 * HOUR
T0 = 1_794_787_200_000_000  # 2026-11-16 00:00 UTC


def meter(
    time: int,
    *,
    account: str = "111111111111",
    queue: str = "orders",
    queue_type: str = "standard",
    action: str = "SendMessage",
    outcome: str = "success",
    requests: int = 1,
    units: int | None = None,
    bucket: int = 9,
    latency: Sequence[int] | None = None,
) -> tuple[Any, ...]:
    histogram = [0] * 32
    histogram[bucket] = requests
    charged = (requests if outcome == "success" else 0) if units is None else units
    names = (account, f"arn:aws:iam::{account}:root", queue, queue_type, action, outcome)
    error = "" if outcome == "success" else "AccessDenied"
    return (
        time,
        10_000,
        *names,
        error,
        requests,
        charged,
        requests,
        0,
        100 * requests,
        0,
        300 * requests,
        list(latency or histogram),
    )


def audit(time: int, *, action: str = "CreateQueue", account: str = "111111111111") -> tuple[Any, ...]:
    who = f"arn:aws:iam::{account}:root"
    return (time, account, who, "management", action, "orders", "success", "", 200, "127.0.0.1", "tests", "r-1")


class Emitter:
    """Writes one kind of one node. `units` and `rows` are what the test knows to have been handed over."""

    def __init__(self, root: Path, node: str = "node-1", *, kind: str = schema.METER) -> None:
        self.root = root
        self.node = node
        self.kind = kind
        self.epoch, self.seq = 1, 0
        self.previous = segment.NO_DIGEST
        self.lifetime = segment.totals(kind, [])

    @property
    def rows(self) -> int:
        return self.lifetime["rows"]

    @property
    def units(self) -> int:
        return self.lifetime["units"]

    def emit(self, rows: Iterable[tuple[Any, ...]], *, until: int, is_final: bool = False) -> Path:
        many = list(rows)
        for name, value in segment.totals(self.kind, many).items():
            self.lifetime[name] += value
        stream = Stream(self.kind, self.node, self.epoch)
        self.previous = segment.write(
            self.root,
            Place(stream, self.seq),
            many,
            previous=self.previous,
            until=until,
            lifetime=self.lifetime,
            is_final=is_final,
        )
        path = stream.path(self.root, self.seq)
        self.epoch, self.seq = (self.epoch + 1, 0) if is_final else (self.epoch, self.seq + 1)
        return path

    def path(self, seq: int, *, epoch: int = 1) -> Path:
        return Stream(self.kind, self.node, epoch).path(self.root, seq)

    def traffic(self, begin: int, end: int, *, step: int = MINUTE, seed: int = 0) -> None:
        """A segment per step, with a few rows of several accounts, queues and actions."""
        chance = random.Random(f"{self.node}/{seed}/{begin}")
        for time in range(begin, end, step):
            self.emit([random_meter(chance, time + 10 * SECOND * each) for each in range(4)], until=time + step)


def random_meter(chance: random.Random, time: int) -> tuple[Any, ...]:
    queue_type = chance.choice(["standard", "fifo"])
    return meter(
        time,
        account=f"{chance.randrange(3):012d}",
        queue=f"q{chance.randrange(4)}" + (".fifo" if queue_type == "fifo" else ""),
        queue_type=queue_type,
        action=chance.choice(["SendMessage", "ReceiveMessage", "DeleteMessage"]),
        outcome=chance.choice(["success", "success", "success", "refused"]),
        requests=chance.randrange(1, 1000),
        bucket=chance.randrange(32),
    )
