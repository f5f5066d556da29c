"""Disks that fail, fill up and rot, below a real server: it stops, refuses or goes on, and never guesses."""

import errno
import os
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from tests.process.cuts import SMALL, Ended, Watched
from tests.process.server import Running, running
from tests.process.wire import Gone, Refused, Wire

QUICK = {**SMALL["upkeep"], "RETRY_AFTER_S": 0.1}
FAILING = {
    "a sync of the log": "fdatasync segments/0",
    "a write to the log": "write segments/0",
    "the name of the next segment": "rename segments/0",
    "the folder of the segments": "fsync segments",
    "an index": "write index/",
    "a new file": "create segments/spare",
}


@contextmanager
def serving(data: Path, **setting: Any) -> Iterator[tuple[Watched, Wire]]:
    server = Watched(data, upkeep=QUICK, **setting)
    try:
        with closing(Wire(server.wait_ready(), timeout_s=20)) as wire:
            yield server, wire
    finally:
        server.kill()


def drained(wire: Wire, queue: str) -> list[str]:
    """All bodies, and nothing is left."""
    found: list[str] = []
    while messages := wire.call("ReceiveMessage", queue, MaxNumberOfMessages=10, WaitTimeSeconds=1).get("Messages"):
        found += [each["Body"] for each in messages]
        for each in messages:
            wire.call("DeleteMessage", queue, ReceiptHandle=each["ReceiptHandle"])
    return found


# Errors of the disk


@pytest.mark.parametrize("fault", FAILING.values(), ids=FAILING)
def test_an_error_of_the_disk_stops_the_server_and_takes_nothing_that_was_acknowledged(
    tmp_path: Path, fault: str
) -> None:
    data, faults, sent, tried = tmp_path / "data", tmp_path / "faults", [], []
    with serving(data, faults=str(faults)) as (server, wire):
        wire.call("CreateQueue", QueueName="jobs")
        with suppress(Gone):
            for number in range(2000):
                if number == 20:
                    faults.write_text(f"{fault} {errno.EIO}\n", encoding="ascii")
                tried.append(body := f"{number} " + "x" * 1000)
                wire.call("SendMessage", "jobs", MessageBody=body)
                sent.append(body)
        assert server.process.wait(10) == 74
        last = server.output().splitlines()[-1]
        assert "stopped at once" in last
        assert os.strerror(errno.EIO) in last
    faults.unlink()
    with serving(data) as (_, wire):
        found = drained(wire, "jobs")
    assert set(sent) <= set(found) <= set(tried)
    assert len(found) == len(set(found))


# A full disk


@contextmanager
def small_disk(folder: Path) -> Iterator[Path]:
    """A file system of 4 MiB, and where to put ballast on it."""
    folder.mkdir()
    made = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=4m", "none", folder], capture_output=True, check=False)
    if made.returncode:
        pytest.skip("NOT TESTED: only root can mount a small file system")
    try:
        yield folder
    finally:
        subprocess.run(["umount", "-l", folder], check=True)


def test_a_full_disk_refuses_sends_while_receives_and_deletes_go_on_and_recovers_by_itself(tmp_path: Path) -> None:
    with small_disk(tmp_path / "disk") as disk, serving(disk / "data", beside=tmp_path) as (_, wire):
        ballast, sent = disk / "ballast", []
        wire.call("CreateQueue", QueueName="jobs")
        sent += send_some(wire, 20)
        with suppress(OSError), ballast.open("wb", buffering=0) as file:
            while True:
                file.write(bytes(4096))
        refusal = None
        for _ in range(400):
            try:
                sent += send_some(wire, 1)
            except Refused as problem:
                refusal = problem
                break
        assert refusal is not None
        assert (refusal.status, refusal.code) == (503, "ServiceUnavailable")
        assert "disk is full" in refusal.message
        told = wire.call("ReceiveMessage", "jobs", MaxNumberOfMessages=10)["Messages"]
        for each in told:
            wire.call("DeleteMessage", "jobs", ReceiptHandle=each["ReceiptHandle"])
        ballast.unlink()
        sent += send_when_possible(wire)
        assert sorted([*(each["Body"] for each in told), *drained(wire, "jobs")]) == sorted(sent)


def send_some(wire: Wire, count: int) -> list[str]:
    sent = []
    for _ in range(count):
        body = f"{time.monotonic_ns()} " + "x" * 1000
        wire.call("SendMessage", "jobs", MessageBody=body)
        sent.append(body)
    return sent


