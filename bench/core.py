"""What the core costs: time per command, memory per message, recovery. Prints a table; asserts nothing.

    python -m bench.core [--backlog 10000000] [--write]

CPU time (user + system) of this process, so that a neighbour on the machine disturbs little. Each figure is the median
of several rounds. `--write` puts the result into bench/results/core.json and core.md.
"""

import argparse
import gc
import json
import os
import platform
import resource
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path

from bench import replication
from holdfast.core.log.index import SegmentIndex
from holdfast.core.queue import command as c
from holdfast.core.queue.record import NO_DIGEST, Sent
from holdfast.core.queue.shard import Shard
from holdfast.core.types import Epoch, Group, Header, Instant, LaneConfig, LaneId, Lsn, Receipt, Seq, ShardId, WallMs

BODY = b"x" * 1024
LANE = LaneId(1)
BATCH = 1000
RESULTS = Path(__file__).parent / "results"
INTRODUCTION = """# What the core costs

Measured by `python -m bench.core --write`: CPU time of one process on one core, 1 KB bodies, medians. Commands are
decided and applied; the headers of a deep lane come from a segment's index, 512 at a time, which is a row of its
own. A replicated send is one of a turn of 32, from command to reply, with two members that answer at once, without
encryption, disks and wire.

"""


class Log:
    """Just enough of a log to serve headers from: the index of what was sent, as a segment has it."""

    def __init__(self) -> None:
        self.index = SegmentIndex()
        self.loading_s = 0.0  # CPU time of all that was found in it

    def note(self, record: Sent, *, lsn: Lsn, now: Instant) -> None:
        self.index.add_sent(record, (Epoch(1), lsn, now), 0, 0)

    def answer(self, shard: Shard, need: c.Need) -> None:
        start = time.process_time()
        headers: list[Header] = []
        self.index.collect(need, headers)
        upto = headers[-1].seq if len(headers) >= need.count_max else need.last
        shard.load(need, headers, upto)
        self.loading_s += time.process_time() - start


def ask(shard: Shard, log: Log, command: c.Command) -> c.Answer:
    decided = shard.decide(command, shard.lsn)
    while isinstance(decided, c.Need):
        log.answer(shard, decided)
        decided = shard.decide(command, shard.lsn)
    for record in decided[0]:
        shard.apply(record)
    return decided[1]


def new_shard(lanes: int = 1) -> Shard:
    shard = Shard(ShardId(0))
    shard.begin(Epoch(1), Instant(0), WallMs(0))
    for lane in range(1, lanes + 1):
        ask(shard, Log(), c.Configure(LaneId(lane), LaneConfig()))
    return shard


def fill(shard: Shard, log: Log, count: int, *, indexed: int) -> None:
    """Sends `count` messages; the first `indexed` of them are kept findable, as a real log keeps all of them."""
    send = c.Send(LANE, BODY, BODY, len(BODY))
    for number in range(count):
        if number % 100 == 0:
            shard.begin(Epoch(1), Instant(shard.now + 1000), WallMs(0))
        decided = shard.decide(send, shard.lsn)
        assert not isinstance(decided, c.Need)
        record = decided[0][0]
        shard.apply(record)
        if number < indexed and isinstance(record, Sent):
            log.note(record, lsn=shard.lsn, now=shard.now)


def cpu(work: Callable[[], object]) -> float:
    start = time.process_time()
    work()
    return time.process_time() - start


def measure_round(shard: Shard, log: Log) -> dict[str, float]:
    """Seconds of CPU for a thousand sends, receives and deletes at the shard's present depth."""
    send = c.Send(LANE, BODY, BODY, len(BODY))
    receive = c.Receive(LANE, 1)
    shard.begin(Epoch(1), Instant(shard.now + 100_000), WallMs(0))
    start = time.process_time()
    for _ in range(BATCH):
        ask(shard, log, send)
    sent = time.process_time()
    log.loading_s = 0.0
    deliveries = [ask(shard, log, receive) for _ in range(BATCH)]
    received = time.process_time()
    deletes = [c.Delete(LANE, receipt_of(delivery)) for delivery in deliveries]
    begin = time.process_time()
    for delete in deletes:
        ask(shard, log, delete)
    deleted = time.process_time()
    receiving = received - sent - log.loading_s
    return {"send": sent - start, "receive": receiving, "loading": log.loading_s, "delete": deleted - begin}


def commands(shards: dict[str, tuple[Shard, Log]], rounds: int = 30) -> dict[str, dict[str, float]]:
    """Median microseconds per command, the shards taking turns so that all meet the same weather."""
    took: dict[str, list[dict[str, float]]] = {name: [] for name in shards}
    for _ in range(rounds):
        for name, (shard, log) in shards.items():
            took[name].append(measure_round(shard, log))
    return {
        name: {kind: statistics.median(each[kind] for each in rows) / BATCH * 1e6 for kind in rows[0]}
        for name, rows in took.items()
    }


def receipt_of(delivery: c.Answer) -> Receipt:
    assert isinstance(delivery, c.Delivery)
    (delivered,) = delivery.messages  # every receive has found one
    header = delivered.header
    return Receipt(LANE, header.seq, header.epoch, header.lsn, delivered.number)


def resident() -> int:
    gc.collect()
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * resource.getpagesize()


