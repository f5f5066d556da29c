"""P10, P11, P12 and P16: what a deep backlog costs in time, memory and disk, and how soon it is back after a crash."""

import time

from bench.contender import Place, Running
from bench.dialects.dialect import BODY_BYTES, connect
from bench.dialects.sqs import Sqs, receipts_of
from bench.experiments.finding import Finding, Host, host
from bench.experiments.latency import created
from bench.processes import folder_bytes
from bench.throughput import Sample, fill, run

MODE = "cycle ×10"
FILL_S_MAX = 1800.0
SEGMENT_BYTES = 64 << 20  # a segment is filled ahead as a whole: over few of them the figure says nothing
SEGMENTS_MIN = 2
SETTLE_S = 1.5  # the last frame is written, and what the system keeps of it


def backlog_sweep(place: Place, seconds: float, *, depth_max: int) -> Finding:
    """Cycles at growing depths, each beside cycles on an empty queue of the same server."""
    finding = Finding()
    with host(place, "depth") as server:
        deep, empty = created(server.sqs), created(server.sqs)
        running = Running(server.served, server.sqs, "")
        run(running, MODE, empty, seconds=seconds)
        fill(server.sqs, deep, 1000)
        resident, filled = server.served.resident(), 1000
        rates, costs = [], []
        for depth in depths(depth_max):
            filled += _deepen(server, deep, depth - filled, finding)
            at_depth, at_rest = _cycles(running, deep, seconds), _cycles(running, empty, seconds)
            rates.append((float(filled), at_depth.rate / at_rest.rate))
            costs.append((float(filled), at_depth.cpu_us))
        finding.curves |= {"depth_ratio": rates, "depth_cpu_us": costs}
        finding.figures["backlog"] = filled
        finding.figures["deep_ratio"] = rates[-1][1]
        finding.figures["bytes_per_waiting"] = max(0.0, (server.served.resident() - resident) / filled)
        finding.figures["space_amplification"] = folder_bytes(server.data) / (filled * BODY_BYTES)
        finding.figures["first_delivery_s"] = _crash(server, deep)
    return finding


def depths(depth_max: int) -> list[int]:
    found = [1000]
    while found[-1] * 10 <= depth_max:
        found.append(found[-1] * 10)
    return found


def _deepen(server: Host, queue: str, count: int, finding: Finding) -> int:
    """The last step is the longest: its writes are the ones that count."""
    if count <= 0:
        return 0
    before = server.served.written()
    sent = fill(server.sqs, queue, count, seconds_max=FILL_S_MAX)
    time.sleep(SETTLE_S)
    written = server.served.written() - before
    if is_enough(sent):
        finding.figures["write_amplification_batched"] = written / (sent * BODY_BYTES)
    return sent


def is_enough(sent: int) -> bool:
    return sent * BODY_BYTES >= SEGMENTS_MIN * SEGMENT_BYTES


def _cycles(running: Running, queue: str, seconds: float) -> Sample:
    return run(running, MODE, queue, seconds=seconds)


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
        before = server.served.written()
        wanted = SEGMENTS_MIN * SEGMENT_BYTES // BODY_BYTES
        sent = fill(server.sqs, created(server.sqs), wanted, mode="send", seconds_max=seconds_max)
        time.sleep(SETTLE_S)
        written = server.served.written() - before
    return Finding({"write_amplification": written / (sent * BODY_BYTES)} if is_enough(sent) else {})
