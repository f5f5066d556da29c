"""The demo's day as real segments: an hour each, in a chain, with heartbeats where nothing happened.

The second node is restarted after its outage, so that it has two epochs.
"""

import datetime
from collections import defaultdict
from pathlib import Path

from holdfast.pipeline.demo import scenario, traffic
from holdfast.usage import schema, segment
from holdfast.usage.places import Place, Stream

HOURS = 24
RESTART_HOUR = 10  # of the second node: the first whole hour of its second epoch
HOUR_US = 3_600_000_000


def write(root: Path, day: datetime.date, *, seed: int = 1, hours: range = range(HOURS)) -> int:
    """Answers how many rows were written. Hours that are left out are heartbeats."""
    counted: dict[tuple[str, str, int], list[traffic.Row]] = defaultdict(list)
    for each in traffic.day(day, seed=seed, hours=hours):
        counted[each.kind, each.node, each.minute // 60].append(each.row)
    midnight = datetime.datetime(day.year, day.month, day.day, tzinfo=datetime.UTC)
    zero = int(midnight.timestamp()) * 1_000_000
    count = 0
    for kind in schema.KINDS:
        for node in scenario.NODES:
            rows = [sorted(counted[kind, node, hour]) for hour in range(HOURS)]
            _write_node(root, kind, node, rows=rows, zero=zero)
            count += sum(map(len, rows))
    return count


def _write_node(root: Path, kind: str, node: str, *, rows: list[list[traffic.Row]], zero: int) -> None:
    previous, lifetime = segment.NO_DIGEST, dict.fromkeys(segment.totals(kind, []), 0)
    has_restart = node == scenario.NODES[1]
    for hour, own in enumerate(rows):
        is_second = has_restart and hour >= RESTART_HOUR
        seq = hour - RESTART_HOUR if is_second else hour
        is_final = hour == HOURS - 1 or (has_restart and hour == RESTART_HOUR - 1)
        lifetime = {name: lifetime[name] + more for name, more in segment.totals(kind, own).items()}
        previous = segment.write(
            root,
            Place(Stream(kind, node, 2 if is_second else 1), seq),
            own,
            previous=previous,
            until=zero + (hour + 1) * HOUR_US,
            lifetime=lifetime,
            is_final=is_final,
        )
