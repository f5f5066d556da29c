"""The benchmark runs: every mode and experiment for a moment, against a real server. Its figures are not judged."""

import sys
from collections.abc import Iterator
from dataclasses import replace

import pytest

from bench import holdfast_server, processes
from bench.contender import Place, Running
from bench.dialects.dialect import MODES, connect
from bench.dialects.sqs import Sqs
from bench.experiments import depth, durability, flatness, idle, latency
from bench.experiments.finding import host
from bench.load import PeerError
from bench.processes import cores
from bench.throughput import fill, measure

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the benchmark reads /proc")


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Place:
    return Place(tmp_path_factory.mktemp("bench"), cores()[0])


@pytest.fixture(scope="module")
def running(place: Place) -> Iterator[Running]:
    made = holdfast_server.start(place.inside("modes"))
    yield made
    made.served.stop()


@pytest.mark.parametrize("suffix", ["", ".fifo"])
@pytest.mark.parametrize("mode", MODES)
def test_a_mode_moves_messages(running: Running, mode: str, suffix: str) -> None:
    sample = measure(running, mode, 0.3, backlog=10_000, suffix=suffix)
    assert sample.messages > 0
    assert sample.cpu_s > 0


def test_a_drain_is_measured_whatever_was_drained_while_it_became_warm(running: Running) -> None:
    sample = measure(running, "drain", 20.0, backlog=1_000)
    assert 600 < sample.messages < 1_200  # of at least 1,000, but for a tenth before and a tenth after


def test_a_fill_leaves_as_many_as_it_says(running: Running) -> None:
    sqs = running.dialect
    assert isinstance(sqs, Sqs)
    queue = latency.created(sqs)
    filled = fill(sqs, queue, 200)
    connection = connect(sqs)
    request: dict[str, object] = {"QueueUrl": sqs.urls[queue], "AttributeNames": ["ApproximateNumberOfMessages"]}
    found = sqs.call(connection, "GetQueueAttributes", request)["Attributes"]
    connection.close()
    assert isinstance(found, dict)
    assert 200 <= filled <= int(found["ApproximateNumberOfMessages"])


def test_a_refused_request_stops_the_measurement(running: Running) -> None:
    sqs = running.dialect
    assert isinstance(sqs, Sqs)
    stranger = Sqs(f"http://{sqs.authority}", key="HFBENCHBENCHBENCHBEN", secret="wrong")
    with pytest.raises(PeerError, match="SignatureDoesNotMatch"):
        measure(Running(running.served, stranger, ""), "send", 0.1)


def test_latencies_are_found(place: Place) -> None:
    sends, polls = latency.send_latency(place, 0.5, rounds=2), latency.poll_latency(place, 0.5, rounds=2)
    found = sends.figures | polls.figures
    assert 0 < found["send_p50_ms"] <= found["send_p99_ms"] <= found["send_p999_ms"]
    assert found["send_p99_ms_lowest"] <= found["send_p99_ms"] <= found["send_p99_ms_highest"]
    assert found["stall_p99_ms"] >= 0
    assert 0 < found["poll_p50_ms"] <= found["poll_p99_ms"]


def test_what_memory_became_free_is_filled_before_each_run_of_a_round(place: Place) -> None:
    topped: list[int] = []
    finding = latency.isolation(replace(place, top_up=lambda: topped.append(1)), 0.3, rounds=2)
    assert finding.figures["isolation_ratio"] > 0
    assert len(topped) == 4  # alone and beside the other one, twice


def test_durability_is_compared(place: Place) -> None:
    ratio = durability.durable_share(place, 0.3, rounds=1).figures.get("durable_ratio")
    assert ratio is None if not durability.TMPFS.is_dir() else ratio is not None and ratio > 0


def test_a_backlog_outlives_a_crash(place: Place) -> None:
    finding = depth.backlog_sweep(place, 0.2, depth_max=10_000)
    assert [depth for depth, _ in finding.curves["depth_ratio"]] == [1000, 10_000]
    assert all(ratio > 0 for _, ratio in finding.curves["depth_ratio"])
    assert finding.figures["first_delivery_s"] > 0
    assert finding.figures["space_amplification"] > 1


def test_what_should_cost_nothing_is_added_and_measured(place: Place) -> None:
    curves = flatness.flatness(place, 0.2, count_max=1000).curves
    assert set(curves) == {"flat in flight", "flat delayed", "flat groups", "flat connections"}
    assert all(cost > 0 for curve in curves.values() for _, cost in curve)


def test_idle_queues_and_polls_are_counted(place: Place) -> None:
    assert idle.idle_queues(place, count=50).figures["idle_queues"] == 50
    assert idle.waiting_polls(place, 0.5, count=50).figures["waiting_polls"] == 50


def test_a_start_is_timed(place: Place) -> None:
    with host(place, "once") as server:
        assert server.served.written() >= 0
    assert idle.starts(place, rounds=1).figures["start_s"] > 0


def test_kernel_workers_that_end_do_not_take_their_time_with_them(monkeypatch: pytest.MonkeyPatch) -> None:
    used = {7: 1.0, 8: 2.0}
    monkeypatch.setattr(processes, "_workers", {})
    monkeypatch.setattr(processes, "_kernel_workers", lambda: list(used))
    monkeypatch.setattr(processes, "_cpu_s", lambda pid: used[pid])
    assert processes._workers_cpu_s() == 3.0
    del used[8]
    used[7] += 0.5
    assert processes._workers_cpu_s() == 3.5
    used[9] = 0.25
    assert processes._workers_cpu_s() == 3.75