def send_when_possible(wire: Wire) -> list[str]:
    deadline = time.monotonic() + 15
    while time.monotonic() < deadline:
        with suppress(Refused):
            return send_some(wire, 1)
        time.sleep(0.05)
    raise AssertionError("it does not recover")


def test_a_disk_that_is_full_at_the_start_still_hands_out_what_is_there(tmp_path: Path) -> None:
    data, faults = tmp_path / "data", tmp_path / "faults"
    with serving(data) as (_, wire):
        wire.call("CreateQueue", QueueName="jobs")
        sent = send_some(wire, 200)
    faults.write_text(f"grow segments/ {errno.ENOSPC}\n", encoding="ascii")
    with serving(data, faults=str(faults)) as (_, wire):
        with pytest.raises(Refused, match="disk is full"):
            send_some(wire, 1)
        faults.unlink()
        sent += send_when_possible(wire)
        assert sorted(drained(wire, "jobs")) == sorted(sent)


# A slow disk


def send_each(endpoint: str, bodies: list[str], sent: list[str]) -> None:
    with closing(Wire(endpoint, timeout_s=20)) as wire:
        for body in bodies:
            wire.call("SendMessage", "jobs", MessageBody=body)
            sent.append(body)


def until_it_rests(sent: list[str]) -> int:
    """How many were sent, once there are some and no more follow."""
    count, deadline = 0, time.monotonic() + 15
    while not count or len(sent) != count:
        assert time.monotonic() < deadline
        count = len(sent)
        time.sleep(0.5)
    return count


def test_sends_wait_while_the_next_segment_is_in_the_making_and_receives_go_on(tmp_path: Path) -> None:
    faults, sent = tmp_path / "faults", list[str]()
    bodies = [[f"{client}.{number} {'x' * 4000}" for number in range(20)] for client in range(8)]  # several segments
    with serving(tmp_path / "data", faults=str(faults)) as (server, wire), ThreadPoolExecutor(8) as clients:
        wire.call("CreateQueue", QueueName="jobs")
        faults.write_text("write segments/spare hold\n", encoding="ascii")
        try:
            done = [clients.submit(send_each, server.wait_ready(), each, sent) for each in bodies]
            assert until_it_rests(sent) < sum(map(len, bodies))
            assert wire.call("ReceiveMessage", "jobs", VisibilityTimeout=0)["Messages"]
            assert not any(each.done() for each in done), "nobody is refused"
        finally:
            faults.unlink()
        for each in done:
            each.result()
        assert sorted(drained(wire, "jobs")) == sorted(body for each in bodies for body in each)


# Damage


def middle(data: bytes) -> bytes:
    """One bit of what is there is another one."""
    at = len(data.rstrip(b"\0")) // 2
    return data[:at] + bytes([data[at] ^ 4]) + data[at + 1 :]


def torn(data: bytes) -> bytes:
    return data[: len(data.rstrip(b"\0")) // 2]


CLASSES = {
    "oldest segment": "shards/0001/segments/0*.log",
    "newest segment": "shards/0001/segments/0*.log",
    "index": "shards/0001/index/*.idx",
    "newest snapshot": "shards/0001/snapshots/*.snap",
    "oldest key": "shards/0001/keys/0*.key",
    "promise": "shards/0001/promise",
    "master key": "master.key",
    "receipt key": "receipt.key",
    "metadata": "metadata.db",
}


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, str]]:
    """A folder with several segments, indexes and snapshots, and the bodies that are in it by number."""
    data = tmp_path_factory.mktemp("filled") / "data"
    bodies = {}
    with serving(data) as (server, wire):
        wire.call("CreateQueue", QueueName="jobs")
        for number in range(300):
            body = bodies[str(number)] = f"{number} " + os.urandom(400).hex()
            for _ in range(500):
                with suppress(Refused):
                    wire.call("SendMessage", "jobs", MessageBody=body)
                    break
                time.sleep(0.01)
        deadline = time.monotonic() + 10
        while len(list(data.glob("shards/0001/snapshots/*.snap"))) < 2 and time.monotonic() < deadline:
            time.sleep(0.05)
        server.process.terminate()
        assert server.process.wait(20) == 0
    return data, bodies


