"""The rules of SendMessage that are about the queue: limits, deduplication, delay, time to live."""

from collections.abc import Sequence
from typing import Any

from holdfast.core.errors import InvalidParameterValue, MissingParameter, OverLimit
from holdfast.core.limits import SECOND
from holdfast.core.queue.columns import AcceptedAll, SendAll
from holdfast.core.queue.command import Accepted, Command, Send
from holdfast.core.queue.dedup import content_id, digest_of, group_of
from holdfast.core.queue.departures import Departures
from holdfast.core.queue.headers import header_of
from holdfast.core.queue.lane import Lane
from holdfast.core.queue.moment import Moment
from holdfast.core.queue.outbox import dead_letter_target
from holdfast.core.queue.plain import SentAll
from holdfast.core.queue.record import NO_DIGEST, Record, Sent
from holdfast.core.queue.wheel import on_grid
from holdfast.core.types import Address, Cause, Group, Seq


def decide_send(
    lane: Lane, command: Send, moment: Moment, departures: Departures
) -> tuple[tuple[Record, ...], Accepted]:
    config = lane.config
    if command.size > config.message_bytes_max:
        raise InvalidParameterValue(
            "One or more parameters are invalid. "
            f"Reason: Message must be shorter than {config.message_bytes_max} bytes."
        )
    if lane.descent is not None:
        lane.descent.check_open()
    group = group_of(command.group)
    digest = NO_DIGEST
    if lane.is_fifo or command.deduplication_id or config.request_deduplication:
        digest, original = _deduplicate(lane, command, group, moment)
        if original is not None:
            return (), original
    target = _check_room(lane, command) if config.messages_max or config.bytes_max else None
    delay_s = config.delay_s if command.delay_s is None or lane.is_fifo else command.delay_s
    ttl_s = config.time_to_live_s if command.time_to_live_s is None else command.time_to_live_s
    seq = Seq(lane.last_seq + 1)
    is_aside = delay_s != config.delay_s or (lane.maturing is not None and _is_early(lane, delay_s, moment))
    if target is not None and not lane.is_fifo:
        is_aside = True  # it leaves at once: nothing that the stream should have to remember
    sent = Sent(
        command.lane,
        seq,
        group,
        command.size,
        delay_s,
        ttl_s,
        moment.wall,
        digest,
        is_aside,
        command.content,
        command.request.id if command.request is not None else b"",
    )
    accepted = Accepted(moment.epoch, moment.lsn, seq)
    if target is None:
        return (sent,), accepted
    header = header_of(sent, moment.epoch, moment.lsn, moment.now)
    departed = departures.depart(lane.lane, header, count=0, is_fresh=True, target=target, cause=Cause.LENGTH)
    if departed is None:
        raise OverLimit("The queue and the way to its dead-letter queue are full.")
    return (sent, departed), accepted


def decide_sends(lane: Lane, sends: SendAll, moment: Moment) -> tuple[SentAll, AcceptedAll] | None:
    """All at once, if the lane asks for nothing else, as nearly all do: what `decide_send` of each in turn would say.
    None: there is more to decide."""
    sizes = sends.sizes
    if not _is_simple(lane) or max(sizes) > lane.config.message_bytes_max:
        return None
    first = Seq(lane.last_seq + 1)
    sent = SentAll(lane.lane, first, moment.wall, sizes, sends.contents)
    return sent, AcceptedAll(moment.epoch, moment.lsn, first, len(sizes))


def together(commands: Sequence[Command]) -> SendAll | None:
    """A batch by columns, if it is of messages for one lane that have nothing but a body."""
    lane: Any = None  # one object for all, however many of them there are
    bodies: list[bytes] = []
    contents: list[bytes] = []
    sizes: list[int] = []
    for command in commands:
        if type(command) is not Send or (lane is not None and command.lane != lane):
            return None
        if command.group or command.deduplication_id or command.request is not None:
            return None
        if command.delay_s is not None or command.time_to_live_s is not None:
            return None
        lane = command.lane
        bodies.append(command.body)
        contents.append(command.content)
        sizes.append(command.size)
    return SendAll(lane, bodies, contents, sizes) if sizes else None


def _is_simple(lane: Lane) -> bool:
    """Does a message that has nothing but a body need nothing but a place here?"""
    config = lane.config
    has_rules = config.delay_s or config.time_to_live_s or config.messages_max or config.bytes_max
    is_usual = not (lane.is_fifo or has_rules or config.request_deduplication)
    return is_usual and lane.descent is None and lane.maturing is None


def _deduplicate(lane: Lane, command: Send, group: Group, moment: Moment) -> tuple[bytes, Accepted | None]:
    """The digest to remember, and the original when this message was accepted before."""
    config = lane.config
    if lane.is_fifo:
        _check_fifo(command)
    elif not config.request_deduplication:
        raise InvalidParameterValue(
            f"Value {command.deduplication_id} for parameter MessageDeduplicationId is invalid. "
            "Reason: The request include parameter that is not valid for this queue type."
        )
    name = command.deduplication_id
    if not name:
        if lane.is_fifo and not config.content_deduplication:
            raise InvalidParameterValue(
                "The queue should either have ContentBasedDeduplication enabled "
                "or MessageDeduplicationId provided explicitly"
            )
        name = content_id(command.body)
    by_queue, by_group = digest_of(name, None), digest_of(name, group)
    if lane.dedup is not None:
        found = lane.dedup.find(by_queue, moment.now) or lane.dedup.find(by_group, moment.now)
        if found is not None:
            return NO_DIGEST, Accepted(*found)
    return by_group if config.deduplication_per_group else by_queue, None


def _check_fifo(command: Send) -> None:
    if not command.group:
        raise MissingParameter("The request must contain the parameter MessageGroupId.")
    if command.delay_s:
        raise InvalidParameterValue(
            f"Value {command.delay_s} for parameter DelaySeconds is invalid. "
            "Reason: The request include parameter that is not valid for this queue type."
        )


def _check_room(lane: Lane, command: Send) -> Address | None:
    """None: there is room. An address: it goes to that dead-letter queue instead."""
    config = lane.config
    is_over_count = config.messages_max and lane.count >= config.messages_max
    is_over_bytes = config.bytes_max and lane.bytes + command.size > config.bytes_max
    if not (is_over_count or is_over_bytes):
        return None
    target = dead_letter_target(config, lane.gone_target) if config.overflow_to_dead_letter else None
    if target is None:
        bound = f"{config.messages_max} messages" if is_over_count else f"{config.bytes_max} bytes"
        raise OverLimit(f"The queue is full: its limit is {bound}. Receive and delete messages, or raise the limit.")
    return target


def _is_early(lane: Lane, delay_s: int, moment: Moment) -> bool:
    """Would it wait behind a message with a longer delay? (The queue's delay was shortened.)"""
    if lane.is_fifo or lane.maturing is None:
        return False
    return on_grid(moment.now + delay_s * SECOND) < lane.maturing.last()
