"""The same run, unchanged, where tasks are in other processes than the job: three kinds of clusters on this machine.

Only with `make test-spark-full`: each one starts several JVMs.
"""

import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pyspark
import pytest

from holdfast.pipeline.publish import billing
from holdfast.pipeline.run import Ledger
from tests.pipeline.emitter import HOUR, MINUTE, T0, Emitter
from tests.pipeline.on_spark.conftest import IS_FULL
from tests.pipeline.on_spark.one_run import now_us
from tests.pipeline.on_spark.test_spark_kills import require_exact

pytestmark = pytest.mark.skipif(not IS_FULL, reason="several JVMs each: make test-spark-full")
HOME = Path(pyspark.__file__).parent
START_S = 300  # both are for machines with a lot else to do
RUN_S = 900


@pytest.fixture
def emitters(tmp_path: Path) -> list[Emitter]:
    made = [Emitter(tmp_path / "usage", name) for name in ("a", "b")]
    for each in made:
        each.traffic(T0, T0 + HOUR, step=10 * MINUTE)
        each.emit([], until=T0 + 2 * HOUR, is_final=True)
    return made


def surroundings() -> dict[str, str]:
    return os.environ | {
        "SPARK_HOME": str(HOME),
        "SPARK_LOCAL_IP": "127.0.0.1",
        "PYSPARK_PYTHON": sys.executable,
        "PYTHONPATH": os.getcwd(),
    }


def run(folder: Path, where: str, emitters: list[Emitter]) -> None:
    """As a program of its own: a session of another kind cannot live beside that of the other tests."""
    program = [sys.executable, "-m", "tests.pipeline.on_spark.one_run", str(folder / "usage"), str(folder / "ledger")]
    done = subprocess.run(
        [*program, where], env=surroundings(), capture_output=True, text=True, timeout=RUN_S, check=False
    )
    assert done.returncode == 0, done.stderr[-3000:]
    assert '"hours_closed":1' in done.stdout
    assert "WARN" not in done.stderr  # Java and Spark have much to say that nobody can act on
    ledger = Ledger(folder / "ledger", folder / "usage", session=_none, records=billing.records, now_us=now_us)
    require_exact(ledger, emitters)


def _none() -> pyspark.sql.SparkSession:
    raise AssertionError("checks need no session")


@contextmanager
def started(command: list[str], *, log: Path, until: str) -> Iterator["re.Match[str]"]:
    """A process of a cluster, which is there when its log says so."""
    with log.open("wb") as file:
        process = subprocess.Popen(
            command, env=surroundings(), stdout=file, stderr=subprocess.STDOUT, start_new_session=True
        )
    try:
        yield _wait(log, until, is_alive=lambda: process.poll() is None)
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def _wait(log: Path, pattern: str, *, is_alive: Callable[[], bool]) -> "re.Match[str]":
    deadline = time.monotonic() + START_S
    while time.monotonic() < deadline and is_alive():
        if found := re.search(pattern, log.read_text(errors="replace")):
            return found
        time.sleep(0.2)
    raise AssertionError(f"no {pattern!r} in: {log.read_text(errors='replace')[-2000:]}")


def free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


def test_a_run_on_a_local_cluster(tmp_path: Path, emitters: list[Emitter]) -> None:
    run(tmp_path, "local-cluster[2,1,1024]", emitters)


def test_a_run_on_a_standalone_master_and_worker_from_the_wheel(tmp_path: Path, emitters: list[Emitter]) -> None:
    launch = str(HOME / "bin" / "spark-class")
    port = str(free_port())
    options = ["--host", "127.0.0.1", "--port", port, "--webui-port", "0"]
    master = [launch, "org.apache.spark.deploy.master.Master", *options]
    with started(master, log=tmp_path / "master.log", until=r"spark://127\.0\.0\.1:\d+") as found:
        own = ["--cores", "2", "--memory", "1g", "--webui-port", "0", "--work-dir", str(tmp_path / "work")]
        worker = [launch, "org.apache.spark.deploy.worker.Worker", *own, found[0]]
        with started(worker, log=tmp_path / "worker.log", until="Successfully registered"):
            run(tmp_path, found[0], emitters)


def test_a_run_through_connect(tmp_path: Path, emitters: list[Emitter]) -> None:
    port = str(free_port())
    settings = {"spark.connect.grpc.binding.port": port, "spark.ui.enabled": "false", "spark.log.level": "INFO"}
    flags = [part for name, value in settings.items() for part in ("--conf", f"{name}={value}")]
    service = "org.apache.spark.sql.connect.service.SparkConnectServer"
    server = [str(HOME / "bin" / "spark-submit"), "--master", "local[2]", *flags, "--class", service, "spark-internal"]
    with started(server, log=tmp_path / "connect.log", until="Spark Connect server started"):
        run(tmp_path, f"sc://127.0.0.1:{port}", emitters)
