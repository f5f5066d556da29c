"""What clients asked and were told over many lives of a server, and whether the promise was kept.

    nothing lost       what was acknowledged is found at the end, unless somebody tried to delete it
    nothing invented   what was received was sent
    nothing returns    what was deleted, and acknowledged, is not received afterwards
    order              a FIFO group is first delivered as 0, 1, 2, … without a gap
    deduplication      sends of one number, repeated after crashes, are one message with one id
    visibility         two deliveries of a message are at least its visibility timeout apart
    counts             its receive count grows with each delivery
    moves              a message on its way between queues is in one of them, once
    queues             those whose creation was acknowledged are there, those whose deletion was are not

Clients append to the lists from their threads; `problems` is asked when they have ended.
"""

import time
from collections.abc import Iterator
from typing import Any, Final

import msgspec

PLAIN: Final = "plain"
LINE: Final = "line.fifo"


class Delivery(msgspec.Struct, frozen=True):
    """One message of one receive."""

    queue: str
    body: str
    message_id: str
    asked: float  # monotonic seconds, when the receive was sent
    told: float
    timeout_s: float
    count: int
    group: str = ""


class History:
    def __init__(self) -> None:
        self.tried: set[tuple[str, str]] = set()  # queue, body: sends, answered or not
        self.sent: dict[tuple[str, str], set[str]] = {}  # acknowledged -> message ids
        self.deleting: set[tuple[str, str]] = set()
        self.deleted: dict[tuple[str, str], float] = {}  # acknowledged -> when that was known
        self.deliveries: list[Delivery] = []
        self.moving: set[str] = set()  # bodies that were acknowledged by a queue whose messages go round
        self.moving_tried: set[str] = set()
        self.moving_found: list[str] = []  # at the end
        self.next_number: dict[str, int] = {}  # FIFO group -> what it sends next, or again
        self.made: set[str] = set()  # queues whose creation was acknowledged last,
        self.removed: set[str] = set()  # or whose deletion was; those of unknown fate are in neither

    def delivered(self, queue: str, messages: list[dict[str, Any]], *, asked: float, timeout_s: float) -> None:
        told = time.monotonic()
        for each in messages:
            attributes = each["Attributes"]
            self.deliveries.append(
                Delivery(
                    queue,
                    each["Body"],
                    each["MessageId"],
                    asked,
                    told,
                    timeout_s,
                    int(attributes["ApproximateReceiveCount"]),
                    attributes.get("MessageGroupId", ""),
                )
            )

    def problems(self, *, queues: set[str], is_drained: bool = True) -> list[str]:
        """`queues`: the names that the server lists at the end. Empty: the promise was kept."""
        found = [*self._invented(), *self._returned(), *self._order(), *self._dedup(), *self._visibility()]
        if is_drained:
            found += [*self._lost(), *self._moved()]
        found += [f"queue {name} is lost" for name in sorted(self.made - queues)]
        found += [f"queue {name} is back" for name in sorted(self.removed & queues)]
        return found

    def _lost(self) -> Iterator[str]:
        received = {(each.queue, each.body) for each in self.deliveries}
        for queue, body in sorted(set(self.sent) - received):
            yield f"{body} of {queue} was acknowledged and is lost"
        last = {(each.queue, each.body): each for each in self.deliveries}
        for key in sorted(set(last) - self.deleting):
            yield f"{key} was received and never deleted, and is not there at the end"

    def _moved(self) -> Iterator[str]:
        found = set(self.moving_found)
        for body in sorted(self.moving - found):
            yield f"{body} was acknowledged and lost between queues"
        for body in sorted(found - self.moving_tried):
            yield f"{body} was found between queues and never sent"
        for body in sorted(found):
            if (times := self.moving_found.count(body)) > 1:
                yield f"{body} was found {times} times between queues"

    def _invented(self) -> Iterator[str]:
        for each in self.deliveries:
            if (each.queue, each.body) not in self.tried:
                yield f"{each.body} of {each.queue} was received and never sent"

    def _returned(self) -> Iterator[str]:
        for each in self.deliveries:
            deleted = self.deleted.get((each.queue, each.body))
            if deleted is not None and each.asked > deleted:
                yield f"{each.body} of {each.queue} was received after its deletion was acknowledged"

    def _order(self) -> Iterator[str]:
        following: dict[str, int] = {}
        for each in self.deliveries:
            if not each.group:
                continue
            number = int(each.body.rpartition("-")[2])
            expected = following.get(each.group, 0)
            if number > expected:
                yield f"group {each.group}: {number} was delivered when {expected} was due"
            following[each.group] = max(expected, number + 1)

    def _dedup(self) -> Iterator[str]:
        ids: dict[tuple[str, str], set[str]] = {key: set(value) for key, value in self.sent.items()}
        for each in self.deliveries:
            ids.setdefault((each.queue, each.body), set()).add(each.message_id)
        for (queue, body), known in ids.items():
            if len(known) > 1:
                yield f"{body} of {queue} is {len(known)} messages: {sorted(known)}"

    def _visibility(self) -> Iterator[str]:
        before: dict[str, Delivery] = {}
        for each in sorted(self.deliveries, key=lambda delivery: delivery.count):
            last = before.get(each.message_id)
            before[each.message_id] = each
            if last is None:
                continue
            if each.count == last.count:
                yield f"{each.body} of {each.queue} was delivered twice with receive count {each.count}"
            elif each.told < last.asked + last.timeout_s:
                early = last.asked + last.timeout_s - each.told
                yield f"{each.body} of {each.queue} was delivered again {early:.3f} s before its time"
