"""What the ledger costs on one machine: rows per second and core, freshness, memory. Prints a table; asserts nothing.

    .venv-spark/bin/python -m bench.pipeline [--rows 10000000] [--rounds 100] [--write]

A month of usage of 10 accounts with 100 queues each is made, taken over, rolled up, closed, reported and computed
anew. Rates are rows per second of CPU time of all processes together, so that a neighbour on the machine disturbs them
less; seconds are seconds, and a busy machine shows in them. `--write` puts the result into bench/results/pipeline.json
and pipeline.md.
"""

import argparse
import json
import math
import os
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from bench import machine
from bench import usage as counting
from bench.pipeline_month import DAYS, HOUR_US, START_US, Node, emit_one_of_each_kind, make_month
from holdfast.ledger import tables
from holdfast.pipeline import checks, ingest, rates, reports, rollup, upkeep
from holdfast.pipeline.publish import billing
from holdfast.pipeline.run import Ledger, Outcome
from holdfast.pipeline.watch import watch
from holdfast.spark.session import session

RESULTS = Path(__file__).parent / "results"
NODES = 3
DENSE_ROWS, DENSE_HOURS, DENSE_QUEUES = 1_000_000, 2, 100  # 28 rows for each key and minute
SAMPLE_S = 1.0  # a look at a large process takes milliseconds
ROLLUPS = (tables.USAGE_MINUTE, tables.USAGE_HOURLY, tables.USAGE_DAILY)
INTRODUCTION = """# What the ledger costs

Measured by `make bench-pipeline` on one machine, with Spark embedded (`local[*]`): {days} days of 10 accounts with 100
queues each, {rows:,} rows with a latency histogram of 32 buckets, in which hardly two rows have the same minute and
keys: the worst case. *Dense* is {dense:,} rows with 28 of them for each minute and key. Rates are per second of CPU
time of all processes together: what one core does. Seconds are wall time on a machine whose other users kept {busy:.0%}
of it busy when it began.

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


def held_mib() -> float:
    """What all processes hold now; what they share is counted once."""
    total = 0
    for pid, _ in processes():
        try:
            lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
        except OSError:
            continue
        total += sum(int(line.split()[1]) for line in lines if line.startswith("Pss:"))
    return total / 1024


class Peak:
    """The most that was held while `with` lasted, by looking often."""

    def __init__(self) -> None:
        self.mib = 0.0
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._look, daemon=True)

    def __enter__(self) -> "Peak":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stopped.set()
        self._thread.join()

    def _look(self) -> None:
        while not self._stopped.wait(SAMPLE_S):
            self.mib = max(self.mib, held_mib())


def spend(work: Callable[[], Any]) -> Spent:
    wall, cpu = time.perf_counter(), cpu_s()
    work()
    return Spent(time.perf_counter() - wall, cpu_s() - cpu)


def rate(rows: int, spent: Spent) -> str:
    return f"{rows / spent.cpu_s:,.0f} ({spent.wall_s:.1f} s, {spent.cpu_s:.1f} s CPU)"


def command(*words: str) -> Spent:
    """A command as a person types it, from start to end."""
    program = [sys.executable, "-m", "holdfast", "pipeline", *words]
    return spend(lambda: subprocess.run(program, check=True, capture_output=True))


class Bench:
    def __init__(self, folder: Path, *, rows: int, rounds: int) -> None:
        self.folder = folder
        self.rows = rows
        self.rounds = rounds
        self.nodes = [Node(folder / "usage", f"node-{number}") for number in range(NODES)]
        self.now_us = START_US + DAYS * 24 * HOUR_US
        self.figures: list[Figure] = []

    def ledger(self, name: str = "ledger", spool: str = "usage") -> Ledger:
        return Ledger(
            self.folder / name,
            self.folder / spool,
            session=session,
            records=billing.records,
            now_us=lambda: self.now_us,
        )

    def note(self, what: str, found: str, asked: str) -> None:
        self.figures.append(Figure(what, found, asked))
        print(f"{what:52} {found:44} {asked}", flush=True)

    def run(self) -> None:
        self.note("counting a call in the server, µs", f"{counting.per_reply(100):.2f}", "≤ 1")
        self.small_runs()
        spent = spend(self.make)
        print(f"({self.rows:,} rows made in {spent.wall_s:.0f} s)", flush=True)
        with Peak() as peak:
            self.bulk()
        self.note(f"memory of all processes, {self.rows / 1e6:.0f} M rows, MiB", f"{peak.mib:,.0f}", "≤ 1,500")
        self.reports()
        self.dense()
        self.backfill()
        self.freshness()

    def make(self) -> None:
        self.rows = make_month(self.nodes, rows=self.rows)

    def small_runs(self) -> None:
        """With all reports, in a ledger of its own."""
        emit_one_of_each_kind(self.folder / "small", time_us=time.time_ns() // 1000)
        places = ("--ledger", str(self.folder / "small-ledger"), "--usage", str(self.folder / "small"))
        spent = command("once", *places)
        self.note("once with one small segment per kind, s", f"{spent.wall_s:.1f}", "≤ 40, goal 20")
        self.note("once with nothing new, s (no JVM)", f"{command('once', *places).wall_s:.2f}", "≤ 2")

    def bulk(self) -> None:
        job = self.ledger().job()
        spent = spend(lambda: job.spark.range(1).collect())
        self.note("starting a session, s", f"{spent.wall_s:.1f} ({spent.cpu_s:.1f} s CPU)", "")
        self.note("ingest, rows/s and core", rate(self.rows, spend(lambda: ingest.ingest(job))), "≥ 100,000")
        self.note("rollup, worst case, rows/s and core", rate(self.rows, spend(lambda: rollup.rollup(job))), "≥ 75,000")
        spent = spend(lambda: self.ledger().once())
        # Workers that have nothing to do end meanwhile, and take what they spent with them: no CPU time is told.
        self.note("checks and closing of the month, s", f"{spent.wall_s:.1f}", "")

    def reports(self) -> None:
        """Service levels, flow, costs, hot queues and alerts of the month."""
        terms = reports.Terms(rates=rates.load(), region="local", version="bench")
        with Peak() as peak:
            spent = spend(lambda: reports.publish(self.ledger().job(), terms))
        self.note("reports of the month for 1,000 queues, s", f"{spent.wall_s:.1f} ({peak.mib:,.0f} MiB)", "")

    def dense(self) -> None:
        """Usual keys: a queue that is used is used in every window, on every node."""
        nodes = [Node(self.folder / "dense", f"node-{number}", queues=DENSE_QUEUES) for number in range(NODES)]
        rows = make_month(nodes, rows=DENSE_ROWS, hours=DENSE_HOURS)
        job = self.ledger("dense-ledger", "dense").job()
        self.note("ingest, dense, rows/s and core", rate(rows, spend(lambda: ingest.ingest(job))), "≥ 100,000")
        self.note("rollup, dense, rows/s and core", rate(rows, spend(lambda: rollup.rollup(job))), "≥ 150,000")

    def backfill(self) -> None:
        before = [upkeep.digest(self.ledger().store, each) for each in ROLLUPS]
        span = {"begin_us": START_US, "end_us": self.now_us}
        spent = spend(lambda: upkeep.backfill(self.ledger(), **span))
        after = [upkeep.digest(self.ledger().store, each) for each in ROLLUPS]
        self.note(f"backfill of {DAYS} days: same hashes", f"{before == after} ({spent.wall_s:.1f} s)", "the same")
        wrong = [each for each in checks.all_checks(self.ledger().store, []) if not each.is_good]
        self.note("checks that fail", str(len(wrong)), "0")

    def freshness(self) -> None:
        """From the moment that a segment is in the spool until its minute is rolled up, in watch mode. The look at the
        spool that finds it comes half a second after it. Some of them come while an hour closes."""
        handed: list[float] = []
        took: list[float] = []
        closed: list[int] = []

        def stop(pause_s: float) -> bool:
            if len(handed) == len(took):
                self.now_us += 10_000_000
                self.nodes[len(handed) % NODES].emit_window(self.now_us - 10_000_000, rows=100)
                handed.append(time.perf_counter())
            time.sleep(pause_s)
            return len(handed) > self.rounds

        def on_run(found: Outcome | Exception) -> None:
            assert isinstance(found, Outcome), found
            if found.segments:
                took.append(time.perf_counter() - handed[-1])
            closed.append(found.hours_closed)

        watch(self.ledger(), stop=stop, on_run=on_run)
        took.sort()
        p99 = took[math.ceil(len(took) * 0.99) - 1]
        text = f"{took[len(took) // 2]:.2f} / {p99:.2f} / {took[-1]:.2f}"
        self.note(f"freshness, median / p99 / worst of {len(took)}, s", text, "p99 ≤ 3")
        self.note("hours that closed meanwhile", str(sum(closed)), "")


def write(figures: list[Figure], *, rows: int, about: dict[str, str], busy: float) -> None:
    RESULTS.joinpath("pipeline.json").write_text(
        json.dumps({"machine": about, "busy": busy, "figures": [each._asdict() for each in figures]}, indent=1) + "\n"
    )
    lines = ["| | found | asked for |", "|---|---|---|"]
    lines += [f"| {each.what} | {each.found} | {each.asked} |" for each in figures]
    tail = "\n".join(f"- {name}: {value}" for name, value in about.items())
    text = (
        INTRODUCTION.format(days=DAYS, rows=rows, dense=DENSE_ROWS, busy=busy) + "\n".join(lines) + "\n\n" + tail + "\n"
    )
    RESULTS.joinpath("pipeline.md").write_text(text, encoding="utf-8")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=10_000_000)
    parser.add_argument("--rounds", type=int, default=100, help="segments for freshness")
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
