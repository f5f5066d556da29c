"""The rules of ReceiveMessage: who is served with what, and what is put away on the way there.

A message whose time is over, or that was received too often, is not handed out: it expires, or leaves for the
dead-letter queue with the cause recorded, and the next one is looked at.
"""

import hashlib
from collections.abc import Iterator
from heapq import heappop, heappush
from itertools import islice
from typing import Any, Literal

import msgspec

from holdfast.core.errors import OverLimit
from holdfast.core.limits import ATTEMPT_WINDOW, IN_FLIGHT_MAX, SECOND, TICK_WORK
from holdfast.core.queue import fifo, standard
from holdfast.core.queue.command import EMPTY_DELIVERY, Delivered, Delivery, Need, Receive
from holdfast.core.queue.departures import Departures
from holdfast.core.queue.lane import Lane
from holdfast.core.queue.moment import Moment
from holdfast.core.queue.outbox import dead_letter_target
from holdfast.core.queue.record import NO_DIGEST, Expired, Received, Record
from holdfast.core.queue.requests import Handed
from holdfast.core.queue.standard import Candidate
from holdfast.core.queue.wheel import NEVER, on_grid
from holdfast.core.types import Cause, Group, Header, Instant, Seq


def candidates(lane: Lane, moment: Moment) -> Iterator[Candidate | Need]:
    """In order of service. With groups the window is needed from the start: it says what belongs together."""
    backlog = lane.backlog
    if backlog.is_grouped and backlog.window is None and (need := backlog.need()) is not None:
        return iter((need,))
    if lane.is_fifo:
        return fifo.candidates(lane, moment.now, moment.committed)
    return standard.candidates(lane, moment.now, moment.committed)


def put_back(found: Iterator[Candidate | Need]) -> None:
    """Whoever stops before the end of `candidates` has to call this: generators put back what they looked at."""
    if hasattr(found, "close"):
        found.close()


def decide_receive(
    lane: Lane, command: Receive, moment: Moment, departures: Departures
) -> tuple[tuple[Record, ...], Delivery] | Need:
    config = lane.config
    timeout_s = config.visibility_timeout_s if command.visibility_timeout_s is None else command.visibility_timeout_s
    until = on_grid(moment.now + timeout_s * SECOND) if timeout_s else moment.now
    attempt = attempt_digest(command.attempt_id) if command.attempt_id and lane.is_fifo else NO_DIGEST
    request = command.request.id if command.request is not None else b""
    if attempt != NO_DIGEST and (seqs := _repeatable(lane, attempt, moment.now)):
        return _repeat(lane, seqs, attempt, until=until, request=request)
    if command.is_repeat_only:
        return (), EMPTY_DELIVERY
    if lane.in_flight >= IN_FLIGHT_MAX and not lane.is_fifo:
        raise OverLimit(f"Too many messages are in flight: the limit is {IN_FLIGHT_MAX}. Delete messages first.")
    if not lane.count or (lane.descent is not None and lane.descent.is_waiting):
        return (), EMPTY_DELIVERY
    count_max = command.count_max
    heads = _group_heads(lane, count_max, moment) if lane.is_fifo else _plain_heads(lane, count_max, moment)
    if heads and attempt == NO_DIGEST:
        fresh = sorted(heads, key=_seq) if lane.is_fifo else heads
        parked = _passed_over(lane, fresh, []) if lane.is_fifo else ()
        received = Received(lane.lane, until, moment.wall, tuple(fresh), (), parked, request=request)
        return (received,), Delivery(_delivered_first(heads, moment.wall))
    picked = _pick(lane, count_max, moment, departures)
    if isinstance(picked, Need):
        return picked
    taken, put_away, is_passing = picked
    if not taken:
        return tuple(put_away), EMPTY_DELIVERY
    received = _received(lane, taken, put_away, until=until, moment=moment, is_passing=is_passing)
    if attempt != NO_DIGEST or config.at_most_once or request:
        is_final = config.at_most_once
        received = msgspec.structs.replace(received, attempt=attempt, is_final=is_final, request=request)
    messages = tuple([_delivered(candidate, moment) for candidate in taken])
    return (*put_away, received), Delivery(messages)


