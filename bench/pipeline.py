"""What the ledger costs on one machine: rows per second and core, freshness, memory. Prints a table; asserts nothing.

    .venv-spark/bin/python -m bench.pipeline [--rows 2000000] [--rounds 20] [--write]

A month of usage of 10 accounts with 100 queues each is made, taken over, rolled up and computed anew. Rates are rows
per second of CPU time of all processes together, so that a neighbour on the machine disturbs them little; seconds are
seconds, and a busy machine shows in them. `--write` puts the result into bench/results/pipeline.json and pipeline.md.
"""

import argparse
import json
import os
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from bench import machine
from bench.pipeline_month import DAYS, HOUR_US, START_US, Node, make_month
from holdfast.ledger import tables
from holdfast.pipeline import checks, ingest, rollup, upkeep
from holdfast.pipeline.publish import billing
from holdfast.pipeline.run import Ledger, Outcome
from holdfast.spark.session import session

RESULTS = Path(__file__).parent / "results"
NODES = 3
ROLLUPS = (tables.USAGE_MINUTE, tables.USAGE_HOURLY, tables.USAGE_DAILY)
INTRODUCTION = """# What the ledger costs

Measured by `make bench-pipeline` on one machine, with Spark embedded (`local[*]`): {days} days of 10 accounts with 100
queues each, {rows:,} rows with a latency histogram of 32 buckets. Rates are per second of CPU time of all processes
together: what one core does. Seconds are wall time on a machine whose other users kept {busy:.0%} of it busy.

"""


class Spent(NamedTuple):
    wall_s: float
    cpu_s: float


class Figure(NamedTuple):
    what: str
    found: str
    asked: str


def processes() -> list[tuple[int, list[str]]]:
    """All of this program: what it started is in its session (see main). With the fields of /proc/PID/stat."""
    found = []
    for each in Path("/proc").iterdir():
        try:
            fields = (each / "stat").read_text().rpartition(")")[2].split() if each.name.isdigit() else []
        except OSError:
            continue
        if fields and int(fields[3]) == os.getsid(0):
            found.append((int(each.name), fields))
    return found


def cpu_s() -> float:
    """With children that have ended."""
    return sum(sum(map(int, fields[11:15])) for _, fields in processes()) / os.sysconf("SC_CLK_TCK")


def peak_mib() -> float:
    """The most that each process ever held, summed up: no less than what all held at one time."""
    total = 0
    for pid, _ in processes():
        try:
            lines = Path(f"/proc/{pid}/status").read_text().splitlines()
        except OSError:
            continue
        total += sum(int(line.split()[1]) for line in lines if line.startswith("VmHWM"))
    return total / 1024


def spend(work: Callable[[], Any]) -> Spent:
    wall, cpu = time.perf_counter(), cpu_s()
    work()
    return Spent(time.perf_counter() - wall, cpu_s() - cpu)


def rate(rows: int, spent: Spent) -> str:
    return f"{rows / spent.cpu_s:,.0f} ({spent.wall_s:.1f} s, {spent.cpu_s:.1f} s CPU)"


