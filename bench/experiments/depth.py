"""P10, P11, P12 and P16: what a deep backlog costs in time, memory and disk, and how soon it is back after a crash."""

import time
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from bench.contender import Place, Running
from bench.dialects.dialect import BODY_BYTES, connect
from bench.dialects.sqs import Sqs, receipts_of
from bench.experiments.finding import Finding, Host, host
from bench.experiments.latency import created
from bench.processes import folder_bytes
from bench.throughput import Sample, run, send_until

MODE = "cycle ×10"
DEPTH_MIN = 1000
FILL_S_MAX = 1800.0
SEGMENT_BYTES = 64 << 20  # an index is written for a whole one: over few of them the figure says nothing
SEGMENTS_MIN = 3
PAIRS = 3  # runs on both queues in each round: to fill one takes much longer
SETTLE_S = 1.5  # the last frame is written, and what the system keeps of it


def backlog_sweep(place: Place, seconds: float, *, depth_max: int, rounds: int = 1) -> Finding:
    """Cycles at growing depths, each beside cycles on an empty queue of the same server."""
    finding = Finding()
    with host(place, "depth") as server:
        deep, empty = created(server.sqs), created(server.sqs)
        steps = [_step(server, deep, empty, depth=depth, seconds=seconds, rounds=rounds) for depth in depths(depth_max)]
        last, before = steps[-1], steps[-2]
        finding.curves["depth_ratio"] = [(float(step.depth), step.ratio) for step in steps]
        finding.curves["depth_cpu_us"] = [(float(step.depth), step.cpu_us) for step in steps]
        finding.figures["backlog"] = last.depth
        finding.figures["deep_ratio"] = last.ratio
        added = last.depth - before.depth
        finding.figures["bytes_per_waiting"] = max(0.0, (last.resident - before.resident) / added)
        finding.figures["space_amplification"] = folder_bytes(server.data) / (last.depth * BODY_BYTES)
        if is_enough(added):
            finding.figures["write_amplification_batched"] = last.written / (added * BODY_BYTES)
        finding.figures["first_delivery_s"] = _crash(server, deep)
    return finding


@dataclass(frozen=True)
class Step:
    depth: int
    ratio: float  # throughput at this depth ÷ that of an empty queue
    cpu_us: float
    resident: int
    written: int  # by the messages that were added


def _step(server: Host, deep: str, empty: str, *, depth: int, seconds: float, rounds: int) -> Step:
    """Cycles leave the depth as it is, so what is missing is what the step before did not have."""
    running = Running(server.served, server.sqs, "")
    missing = depth - (depth // 10 if depth > DEPTH_MIN else 0)
    _, written = _send(server, deep, missing, mode="send ×10", seconds_max=FILL_S_MAX)
    at_depth: list[Sample] = []
    at_rest: list[Sample] = []
    for turn in range(rounds * PAIRS):
        queues = [(deep, at_depth), (empty, at_rest)]
        for queue, samples in queues if turn % 2 == 0 else reversed(queues):
            server.place.top_up()
            samples.append(run(running, MODE, queue, seconds=seconds))
    return Step(
        depth,
        ratio=median(full.rate / bare.rate for full, bare in zip(at_depth, at_rest, strict=True)),
        cpu_us=median(sample.cpu_us for sample in at_depth),
        resident=server.served.resident(),
        written=written,
    )


def depths(depth_max: int) -> list[int]:
    found = [DEPTH_MIN]
    while found[-1] * 10 <= depth_max:
        found.append(found[-1] * 10)
    return found


def is_enough(sent: int) -> bool:
    return sent * BODY_BYTES >= SEGMENTS_MIN * SEGMENT_BYTES


def _crash(server: Host, queue: str) -> float:
    """Seconds from the kill to a delivery, the start of the process included."""
    url = server.sqs.urls[queue]
    start = time.monotonic()
    server.served.kill()
    server.restart()
    _rename(server.sqs, queue, url)
    connection = connect(server.sqs)
    try:
        while not receipts_of(connection.ask(server.sqs.receive(queue, 1))):
            pass
    finally:
        connection.close()
    return time.monotonic() - start


def _rename(sqs: Sqs, queue: str, url: str) -> None:
    """The port has changed, the path has not."""
    sqs.urls[queue] = f"http://{sqs.authority}/{url.split('/', 3)[3]}"


def write_amplification(place: Place, *, seconds_max: float) -> Finding:
    """Of unbatched sends, until some segments are full or the time is over."""
    with host(place, "writes") as server:
        wanted = SEGMENTS_MIN * SEGMENT_BYTES // BODY_BYTES
        sent, written = _send(server, created(server.sqs), wanted, mode="send", seconds_max=seconds_max)
    return Finding({"write_amplification": written / (sent * BODY_BYTES)} if is_enough(sent) else {})


def _send(server: Host, queue: str, count: int, *, mode: str, seconds_max: float) -> tuple[int, int]:
    """How many were sent, and how many bytes that wrote to files: all that was written, less what we were answered, and
    less the zeros that stand ready for messages to come."""
    before, ready = server.served.written(), _ready_bytes(server.data)
    sent, received = send_until(server.sqs, queue, count, mode=mode, seconds_max=seconds_max)
    time.sleep(SETTLE_S)
    return sent, server.served.written() - before - received - (_ready_bytes(server.data) - ready)


def _ready_bytes(data: Path) -> int:
    """Of spare segments, and behind the end of those that grow."""
    found = 0
    for folder in data.glob("shards/*/segments"):
        logs = sorted(folder.glob("*.log"))
        found += sum(log.stat().st_size for log in logs if log.name.startswith("spare-"))
        for log in [log for log in logs if not log.name.startswith("spare-")][-1:]:
            content = log.read_bytes()
            found += len(content) - len(content.rstrip(b"\0"))
    return found
