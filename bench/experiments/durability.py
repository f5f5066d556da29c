"""P5: what durability costs. The same server, its data once on the disk and once on tmpfs, where a sync is nothing.

There is no mode without syncs, and none is made for the sake of a figure.
"""

import shutil
import tempfile
from pathlib import Path
from statistics import median

from bench.contender import Place, Running
from bench.experiments.finding import Finding, host
from bench.throughput import measure

TMPFS = Path("/dev/shm")


def durable_share(place: Place, seconds: float, *, rounds: int) -> Finding:
    if not TMPFS.is_dir():
        return Finding()
    memory = Path(tempfile.mkdtemp(prefix="holdfast-bench.", dir=TMPFS))
    ratios = []
    try:
        with host(place, "on-disk") as disk, host(place, "in-memory", data=memory / "data") as ram:
            for _ in range(rounds):
                place.top_up()
                durable = measure(Running(disk.served, disk.sqs, ""), "send", seconds)
                place.top_up()
                volatile = measure(Running(ram.served, ram.sqs, ""), "send", seconds)
                ratios.append(durable.rate / volatile.rate)
    finally:
        shutil.rmtree(memory, ignore_errors=True)
    return Finding({"durable_ratio": median(ratios)})
