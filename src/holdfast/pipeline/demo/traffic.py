"""The demo's day: from the scenario to the rows that nodes would have counted. Chance has a seed.

Windows have five minutes instead of ten seconds: a thirtieth of the rows tells the same story.
"""

import datetime
import itertools
import math
import random
from collections.abc import Iterator
from functools import cache
from typing import Any, NamedTuple

from holdfast.pipeline.demo import scenario
from holdfast.pipeline.demo.scenario import NODES, Queue
from holdfast.usage import schema

MINUTES = 24 * 60
STEP = 5  # minutes of a window
MINUTE_US = 60_000_000
BUCKETS = 32
UNIT_BYTES = 64 * 1024
RECEIVES_MAX = 3

Row = tuple[Any, ...]


class Counted(NamedTuple):
    kind: str
    node: str
    minute: int
    row: Row


class Calls(NamedTuple):
    """Of one action in one minute, on all nodes."""

    action: str
    requests: int
    messages: int
    units: int
    bytes_in: int = 0
    bytes_out: int = 0
    empty: int = 0


def day(start: datetime.date, *, seed: int = 1, hours: range = range(24)) -> Iterator[Counted]:
    """Of a whole day, or what is counted in some of its hours; the others have happened all the same."""
    return (each for each in _whole_day(start, seed) if each.minute // 60 in hours)


def _whole_day(start: datetime.date, seed: int) -> Iterator[Counted]:
    midnight = datetime.datetime(start.year, start.month, start.day, tzinfo=datetime.UTC)
    zero = int(midnight.timestamp()) * 1_000_000
    for number, queue in enumerate(scenario.QUEUES):
        yield from _Life(
            queue, zero=zero, home=NODES[number % 2], chance=random.Random(f"{seed}/{queue.name}")
        ).minutes()
    yield from _acts(zero)


def shape(kind: str, minute: int) -> float:
    """How busy a minute of the day is, from 0 to 1."""
    hour = minute / 60
    if kind == scenario.FLAT:
        return 0.9 + 0.1 * math.sin(hour / 24 * 2 * math.pi)
    peak, width = (13.0, 4.2) if kind == scenario.OFFICE else (19.5, 3.6)
    return 0.05 + 0.95 * math.exp(-(((hour - peak) / width) ** 2))


class _Life:
    """A queue's day."""

    def __init__(self, queue: Queue, *, zero: int, home: str, chance: random.Random) -> None:
        self._queue, self._zero, self._home, self._chance = queue, zero, home, chance
        self._waiting = 0
        self._dead = 0
        self._expired = self._redriven = 0  # in the window

    def minutes(self) -> Iterator[Counted]:
        queue = self._queue
        for minute in range(0, MINUTES, STEP):
            sent = self._sent(minute)
            self._expired = int(queue.expires * sent)
            sent_on = sent - self._expired
            self._redrive(minute)
            taken = min(self._waiting + sent_on, self._pace())
            died = self._died(minute, taken)
            self._waiting += sent_on - taken
            self._dead += died
            for calls in (_sends(queue, sent), _receives(queue, taken), _deletes(queue, taken - died)):
                yield from self._counted(minute, calls)
            yield self._state(minute, taken)
            yield from self._letters(minute, died)
            if queue.dead_letter_queue:
                yield self._dead_state(minute)

    def _redrive(self, minute: int) -> None:
        is_now = self._queue.has_new_cause and minute <= scenario.REDRIVE < minute + STEP
        self._redriven = self._dead if is_now else 0
        self._dead -= self._redriven
        self._waiting += self._redriven

    def _pace(self) -> int:
        """Messages that consumers can take in a window."""
        return max(1, int(STEP * self._queue.per_minute * self._queue.capacity))

    def _sent(self, minute: int) -> int:
        queue = self._queue
        rate = STEP * queue.per_minute * shape(queue.shape, minute) * self._chance.uniform(0.92, 1.08)
        if queue.is_noisy and scenario.NOISE[0] <= minute < scenario.NOISE[1]:
            rate *= scenario.NOISE_FACTOR
        return int(rate)

    def _died(self, minute: int, taken: int) -> int:
        queue = self._queue
        share = queue.dies
        if queue.has_new_cause and minute >= scenario.NEW_CAUSE_FROM:
            share = 0.0004 + 0.004 * (minute - scenario.NEW_CAUSE_FROM) / MINUTES
        return min(taken, int(share * taken + self._chance.random()))

    def _counted(self, minute: int, calls: Calls) -> Iterator[Counted]:
        for node, share in zip(NODES, (0.52, 0.48), strict=True):
            own = _part(calls, share) if node == NODES[0] else _rest(calls, _part(calls, 0.52))
            is_led = node == self._home == NODES[1]
            is_out = is_led and scenario.OUTAGE[0] <= minute < scenario.OUTAGE[1]
            well = _part(own, 1 - scenario.OUTAGE_FAILS) if is_out else own
            if own.requests > well.requests:
                failed = Calls(calls.action, own.requests - well.requests, 0, 0)
                yield self._meter(minute, node, failed, outcome="failed")
            if well.requests:
                yield self._meter(minute, node, well, is_slow=is_out)
            if self._is_throttled(minute) and calls.action.startswith("Send"):
                yield self._meter(minute, node, Calls(calls.action, own.requests // 9, 0, 0), outcome="throttled")

    def _is_throttled(self, minute: int) -> bool:
        return self._queue.is_noisy and scenario.NOISE[0] <= minute < scenario.NOISE[1]

    def _meter(
        self, minute: int, node: str, calls: Calls, *, outcome: str = "success", is_slow: bool = False
    ) -> Counted:
        queue = self._queue
        codes = {"failed": "ServiceUnavailable", "throttled": "RequestThrottled", "success": ""}
        is_crowded = scenario.NOISE[0] <= minute < scenario.NOISE[1]
        median_us = 400_000 if is_slow or outcome == "failed" else 5200 if is_crowded else 1400
        latency = spread(calls.requests, median_us)
        row = (
            self._zero + minute * MINUTE_US,
            STEP * 60_000,
            queue.account,
            f"arn:aws:iam::{queue.account}:user/{scenario.NAMES[queue.account]}-service",
            queue.name,
            queue.type,
            calls.action,
            outcome,
            codes[outcome],
            calls.requests,
            calls.units,
            calls.messages,
            calls.empty,
            calls.bytes_in,
            calls.bytes_out,
            sum(count * (2**place) * 3 // 4 for place, count in enumerate(latency)),
            latency,
        )
        return Counted(schema.METER, node, minute, row)

    def _state(self, minute: int, in_flight: int) -> Counted:
        queue, waiting = self._queue, self._waiting
        age_s = waiting * STEP * 60 // self._pace()
        return self._state_row(minute, queue.name, waiting, in_flight=in_flight // (6 * STEP), age_s=age_s)

    def _dead_state(self, minute: int) -> Counted:
        age_s = minute * 60 if self._dead else 0
        return self._state_row(minute, self._queue.dead_letter_queue, self._dead, in_flight=0, age_s=age_s)

    def _state_row(self, minute: int, name: str, waiting: int, *, in_flight: int, age_s: int) -> Counted:
        queue = self._queue
        is_own = name == queue.name
        row = (
            self._zero + minute * MINUTE_US + 1_000_000,
            queue.account,
            name,
            queue.type,
            waiting,
            in_flight,
            0,
            (waiting + in_flight) * queue.size,
            age_s,
            345_600,
            120_000,
            queue.messages_max if is_own else 0,
            0,
            RECEIVES_MAX if queue.dead_letter_queue and is_own else 0,
            queue.dead_letter_queue if is_own else "",
            self._expired if is_own else 0,
            0 if is_own else self._redriven,
            queue.tags if is_own else "",
        )
        return Counted(schema.QUEUE_STATE, self._home, minute, row)

    def _letters(self, minute: int, died: int) -> Iterator[Counted]:
        queue, chance = self._queue, self._chance
        for _ in range(died):
            is_new = queue.has_new_cause and minute >= scenario.NEW_CAUSE_FROM and chance.random() < 0.95
            reason = scenario.NEW_REASON if is_new else chance.choice(scenario.OLD_REASONS)
            says_why = chance.random() < 0.85
            row = (
                self._zero + minute * MINUTE_US + chance.randrange(STEP * MINUTE_US),
                queue.account,
                queue.name,
                queue.dead_letter_queue,
                f"{chance.getrandbits(64):016x}",
                "MaxReceiveCount",
                RECEIVES_MAX,
                queue.size,
                reason.format(n=chance.randrange(10_000, 99_999)) if says_why else "",
                "5d41402abc4b2a76b9719d911017c592" if queue.has_new_cause else "",
                f"arn:aws:iam::{queue.account}:user/{queue.name.removesuffix('.fifo')}-worker" if says_why else "",
            )
            yield Counted(schema.DEAD_LETTER, self._home, minute, row)


def _sends(queue: Queue, count: int) -> Calls:
    calls = math.ceil(count / queue.batch)
    action = "SendMessageBatch" if queue.batch > 1 else "SendMessage"
    return Calls(action, calls, count, calls * _units(queue), bytes_in=count * queue.size)


def _receives(queue: Queue, count: int) -> Calls:
    calls = math.ceil(count / queue.batch)
    empty = max(1, STEP * queue.polls - calls) if count < STEP * queue.per_minute * queue.capacity else 0
    return Calls(
        "ReceiveMessage", calls + empty, count, calls * _units(queue) + empty, bytes_out=count * queue.size, empty=empty
    )


def _deletes(queue: Queue, count: int) -> Calls:
    calls = math.ceil(count / queue.batch)
    return Calls("DeleteMessageBatch" if queue.batch > 1 else "DeleteMessage", calls, count, calls)


def _units(queue: Queue) -> int:
    """Of one call that carries a whole batch."""
    return math.ceil(queue.batch * queue.size / UNIT_BYTES)


def _part(calls: Calls, share: float) -> Calls:
    return Calls(calls.action, *(int(number * share) for number in calls[1:]))


def _rest(calls: Calls, part: Calls) -> Calls:
    return Calls(calls.action, *(whole - taken for whole, taken in zip(calls[1:], part[1:], strict=True)))


@cache
def _levels(median_us: int) -> tuple[float, ...]:
    """Share of calls that are in a bucket or below it, when the logarithm of latency is normal."""
    middle = math.log2(median_us)
    below = [0.5 * (1 + math.erf((place - middle) / 1.1 / math.sqrt(2))) for place in range(BUCKETS)]
    return (*below[:-1], 1.0)


def spread(count: int, median_us: int) -> list[int]:
    """A histogram with exactly `count` in it."""
    upto = [round(count * level) for level in _levels(median_us)]
    return [upto[0], *(high - low for low, high in itertools.pairwise(upto))]


def _acts(zero: int) -> Iterator[Counted]:
    for number, act in enumerate(scenario.ACTS):
        row = (
            zero + act.minute * MINUTE_US + 17_000_000 + number,
            act.account,
            f"arn:aws:iam::{act.account}:user/{act.user}",
            "management",
            act.action,
            act.queue,
            "refused" if act.error_code else "success",
            act.error_code,
            403 if act.error_code else 200,
            act.source_ip,
            "aws-cli/2.31.0",
            f"00000000-0000-4000-8000-{number:012d}",
        )
        yield Counted(schema.AUDIT, NODES[number % 2], act.minute, row)