class Bench:
    def __init__(self, folder: Path, *, rows: int, rounds: int) -> None:
        self.folder = folder
        self.rows = rows
        self.rounds = rounds
        self.nodes = [Node(folder / "usage", f"node-{number}") for number in range(NODES)]
        self.now_us = START_US + DAYS * 24 * HOUR_US
        self.figures: list[Figure] = []

    def ledger(self) -> Ledger:
        return Ledger(
            self.folder / "ledger",
            self.folder / "usage",
            session=session,
            records=billing.records,
            now_us=lambda: self.now_us,
        )

    def note(self, what: str, found: str, asked: str) -> None:
        self.figures.append(Figure(what, found, asked))
        print(f"{what:52} {found:44} {asked}", flush=True)

    def run(self) -> None:
        self.rows = make_month(self.nodes, rows=self.rows)
        self.small_run()
        self.bulk()
        self.nothing_new()
        self.freshness()
        self.note("memory of all processes, peak, MiB", f"{peak_mib():,.0f}", "≤ 1,500 for 10 M rows")

    def small_run(self) -> None:
        """In a ledger of its own; starts the session, and warms it up for what follows."""
        spool, other = self.folder / "small", self.folder / "small-ledger"
        Node(spool, "node").emit_window(START_US, rows=100)
        made = Ledger(other, spool, session=session, records=billing.records, now_us=lambda: self.now_us)
        spent = spend(made.once)
        self.note("once with one small segment, s", f"{spent.wall_s:.1f} ({spent.cpu_s:.1f} s CPU)", "≤ 40, goal 20")

    def bulk(self) -> None:
        job = self.ledger().job()
        self.note("ingest, rows/s and core", rate(self.rows, spend(lambda: ingest.ingest(job))), "≥ 100,000")
        self.note("rollup, rows/s and core", rate(self.rows, spend(lambda: rollup.rollup(job))), "≥ 150,000 (75,000)")
        spent = spend(lambda: self.ledger().once())
        self.note("checks and closing of the month, s", f"{spent.wall_s:.1f} ({spent.cpu_s:.1f} s CPU)", "")
        before = [upkeep.digest(self.ledger().store, each) for each in ROLLUPS]
        span = {"begin_us": START_US, "end_us": self.now_us}
        spent = spend(lambda: upkeep.backfill(self.ledger(), **span))
        after = [upkeep.digest(self.ledger().store, each) for each in ROLLUPS]
        self.note(f"backfill of {DAYS} days: same hashes", f"{before == after} ({spent.wall_s:.1f} s)", "the same")
        wrong = [each for each in checks.all_checks(self.ledger().store, []) if not each.is_good]
        self.note("checks that fail", str(len(wrong)), "0")

    def nothing_new(self) -> None:
        spent = spend(lambda: self.ledger().once())
        self.note("once with nothing new, s (no JVM needed)", f"{spent.wall_s:.2f}", "≤ 2")

    def freshness(self) -> None:
        """From the moment that a segment is in the spool until its minute is rolled up, in watch mode."""
        handed: list[float] = []
        took: list[float] = []

        def stop(pause_s: float) -> bool:
            time.sleep(pause_s)
            if len(handed) == len(took):
                self.now_us += 10_000_000
                self.nodes[len(handed) % NODES].emit_window(self.now_us - 10_000_000, rows=100)
                handed.append(time.perf_counter())
            return len(handed) > self.rounds

        def on_run(found: Outcome | Exception) -> None:
            assert isinstance(found, Outcome), found
            took.append(time.perf_counter() - handed[-1])

        self.ledger().watch(stop=stop, on_run=on_run)
        took.sort()
        text = f"{statistics.median(took):.1f} / {took[-1]:.1f}"
        self.note(f"freshness, median / worst of {len(took)}, s", text, "p99 ≤ 3")


def write(figures: list[Figure], *, rows: int, about: dict[str, str], busy: float) -> None:
    RESULTS.joinpath("pipeline.json").write_text(
        json.dumps({"machine": about, "busy": busy, "figures": [each._asdict() for each in figures]}, indent=1) + "\n"
    )
    lines = ["| | found | asked for |", "|---|---|---|"]
    lines += [f"| {each.what} | {each.found} | {each.asked} |" for each in figures]
    tail = "\n".join(f"- {name}: {value}" for name, value in about.items())
    text = INTRODUCTION.format(days=DAYS, rows=rows, busy=busy) + "\n".join(lines) + "\n\n" + tail + "\n"
    RESULTS.joinpath("pipeline.md").write_text(text, encoding="utf-8")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=2_000_000)
    parser.add_argument("--rounds", type=int, default=20, help="segments for freshness")
    parser.add_argument("--write", action="store_true")
    parser.add_argument("--folder", type=Path, default=None, help="where data is made; default: a temporary folder")
    chosen = parser.parse_args()
    if os.getsid(0) != os.getpid():
        os.execvp("setsid", ["setsid", "--wait", sys.executable, "-m", "bench.pipeline", *sys.argv[1:]])
    busy = machine.busy_share()
    folder = Path(tempfile.mkdtemp(prefix="holdfast-pipeline-", dir=chosen.folder))
    about = machine.describe(folder)
    try:
        bench = Bench(folder, rows=chosen.rows, rounds=chosen.rounds)
        bench.run()
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    if chosen.write:
        write(bench.figures, rows=bench.rows, about=about, busy=busy)


if __name__ == "__main__":
    main()