def _plain_heads(lane: Lane, count_max: int, moment: Moment) -> list[Header] | None:
    """The common case, cheaply: the next messages of the stream when nothing else has to be considered."""
    window, config = lane.backlog.window, lane.config
    if window is None or lane.back or lane.backlog.is_grouped or lane.aside is not None or config.at_most_once:
        return None
    if lane.backlog.held:
        return None
    oldest = moment.now - lane.retention
    if count_max > 1 and lane.maturing is None and lane.backlog.deadline == NEVER:  # no delays, no times to live
        heads = list(islice(window.queue, count_max))
        if len(heads) == count_max and heads[-1].lsn <= moment.committed and all(each.time > oldest for each in heads):
            return heads
    heads = []
    for header in window.queue:
        if header.lsn > moment.committed or header.visible_at > moment.now:
            break
        if header.deadline or header.time <= oldest:
            return None
        heads.append(header)
        if len(heads) == count_max:
            return heads
    else:
        if lane.backlog.need() is not None:
            return None  # more can be had than is in memory
    return heads


def _group_heads(lane: Lane, count_max: int, moment: Moment) -> list[Header] | None:
    """The same of a FIFO lane: from groups of which nothing is handed out, the oldest first, when nothing has come
    back and there is room for more. What fifo.candidates would say."""
    backlog, window = lane.backlog, lane.backlog.window
    if window is None or lane.back or lane.config.at_most_once:
        return None
    if lane.in_flight + len(backlog.held) >= IN_FLIGHT_MAX:
        return None
    newest, oldest = moment.now - lane.config.delay_s * SECOND, moment.now - lane.retention
    heads: list[Header] = []
    seen: list[tuple[Seq, Group]] = []
    is_plain = True
    while len(heads) < count_max and (entry := window.first_head(seen, lane.taken)) is not None:
        seen.append(heappop(window.heads))
        before = len(heads)
        for header in window.groups[entry[1]]:
            if header.lsn > moment.committed or header.time > newest or len(heads) == count_max:
                break
            is_plain = is_plain and not header.deadline and header.time > oldest
            heads.append(header)
        if len(heads) == before or not is_plain:
            break  # those behind it are younger still, or there is more to decide
    for entry in seen:
        heappush(window.heads, entry)
    return heads if is_plain else None


def _passed_over(lane: Lane, fresh: list[Header], away: list[Header]) -> tuple[Seq, ...]:
    """Messages of the stream that the cursor leaves behind when `fresh` are handed out and `away` put away."""
    last = max((header.seq for header in fresh if not header.is_aside), default=Seq(0))
    window = lane.backlog.window
    if window is None or last < lane.backlog.cursor:
        return ()
    leaving = {header.seq: None for header in (*fresh, *away)}
    parked: list[Seq] = []
    for header in window.queue:
        if header.seq >= last:
            break
        if header.seq not in leaving:
            parked.append(header.seq)
    return tuple(parked)


def _pick(
    lane: Lane, count_max: int, moment: Moment, departures: Departures
) -> tuple[list[Candidate], list[Record], bool] | Need:
    """What to hand out, what to put away, and whether something was passed over because it can neither go nor stay."""
    taken: list[Candidate] = []
    put_away: list[Record] = []
    passed: dict[Group, None] = {}
    found = candidates(lane, moment)
    for candidate in found:
        if isinstance(candidate, Need):
            if not (taken and lane.backlog.is_grouped):
                return candidate  # a grouped lane rather answers what it has than loads all of a long backlog
            break
        if lane.is_fifo and candidate.header.group in passed:
            continue  # those behind it must not overtake it
        away = put_away_if_due(lane, candidate, moment, departures)
        if away is None:
            taken.append(candidate)
        elif away is False:
            passed[candidate.header.group] = None
        else:
            put_away.append(away)
        if len(taken) == count_max or len(put_away) == TICK_WORK:
            break
    put_back(found)
    return taken, put_away, bool(passed)


