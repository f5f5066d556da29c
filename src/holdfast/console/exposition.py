"""Metrics as Prometheus reads them. Named after CloudWatch's metrics of SQS where there are such."""

import shutil
from collections.abc import Iterable, Iterator

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.registry import Collector

from holdfast import __version__
from holdfast.console.facts import Queue
from holdfast.console.parts import Action, Part
from holdfast.console.sources import Sources
from holdfast.runtime.metrics import BOUNDS_S, DELETED, EMPTY, RECEIVED, SENT, SENT_BYTES

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
_COUNTED = (
    ("number_of_messages_sent", "Messages accepted.", SENT, "sent"),
    ("number_of_messages_received", "Messages handed out.", RECEIVED, "received"),
    ("number_of_messages_deleted", "Messages deleted by consumers.", DELETED, "deleted"),
    ("number_of_empty_receives", "Receives that found nothing.", EMPTY, "empty_receives"),
    ("sent_message_size_bytes", "Bytes of bodies and attributes accepted.", SENT_BYTES, "sent_bytes"),
)
_DEPTHS = (
    ("approximate_number_of_messages_visible", "Messages that can be received.", "visible"),
    ("approximate_number_of_messages_not_visible", "Messages in flight.", "not_visible"),
    ("approximate_number_of_messages_delayed", "Messages whose delay is not over.", "delayed"),
    ("approximate_bytes_of_messages", "Bytes of bodies and attributes stored.", "bytes"),
)
_POWERS = range(7, 26)  # of two, in microseconds: 128 µs to 33 s
_AGE = "holdfast_approximate_age_of_oldest_message_seconds"


class _Given(Collector):
    def __init__(self, families: Iterable[Metric]) -> None:
        self._families = list(families)

    def collect(self) -> Iterable[Metric]:
        return self._families


def of_server(sources: Sources, whole: Part) -> bytes:
    """Totals, without any names of queues or accounts."""
    registry = CollectorRegistry()
    families = [*_messages(whole), *_requests(whole), *_host(sources, whole), *_process(whole)]
    registry.register(_Given(families))
    return generate_latest(registry)


def of_queues(queues: list[Queue]) -> bytes:
    registry = CollectorRegistry()
    registry.register(_Given(_per_queue(queues)))
    return generate_latest(registry)


def _messages(whole: Part) -> Iterator[Metric]:
    for name, about, place, _ in _COUNTED:
        yield CounterMetricFamily(f"holdfast_{name}", about, value=whole.totals[place])
    for name, about, field in _DEPTHS:
        yield GaugeMetricFamily(f"holdfast_{name}", about, value=sum(getattr(each, field) for each in whole.depths))
    oldest = max((each.oldest_seconds for each in whole.depths), default=0)
    yield GaugeMetricFamily(_AGE, "Age of the oldest message.", value=oldest)


def _requests(whole: Part) -> Iterator[Metric]:
    replies = CounterMetricFamily("holdfast_requests", "Replies given.", labels=["action", "status"])
    durations = HistogramMetricFamily(
        "holdfast_request_duration_seconds", "From the request's last byte to its reply.", labels=["action"]
    )
    for action, counted in whole.actions.items():
        for status, count in counted.statuses.items():
            replies.add_metric([action, str(status)], count)
        durations.add_metric([action], buckets=_powers(counted), sum_value=counted.micros / 1e6)
    yield replies
    yield durations


def _host(sources: Sources, whole: Part) -> Iterator[Metric]:
    syncs = HistogramMetricFamily("holdfast_fsync_duration_seconds", "Writing and syncing one frame of the log.")
    syncs.add_metric([], buckets=_buckets(whole.syncs), sum_value=whole.sync_seconds)
    yield syncs
    disk = shutil.disk_usage(sources.data)
    for name, about, value in (
        ("disk_size_bytes", "Of the file system that holds the data folder.", disk.total),
        ("disk_free_bytes", "Of the file system that holds the data folder.", disk.free),
        ("queues", "Queues of all accounts.", sources.queue_count()),
        ("connections", "Open connections to the SQS port.", whole.connections),
        ("long_polls", "Receives that wait for messages.", whole.long_polls),
        ("usage_waiting", "1 while usage cannot be written and is kept in memory.", int(whole.is_usage_waiting)),
        ("draining", "1 while /in-service says no.", int(sources.duty.is_draining)),
    ):
        yield GaugeMetricFamily(f"holdfast_{name}", about, value=value)
    about = "Rows of audits, dead letters and queue states that there was no room for."
    yield CounterMetricFamily("holdfast_usage_rows_dropped", about, value=whole.usage_dropped)
    build = GaugeMetricFamily("holdfast_build_info", "Which Holdfast this is.", labels=["version"])
    build.add_metric([__version__], 1)
    yield build


def _process(whole: Part) -> Iterator[Metric]:
    for name, value in whole.process.items():
        family = CounterMetricFamily if name.endswith("_total") else GaugeMetricFamily
        yield family(name.removesuffix("_total"), "Of all processes that serve.", value=value)


def _buckets(counts: list[int]) -> list[tuple[str, float]]:
    """Cumulative, as the format wants them."""
    total, made = 0, []
    for bound, count in zip([*map(str, BOUNDS_S), "+Inf"], counts, strict=True):
        total += count
        made.append((bound, float(total)))
    return made


def _powers(replies: Action) -> list[tuple[str, float]]:
    """Bucket n has what took less than 2**n microseconds and was in none before it; cumulative, as the format wants
    them. Those at both ends are put together: no request is that fast, and slower than a long poll is just slow."""
    total, made = sum(replies.latency[: _POWERS[0]]), []
    for power in _POWERS:
        total += replies.latency[power]
        made.append((str(2**power / 1e6), float(total)))
    made.append(("+Inf", float(sum(replies.latency))))
    return made


def _per_queue(queues: list[Queue]) -> Iterator[Metric]:
    labels = ["account", "queue"]
    counted = [CounterMetricFamily(f"holdfast_queue_{row[0]}", row[1], labels=labels) for row in _COUNTED]
    gauges = [GaugeMetricFamily(f"holdfast_queue_{row[0]}", row[1], labels=labels) for row in _DEPTHS]
    age = GaugeMetricFamily(_AGE.replace("holdfast_", "holdfast_queue_"), "Age of the oldest message.", labels=labels)
    for queue in queues:
        named = [queue.account, queue.name]
        for family, row in zip(counted, _COUNTED, strict=True):
            family.add_metric(named, getattr(queue, row[3]))
        for gauge, depth in zip(gauges, _DEPTHS, strict=True):
            gauge.add_metric(named, getattr(queue, depth[2]))
        age.add_metric(named, queue.oldest_seconds)
    yield from (*counted, *gauges, age)