def in_flight_bytes(count: int = 100_000) -> float:
    shard, log = new_shard(), Log()
    fill(shard, log, count, indexed=count)
    shard.lanes[LANE].backlog.window = None
    before = resident()
    for _ in range(count // 10):
        ask(shard, log, c.Receive(LANE, 10, visibility_timeout_s=43_200))
        shard.begin(Epoch(1), Instant(shard.now + 500), WallMs(0))
    assert shard.lanes[LANE].in_flight == count
    return (resident() - before) / count


def idle_lane_bytes(count: int = 100_000) -> float:
    before = resident()
    shard = new_shard(lanes=count)
    used = resident() - before
    assert len(shard.lanes) == count
    return used / count


def recovery_cpu(shard: Shard, tail: int = 60_000) -> dict[str, float]:
    """A snapshot of the shard as it is, and the way back: restore it and apply a segment's worth of records."""
    dumped: list[bytes] = []
    snapshot = cpu(lambda: dumped.append(shard.dump()))
    restored: list[Shard] = []
    restore = cpu(lambda: restored.append(Shard.restore(dumped[0])))

    def replay() -> None:
        back = restored[0]
        for number in range(tail):
            if number % 64 == 0:
                back.begin(Epoch(1), Instant(back.now + 1000), WallMs(0))
            seq = Seq(back.lanes[LANE].last_seq + 1)
            back.apply(Sent(LANE, seq, Group(0), 1024, 0, 0, WallMs(0), NO_DIGEST, False, b""))

    return {
        "snapshot_s": snapshot,
        "restore_s": restore,
        "replay_tail_s": cpu(replay),
        "snapshot_bytes": len(dumped[0]),
    }


def measure(backlog: int) -> dict[str, object]:
    per_lease = in_flight_bytes()
    per_lane = idle_lane_bytes()
    log = Log()
    shard = new_shard()
    indexed = 40_000  # what the measurement will receive has to be found
    fill(shard, log, indexed, indexed=indexed)
    before = resident()
    fill(shard, log, backlog - indexed, indexed=0)
    per_ready = max(0.0, (resident() - before) / (backlog - indexed))
    recovery = recovery_cpu(shard)
    took = commands({"empty": (new_shard(), Log()), "deep": (shard, log)})
    return {
        "backlog": backlog,
        "shallow_us": took["empty"],
        "deep_us": took["deep"],
        "bytes_per_ready": per_ready,
        "bytes_per_in_flight": per_lease,
        "bytes_per_idle_lane": per_lane,
        "recovery": recovery,
        "replicated_us": replication.measure(),
        "machine": {
            "python": platform.python_version(),
            "system": platform.system(),
            "machine": platform.machine(),
            "cores": os.cpu_count(),
        },
    }


def table(result: dict[str, object]) -> str:
    shallow, deep, recovery = result["shallow_us"], result["deep_us"], result["recovery"]
    replicated = result["replicated_us"]
    assert isinstance(replicated, dict)
    assert isinstance(shallow, dict)
    assert isinstance(deep, dict)
    assert isinstance(recovery, dict)
    total = recovery["snapshot_s"] + recovery["restore_s"] + recovery["replay_tail_s"]
    backlog = f"{result['backlog']:,} waiting"
    rows = [("", "empty lane", backlog, "asked for")]
    bounds = {"send": "≤ 4", "receive": "≤ 6", "loading": "", "delete": "≤ 4"}
    for name, bound in bounds.items():
        shown = "loading what is received" if name == "loading" else name
        rows.append((f"{shown}, µs CPU", f"{shallow[name]:.2f}", f"{deep[name]:.2f}", bound))
    both = [sum(values.values()) for values in (shallow, deep)]
    rows += [
        ("all of it", f"{both[0]:.2f}", f"{both[1]:.2f}", "within 10 %"),
        ("memory per ready message, bytes", "", f"{result['bytes_per_ready']:.2f}", "≤ 24, goal 2"),
        ("memory per in-flight message, bytes", "", f"{result['bytes_per_in_flight']:.0f}", "≤ 300"),
        ("memory per idle lane, bytes", "", f"{result['bytes_per_idle_lane']:.0f}", "≤ 1024"),
        ("snapshot + recovery, s CPU", "", f"{total:.2f}", "≤ 2"),
        ("replicated send on the primary, µs CPU", f"{replicated['primary']:.2f}", "", "≤ 10"),
        ("the same on a member, µs CPU", f"{replicated['member']:.2f}", "", "≤ 6"),
    ]
    lines = ["| " + " | ".join(row) + " |" for row in rows]
    return "\n".join([lines[0], "|---|---|---|---|", *lines[1:]])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--backlog", type=int, default=10_000_000, help="messages in the deep lane")
    parser.add_argument("--write", action="store_true", help="write bench/results/core.json and core.md")
    options = parser.parse_args()
    result = measure(options.backlog)
    print(table(result))
    if options.write:
        RESULTS.mkdir(exist_ok=True)
        (RESULTS / "core.json").write_text(json.dumps(result, indent=2) + "\n")
        (RESULTS / "core.md").write_text(f"{INTRODUCTION}{table(result)}\n")
        print(f"written to {RESULTS.name}/core.json and core.md", file=sys.stderr)


if __name__ == "__main__":
    main()
