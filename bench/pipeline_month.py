"""A month of usage in segments, made of Arrow columns: as nodes write them, and fast enough for millions of rows."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from holdfast.usage import schema, segment
from holdfast.usage.places import Place, Stream
from holdfast.usage.schema import Type

DAYS = 30
ACCOUNTS, QUEUES = 10, 100
ACTIONS = ("SendMessage", "ReceiveMessage", "DeleteMessage")
HOUR_US = 3_600_000_000
START_US = 1_793_491_200_000_000  # 2026-11-01 00:00 UTC
BUCKETS = 32


class Node:
    """Writes the meter segments of one node."""

    def __init__(self, root: Path, name: str, *, queues: int = ACCOUNTS * QUEUES) -> None:
        self.queues = queues
        self.stream = Stream(schema.METER, name, 1)
        self.root = root
        self.seq = 0
        self.previous = segment.NO_DIGEST
        self.lifetime = segment.totals(schema.METER, [])
        self.chance = np.random.default_rng(sum(name.encode()))

    def emit_window(self, time_us: int, *, rows: int, span_us: int = 10_000_000) -> None:
        """One segment, with rows of windows of ten seconds from `time_us` on."""
        table = self._rows(time_us, rows=rows, span_us=span_us)
        for name in self.lifetime:
            self.lifetime[name] += rows if name == "rows" else int(np.sum(table.column(name).to_numpy()))
        times = table.column("time").cast(pa.int64()).to_numpy()
        footer = segment.Footer(
            schema.VERSION,
            *self.stream,
            self.seq,
            rows,
            int(times.min()),
            int(times.max()),
            time_us + span_us,
            self.previous,
            False,
            dict(self.lifetime),
        )
        path = self.stream.path(self.root, self.seq)
        path.parent.mkdir(parents=True, exist_ok=True)
        described = table.schema.with_metadata({segment.KEY: msgspec.json.encode(footer)})
        pq.write_table(table.cast(described), path, compression="zstd", write_page_checksum=True)
        self.previous = segment.digest(path)
        self.seq += 1

    def _rows(self, time_us: int, *, rows: int, span_us: int) -> Any:
        chance = self.chance
        queue = chance.integers(0, self.queues, rows)
        action = chance.integers(0, len(ACTIONS), rows)
        requests = chance.integers(1, 1000, rows)
        windows = max(1, span_us // 10_000_000)
        times = time_us + 10_000_000 * np.sort(chance.integers(0, windows, rows))
        histogram = np.zeros((rows, BUCKETS), np.int64)
        bucket = chance.integers(6, 13, rows)
        histogram[np.arange(rows), bucket] = requests // 2
        histogram[np.arange(rows), bucket + 1] = requests - requests // 2
        accounts = pa.array([f"{number:012d}" for number in range(ACCOUNTS)])
        names = pa.array([f"queue-{number:03d}" for number in range(ACCOUNTS * QUEUES)])
        nothing = np.zeros(rows, np.int64)
        columns: dict[str, Any] = {
            "time": pa.array(times).cast(pa.timestamp("us", "UTC")),
            "window_ms": np.full(rows, 10_000),
            "account": accounts.take(pa.array(queue // QUEUES)),
            "principal": pa.repeat("arn:aws:iam::000000000000:user/worker", rows),
            "queue": names.take(pa.array(queue)),
            "queue_type": pa.repeat("standard", rows),
            "action": pa.array(ACTIONS).take(pa.array(action)),
            "outcome": pa.repeat("success", rows),
            "error_code": pa.repeat("", rows),
            "requests": requests,
            "units": requests,
            "messages": requests,
            "empty_receives": nothing,
            "bytes_in": requests * 1024,
            "bytes_out": nothing,
            "latency_us": requests * 700,
            "latency": pa.ListArray.from_arrays(np.arange(rows + 1) * BUCKETS, histogram.ravel()),
        }
        return pa.table(columns).cast(segment.arrow_schema(schema.METER))


def make_month(nodes: Sequence[Node], *, rows: int, hours: int = DAYS * 24) -> int:
    """A segment per node and hour. Answers how many rows there are."""
    each = max(1, rows // (hours * len(nodes)))
    for hour in range(hours):
        for node in nodes:
            node.emit_window(START_US + hour * HOUR_US, rows=each, span_us=HOUR_US)
    return each * hours * len(nodes)


def emit_one_of_each_kind(root: Path, *, time_us: int) -> None:
    """A row of each kind in a segment of its own, from a node that then ended in order."""
    plain: dict[Type, Any] = {Type.TIME: time_us, Type.TEXT: "one", Type.NUMBER: 1, Type.NUMBERS: [1] + [0] * 31}
    for kind in schema.KINDS:
        row = tuple(plain[column.type] for column in schema.columns(kind))
        place, lifetime = Place(Stream(kind, "node", 1), 0), segment.totals(kind, [row])
        until = time_us + 10_000_000
        segment.write(root, place, [row], previous=segment.NO_DIGEST, until=until, lifetime=lifetime, is_final=True)
