"""Power cuts of a real server under load: `python -m tests.process.cuts --cuts 100 --seed 1`.

Each round starts the server on what the last cut left, lets clients work for a moment, kills every process of it, and
makes the folder what a disk would have: a random subset of what was not synced (platter.py). Some cuts come while it is
still recovering from the one before. At the end everything is drained, and the clients' history is judged.
"""

import argparse
import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from random import Random
from typing import Any

from tests.process.history import History
from tests.process.load import Load, drain, set_up
from tests.process.platter import Platter
from tests.process.server import command, environment
from tests.process.wire import Gone

LAYER = Path(__file__).with_name("layer")
START_S = 30.0
SLOW_S = 0.01
PATIENCE_S = 20.0  # until a failpoint is reached
SMALL: dict[str, Any] = {
    "limits": {
        "SEGMENT_BYTES": 131_072,
        "RESERVE_BYTES": 32_768,
        "FRAME_BYTES_MAX": 16_384,
        "STRETCH_BITS": 6,
        "WINDOW_MAX": 64,
        "LOAD_MAX": 32,
    },
    "upkeep": {"LOOK_EVERY_S": 0.1, "COMPACT_AGAIN_S": 0.1, "SNAPSHOT_SEGMENTS": 2},
}
SHORT = {"HOLDFAST__USAGE__WINDOW_S": "2"}  # so that windows end within a test


class Ended(Exception):
    """The server ended before it was ready."""


class Watched:
    """A server, started on `data` with the layer below it. It may be killed before it is ready."""

    def __init__(
        self,
        data: Path,
        *options: str,
        beside: Path | None = None,  # where its log and what is noted go
        variables: dict[str, str] | None = None,
        **setting: Any,
    ) -> None:
        self.data = data
        beside = beside or data.parent
        self.journal = beside / f"{data.name}.journal"
        self.journal.unlink(missing_ok=True)
        self._log = beside / f"{data.name}.log"
        self._ready = beside / f"{data.name}.ready"
        self._ready.unlink(missing_ok=True)
        setting = {"root": str(data), "journal": str(self.journal), **SMALL, **setting}
        own = environment()
        own["PYTHONPATH"] = f"{LAYER}{os.pathsep}{own['PYTHONPATH']}"
        arguments = ("--data", str(data), "--listen", "127.0.0.1:0", "--no-auth", "--ready-file", str(self._ready))
        with self._log.open("ab") as log:
            self.process = subprocess.Popen(
                command("serve", "--relaxed", "--shards", "2", *arguments, *options),
                stdout=log,
                stderr=log,
                env={**own, **(variables or {}), "HOLDFAST_TEST_DISK": json.dumps(setting)},
                start_new_session=True,
            )

    def wait_ready(self) -> str:
        """The endpoint."""
        deadline = time.monotonic() + START_S
        while not self._ready.exists():
            if self.process.poll() is not None:
                raise Ended(self.output())
            assert time.monotonic() < deadline, self.output()
            time.sleep(0.01)
        return self._ready.read_text(encoding="utf-8").split()[0]

    def output(self) -> str:
        return self._log.read_text(encoding="utf-8")

    def kill(self) -> None:
        """With its helpers, all at once. May be called again."""
        try:
            os.killpg(self.process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        self.process.wait()
        while _is_there(self.process.pid):
            time.sleep(0.001)


def _is_there(group: int) -> bool:
    """Whether a process of it may still write. Those that only wait to be reaped, which may take a second, do not."""
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return False
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            state, _, member = stat.read_text(encoding="ascii", errors="replace").rpartition(")")[2].split()[:3]
        except OSError:
            continue  # it ended meanwhile
        if int(member) == group and state not in "ZX":
            return True
    return not Path("/proc/self/stat").exists()


class Cuts:
    """One data folder through many cuts."""

    def __init__(self, data: Path, seed: int) -> None:
        self.data = data
        self.history = History()
        self.lost = self.early = 0  # sectors and names that cuts took; cuts before the server was ready
        self._rng = Random(seed)
        self._lives = 0

    def cut(self, *, may_be_early: bool = True, **setting: Any) -> None:
        """One life and its end."""
        rng, platter = self._rng, Platter(self.data)
        self._lives += 1
        server = Watched(self.data, slow_s=SLOW_S, **setting)
        try:
            if self._lives > 1 and may_be_early and rng.random() < 0.25:
                self.early += 1
                time.sleep(rng.uniform(0.2, 0.8))
            else:
                self._work(server, rng.uniform(0.1, 1.2))
        finally:
            server.kill()
        self._take_away(server, platter)

    def crash_at(
        self, failpoint: str, *, is_power_cut: bool, patience_s: float = PATIENCE_S, **setting: Any
    ) -> int | None:
        """One life that ends at a failpoint by itself, there also with a power cut. Answers how it ended."""
        platter = Platter(self.data)
        self._lives += 1
        server = Watched(self.data, variables={"HOLDFAST_FAILPOINT": failpoint, **SHORT}, **setting)
        try:
            status = self._work(server, patience_s)
        finally:
            server.kill()
        if is_power_cut:
            self._take_away(server, platter)
        return status

    def _take_away(self, server: "Watched", platter: Platter) -> None:
        """What was not synced."""
        if server.journal.exists():  # else it was killed before it touched anything
            platter.replay(server.journal)
        self.lost += platter.cut(self._rng)

    def _work(self, server: Watched, seconds: float) -> int | None:
        """For so long, or until it ends by itself; answers how."""
        try:
            endpoint = server.wait_ready()
            set_up(endpoint)
        except (Gone, Ended):
            return server.process.wait(seconds)
        load = Load(endpoint, self.history, life=str(self._lives), seed=self._rng.randrange(10**9))
        with contextlib.suppress(subprocess.TimeoutExpired):
            server.process.wait(seconds)
        status = server.process.returncode
        server.kill()
        load.join()
        for refusal in load.refusals:  # small segments may fill faster than the next ones are made
            assert refusal.code == "ServiceUnavailable", refusal
        return status

    def judge(self) -> list[str]:
        """Starts it once more and drains it."""
        server = Watched(self.data)
        try:
            endpoint = server.wait_ready()
            set_up(endpoint)  # no life may have come so far
            queues = drain(endpoint, self.history)
        finally:
            server.kill()
        return self.history.problems(queues=queues)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.process.cuts", description=__doc__)
    parser.add_argument("--cuts", type=int, default=100)
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="holdfast-cuts-", dir="/var/tmp"))
    cuts = Cuts(folder / "data", arguments.seed)
    for number in range(arguments.cuts):
        cuts.cut()
        print(f"\rcut {number + 1} of {arguments.cuts}", end="", flush=True)
    problems = cuts.judge()
    history = cuts.history
    print(f"\ncuts          {arguments.cuts}, {cuts.early} of them while it was still starting")
    print(f"taken away    {cuts.lost} sectors and names that were not synced")
    print(f"acknowledged  {len(history.sent)} sends, {len(history.deleted)} deletes, of {len(history.tried)} tried")
    print(f"received      {len(history.deliveries)}")
    print(f"problems      {len(problems)}")
    for problem in problems[:20]:
        print(f"  {problem}")
    if not problems:
        shutil.rmtree(folder)
    else:
        print(f"the folder is kept: {folder}")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
