"""What counting costs: per reply, and when it is handed over, which takes 0.5 % of the time at most. Prints a table
and asserts nothing.

python -m bench.usage
"""

import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass

from holdfast.core.errors import QueueDoesNotExist
from holdfast.core.types import QueueName
from holdfast.core.usage import Window
from holdfast.frontend.caller import Caller
from holdfast.runtime.metrics import Meter, now

CALLS = 100_000
ROUNDS = 7
KEYS = 1000


@dataclass(slots=True)
class Given:
    """An answered exchange, as the tally sees it."""

    caller: Caller
    queue: QueueName | None
    messages: int = 1
    size: int = 1024
    began: float = 0.0


def median_us(work: Callable[[], object], calls: int) -> float:
    """Of CPU time."""
    taken = []
    for _ in range(ROUNDS):
        began = time.process_time()
        work()
        taken.append((time.process_time() - began) / calls * 1e6)
    return statistics.median(taken)


def _given(count: int) -> list[Given]:
    caller = Caller("000000000000", "arn:aws:iam::000000000000:root", "AIDAROOT")
    return [Given(caller, QueueName("000000000000", f"queue-{number}"), began=now()) for number in range(count)]


def _loop(replies: list[Given]) -> None:
    """As much as the measured loops do besides counting."""
    for _ in replies:
        pass


def per_reply(queues: int, refusal: type[QueueDoesNotExist] | None = None) -> float:
    note = Meter().tally("SendMessage").note
    replies = (_given(queues) * (CALLS // queues))[:CALLS]

    def work() -> None:
        for each in replies:
            note(each, refusal)

    return median_us(work, CALLS) - median_us(lambda: _loop(replies), CALLS)


def per_key() -> tuple[float, float]:
    """Of a turn in the loop; of adding it to the window in the thread."""
    meter, replies, window = Meter(), _given(KEYS), Window()
    turns, adds = [], []
    for _ in range(ROUNDS):
        for each in replies:
            meter.tally("SendMessage").note(each)
        began = time.process_time()
        counted = meter.turn()
        between = time.process_time()
        window.add(counted)
        turns.append(between - began)
        adds.append(time.process_time() - between)
    return statistics.median(turns) / KEYS * 1e6, statistics.median(adds) / KEYS * 1e6


def main() -> None:
    turn, add = per_key()
    for what, cost in (
        ("a reply counted, one queue", per_reply(1)),
        ("a reply counted, a thousand queues", per_reply(KEYS)),
        ("a refusal counted", per_reply(1, QueueDoesNotExist)),
        ("at a hand-over, per queue and action used since the last: totals, in the loop", turn),
        ("the same: added to the window, in the thread", add),
    ):
        print(f"{cost:6.2f} µs  {what}")


if __name__ == "__main__":
    main()