@pytest.mark.parametrize("change", [middle, torn], ids=("flipped", "torn"))
@pytest.mark.parametrize("kind", CLASSES)
def test_damage_is_named_or_mended_and_nothing_damaged_is_served(
    tmp_path: Path, filled: tuple[Path, dict[str, str]], kind: str, change: Callable[[bytes], bytes]
) -> None:
    source, bodies = filled
    data = tmp_path / "data"
    shutil.copytree(source, data)
    files = sorted(data.glob(CLASSES[kind]))
    victim = files[-1] if "newest" in kind else files[0]
    victim.write_bytes(change(victim.read_bytes()))
    server = Watched(data, upkeep=QUICK)
    found: list[str] = []
    try:
        with closing(Wire(server.wait_ready(), timeout_s=20)) as wire:
            for _ in range(len(bodies) // 10):  # a receive that meets ten damaged ones answers with none
                found += drained(wire, "jobs")
    except (Ended, Gone):
        line = server.output().splitlines()[-1]
        assert server.process.wait(10) in (2, 74), line
        assert "Traceback" not in server.output()
        assert any(part in line for part in (victim.name, victim.stem, kind)), line
    else:
        named = [line for line in server.output().splitlines() if "is damaged and is not served" in line]
        assert len(found) + len(set(named)) >= len(bodies), f"{len(bodies) - len(found)} are missing; named: {named}"
        assert all(victim.stem in line for line in named)
    finally:
        server.kill()
    assert all(bodies[body.split()[0]] == body for body in found)


def test_a_damaged_message_is_named_and_everything_else_goes_on(
    tmp_path: Path, filled: tuple[Path, dict[str, str]]
) -> None:
    source, bodies = filled
    data = tmp_path / "data"
    shutil.copytree(source, data)
    victim = min(data.glob("shards/0001/segments/0*.log"))
    content = bytearray(victim.read_bytes())
    sector = len(bytes(content).rstrip(b"\0")) // 2 // 512 * 512
    content[sector + 300] ^= 4  # within a record, wherever its frame began
    victim.write_bytes(content)
    server = Watched(data, upkeep=QUICK)
    try:
        with closing(Wire(server.wait_ready(), timeout_s=20)) as wire:
            found = drained(wire, "jobs")
            assert len(found) == len(bodies) - 1
            wire.call("SendMessage", "jobs", MessageBody="after")
            assert drained(wire, "jobs") == ["after"]
        named = {each.partition('"event"')[2] for each in server.output().splitlines() if "not served" in each}
        assert len(named) == 1, named
        assert victim.name in named.pop()
        assert server.process.poll() is None
    finally:
        server.kill()


# What SQLite does


def test_a_change_of_a_queue_is_synced_before_it_is_answered(tmp_path: Path) -> None:
    """The layer does not see SQLite's calls; strace does."""
    trace = tmp_path / "trace"
    with running(tmp_path / "data") as server, closing(Wire(server.endpoint)) as wire, tracing(server, trace):
        for action, parameters in CHANGES.items():
            before = len(trace.read_text(encoding="utf-8").splitlines())
            wire.call(action, "" if action == "CreateQueue" else "jobs", **parameters)
            since = trace.read_text(encoding="utf-8").splitlines()[before:]
            assert any(has_ended(since, place) for place, line in enumerate(since) if "metadata.db-wal" in line), action


def has_ended(lines: list[str], place: int) -> bool:
    """A call of one thread may be told in two lines, with those of others between them."""
    thread = lines[place].split()[0]
    return any(line.split()[0] == thread and line.endswith("= 0") for line in lines[place:])


CHANGES: dict[str, Any] = {
    "CreateQueue": {"QueueName": "jobs"},
    "SetQueueAttributes": {"Attributes": {"VisibilityTimeout": "5"}},
    "TagQueue": {"Tags": {"team": "a"}},
    "DeleteQueue": {},
}


@contextmanager
def tracing(server: Running, to: Path) -> Iterator[None]:
    """Every sync of every thread, with the names of files."""
    if shutil.which("strace") is None:
        pytest.skip("NOT TESTED: strace is not installed")
    options = ["-f", "-y", "-qq", "-e", "trace=fsync,fdatasync", "-o", str(to), "-p", str(server.process.pid)]
    tracer = subprocess.Popen(["strace", *options], stderr=subprocess.DEVNULL)
    try:
        deadline = time.monotonic() + 10
        while not all(map(is_traced, Path(f"/proc/{server.process.pid}/task").iterdir())):
            if tracer.poll() is not None:
                pytest.skip("NOT TESTED: strace may not look at other processes here")
            assert time.monotonic() < deadline
            time.sleep(0.01)
        yield
    finally:
        tracer.terminate()
        tracer.wait()


def is_traced(task: Path) -> bool:
    return "TracerPid:\t0\n" not in (task / "status").read_text(encoding="utf-8")