def put_away_if_due(
    lane: Lane, candidate: Candidate, moment: Moment, departures: Departures
) -> Record | Literal[False] | None:
    """None: it may be handed out. False: it may not, but stays. A record: it goes."""
    header, lease = candidate.header, candidate.lease
    config = lane.config
    receives = lease.number if lease is not None else 0  # in this queue: those before it came do not count
    cause = Cause.NONE
    if lane.expiry(header.time, header.deadline) <= moment.now:
        is_own_time = bool(header.deadline) and header.deadline <= moment.now
        cause = Cause.TIME_TO_LIVE if is_own_time else Cause.NONE
    elif config.redrive is not None and receives >= config.redrive.receives_max:
        cause = Cause.RECEIVES
    else:
        return None
    target = dead_letter_target(config, lane.gone_target) if cause is not Cause.NONE else None
    if target is not None:
        count = header.count + receives  # the receive that moves it does not count
        departed = departures.depart(lane.lane, header, count=count, is_fresh=lease is None, target=target, cause=cause)
        return departed or False
    if cause is Cause.RECEIVES:
        return None  # its dead-letter queue is gone: it stays, and stays usable
    return Expired(lane.lane, header, lease is None)


def _received(
    lane: Lane, taken: list[Candidate], put_away: list[Record], *, until: Instant, moment: Moment, is_passing: bool
) -> Received:
    is_passing = is_passing or lane.backlog.is_grouped
    if len(taken) == 1 and not is_passing:
        only = taken[0]
        if only.lease is None:
            return Received(lane.lane, until, moment.wall, (only.header,), ())
        return Received(lane.lane, until, moment.wall, (), (only.header.seq,))
    fresh = sorted((c.header for c in taken if c.lease is None), key=_seq)
    again = tuple([c.header.seq for c in taken if c.lease is not None])
    away = [record.header for record in put_away if not isinstance(record, Received)]  # type: ignore[union-attr]
    parked = _passed_over(lane, fresh, away) if is_passing else ()
    return Received(lane.lane, until, moment.wall, tuple(fresh), again, parked)


def _delivered(candidate: Candidate, moment: Moment) -> Delivered:
    header, lease = candidate.header, candidate.lease
    if lease is None:
        return Delivered(header, 1, header.count + 1, moment.wall)
    number = lease.number + 1
    return Delivered(header, number, lease.count + 1, lease.first_wall or moment.wall)


def _delivered_first(heads: list[Any], wall: Any) -> tuple[Delivered, ...]:
    """What was never handed out before. Numbers are not declared: compiled code would make new objects of them."""
    delivered = Delivered  # looked up once
    return tuple([delivered(head, 1, head.count + 1, wall) for head in heads])


def attempt_digest(attempt_id: str) -> bytes:
    return hashlib.blake2b(attempt_id.encode(), digest_size=16).digest()


def _repeatable(lane: Lane, attempt: bytes, now: Instant) -> tuple[Seq, ...]:
    """The messages of an earlier receive with this id, if all of them are still in its hands."""
    earlier = lane.attempts.get(attempt)
    if earlier is None or now >= earlier.time + ATTEMPT_WINDOW:
        return ()
    leases = [lane.leases.get(seq) for seq in earlier.seqs]
    are_held = all(lease is not None and lease.until and lease.attempt == attempt for lease in leases)
    return earlier.seqs if are_held else ()


def _repeat(
    lane: Lane, seqs: tuple[Seq, ...], attempt: bytes, *, until: Instant, request: bytes
) -> tuple[tuple[Record, ...], Delivery]:
    messages = tuple([_as_held(lane, seq) for seq in seqs])
    wall = messages[0].first_wall
    record = Received(lane.lane, until, wall, (), seqs, attempt=attempt, is_repeat=True, request=request)
    return (record,), Delivery(messages)


def _as_held(lane: Lane, seq: Seq) -> Delivered:
    lease = lane.leases[seq]
    return Delivered(lease.header(seq), lease.number, lease.count, lease.first_wall)


def delivery_again(lane: Lane, handed: Handed) -> Delivery | None:
    """What is still in the hands of the receive that was asked for before; None: nothing, it may receive anew."""
    leases = lane.leases
    held = [
        seq
        for seq, number in handed
        if (lease := leases.get(seq)) is not None and lease.until and lease.number == number
    ]
    return Delivery(tuple([_as_held(lane, seq) for seq in held])) if held else None


def _seq(header: Header) -> Seq:
    return header.seq
