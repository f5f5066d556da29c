"""Steps that change the configuration (REPLICATION §3, §4), each in two halves: a request, and its application.

A request may be applied at any later time, or never. Whoever sent it is told the outcome, or asks: then it learns
what the record is now. A record that is as before tells nothing, since the request may still be on its way.
"""

from collections.abc import Iterator
from itertools import combinations

from tests.model.state import (
    CANDIDATE,
    FOLLOWER,
    PRIMARY,
    Bounds,
    Host,
    Log,
    Member,
    Record,
    Rules,
    State,
    demoted,
    with_host,
)
from tests.model.writing import Steps, has_level, sent_more, tidy


def steps(state: State, bounds: Bounds, rules: Rules) -> Steps:
    yield from suspect(state, bounds, rules)
    yield from apply(state, rules)
    for index, host in enumerate(state.hosts):
        yield from become_candidate(state, index, rules)
        if host.role == CANDIDATE:
            yield from ask_others(state, index, rules)
            yield from freeze(state, index, rules)
            yield from activate(state, index, bounds=bounds, rules=rules)
        if host.role == PRIMARY:
            yield from change_members(state, index, bounds=bounds, rules=rules)
        if host.role != FOLLOWER:
            yield from learn_outcome(state, index, rules)


# --- the store ----------------------------------------------------------------------------------------


def apply(state: State, rules: Rules) -> Steps:
    for record in state.requests:
        lives = tuple(state.hosts[index].life for index, _ in record.members)
        is_stale = record.is_active and lives != tuple(life for _, life in record.members)
        if is_stale and rules.life_counts and rules.change_guards_lives:
            rest = tuple(other for other in state.requests if other != record)
            yield ("refuse", record.primary, record.epoch), state._replace(requests=rest)
            continue
        after = state._replace(record=record, requests=(), wrong="I14 a stale identity" if is_stale else "")
        if record.is_active:
            after = after._replace(outcomes=tuple(sorted((*state.outcomes, record))))
        else:
            after = after._replace(calls=tuple(sorted((*state.calls, record))))
        yield ("apply", *_words(record)), tidy(after)


def _words(record: Record) -> tuple[int, int, tuple[int, ...]]:
    return record.primary, record.epoch, tuple(index for index, _ in record.members) if record.is_active else ()


def with_request(state: State, record: Record, bounds: Bounds) -> State | None:
    if record in state.requests or len(state.requests) >= bounds.requests:
        return None
    return state._replace(requests=tuple(sorted((*state.requests, record))))


def learn_outcome(state: State, index: int, rules: Rules) -> Steps:
    host = state.hosts[index]
    is_moved = (state.record.epoch, state.record.is_active) != (host.epoch, host.role == PRIMARY)
    mine = {record for record in (*state.outcomes, state.record) if is_wanted(record, index, host)}
    for record in sorted(mine):
        yield ("told", index, record.epoch), installed(state, index, record, rules)
    if is_moved and state.record not in mine:
        yield ("deposed", index, state.record.epoch), tidy(with_host(state, index, demoted(host)))
    is_asked = any(record.is_active and record.primary == index for record in state.requests)
    if not host.is_waiting or is_moved:
        return
    if not is_asked:
        yield ("refused", index, host.epoch), with_host(state, index, host._replace(is_waiting=False))
    elif not rules.unchanged_is_unknown:
        yield ("resumes", index, host.epoch), with_host(state, index, host._replace(is_waiting=False))


def is_wanted(record: Record, index: int, host: Host) -> bool:
    """It is what this leader asked for, or asked for before it was started again."""
    is_next = record.epoch == host.epoch + (host.role == PRIMARY)
    return record.is_active and record.primary == index and is_next


def installed(state: State, index: int, record: Record, rules: Rules) -> State:
    """The host leads by this record from now on."""
    host = state.hosts[index]
    promise = max(host.promise, record.epoch)
    host = host._replace(role=PRIMARY, epoch=record.epoch, promise=promise, members=record.members)
    host = host._replace(start=len(record.sealed), is_waiting=False, has_heard=False, is_frozen=False, damaged=0)
    after = with_host(state, index, host)
    return tidy(after._replace(sent=sent_more(state, host, log=host.log, rules=rules)))


# --- a primary changes its members --------------------------------------------------------------------


def change_members(state: State, index: int, *, bounds: Bounds, rules: Rules) -> Steps:
    """It makes no frame from here to the outcome, so all of the new set have its end, which becomes the seal."""
    host = state.hosts[index]
    if host.epoch >= bounds.epochs or host.log != host.disk:
        return
    is_level = len(host.log) if rules.learner_is_level else -1
    for members in sets(state, index, bounds=bounds, level=is_level, rules=rules):
        if members == host.members:
            continue
        epoch = host.epoch + 1
        record = Record(epoch, is_active=True, primary=index, members=members, opened=epoch, sealed=host.log)
        yield from send_change(state, index, record=record, bounds=bounds, rules=rules)


def send_change(state: State, index: int, *, record: Record, bounds: Bounds, rules: Rules) -> Steps:
    host = state.hosts[index]
    if (state.record.epoch, state.record.is_active) != (host.epoch, host.role == PRIMARY):
        return  # the record has moved on: it would be refused, and then read, which is a step already
    after = with_request(state, record, bounds)
    if after is None:
        return
    label = ("request", *_words(record))
    if not rules.awaits_outcome:
        yield label, installed(after, index, record, rules)
        return
    yield label, with_host(after, index, host._replace(is_waiting=True))


def sets(state: State, index: int, *, bounds: Bounds, level: int, rules: Rules) -> Iterator[tuple[Member, ...]]:
    """Sets of members with this leader in which everybody is known to have the log up to `level`."""
    leader = state.hosts[index]
    others: list[Member] = []
    for number, host in enumerate(state.hosts):
        if number == index:
            continue
        known = [(number, life) for life in range(host.life + 1)]
        others += [member for member in known if has_level(state, leader, member, rules) >= level]
    least = bounds.min_members - 1 if rules.enough_members else 0
    for size in range(least, len(others) + 1):
        for chosen in combinations(others, size):
            if len({number for number, _ in chosen}) == size:
                yield tuple(sorted(((index, leader.life), *chosen)))


# --- fail-over ----------------------------------------------------------------------------------------


def suspect(state: State, bounds: Bounds, rules: Rules) -> Steps:
    """A manager asks for a candidate: rightly or not, and whoever looks alive to it."""
    record = state.record
    if record.epoch >= bounds.epochs:
        return
    for index, host in enumerate(state.hosts):
        is_member = (index, host.life) in record.members
        if rules.candidate_is_member and not (is_member if rules.life_counts else _is_named(record, index)):
            continue
        wanted = record._replace(epoch=record.epoch + 1, is_active=False, primary=index)
        after = with_request(state, wanted, bounds)
        if after is not None:
            yield ("suspect", index, wanted.epoch), after


def _is_named(record: Record, index: int) -> bool:
    return any(number == index for number, _ in record.members)


def become_candidate(state: State, index: int, rules: Rules) -> Steps:
    """The promise is persisted first. From here on nothing more can be committed in the epochs below."""
    host = state.hosts[index]
    for record in state.calls:
        if record.primary != index:
            continue
        if host.promise > record.epoch or (rules.candidate_once and host.promise == record.epoch):
            continue
        if host.role != FOLLOWER and host.epoch == record.epoch:
            continue
        looks = rules.candidate_knows_itself and rules.life_counts and rules.candidate_is_member
        if looks and (index, host.life) not in record.members:
            continue
        log = readable(host.log, record, rules)
        if log is None:
            continue
        fresh = demoted(host)._replace(promise=record.epoch, role=CANDIDATE, epoch=record.epoch, log=log)
        fresh = fresh._replace(members=record.members, start=len(record.sealed))
        calls = state.calls
        if rules.candidate_once:
            calls = tuple(other for other in calls if other != record)
        after = with_host(state, index, fresh)._replace(calls=calls)
        yield ("candidate", index, record.epoch, len(log)), tidy(after)


def readable(log: Log, record: Record, rules: Rules) -> Log | None:
    """The part of a log that can count: what is sealed, then frames of the open range. None: it is damaged."""
    start = len(record.sealed)
    if rules.start_is_checked and log[:start] != record.sealed:
        return None
    end = start
    while end < len(log) and (log[end] == record.opened or not rules.counts_open_epoch):
        end += 1
    return log[:end]


def ask_others(state: State, index: int, rules: Rules) -> Steps:
    """Fence: the other promises too, and says what it has. A longer log of the last configuration is taken."""
    host = state.hosts[index]
    for number, other in enumerate(state.hosts):
        if number == index or other.promise > host.epoch:
            continue
        fenced = state
        if other.promise < host.epoch or other.role != FOLLOWER:
            fenced = tidy(with_host(state, number, demoted(other)._replace(promise=host.epoch)))
            yield ("fence", number, host.epoch), fenced
        if (number, other.life) not in host.members:
            continue
        may_take = not (host.is_frozen and rules.candidate_is_frozen)
        takes = may_take and len(other.disk) > len(host.log) and other.disk[: len(host.log)] == host.log
        if takes or (host.damaged and not host.has_heard):
            log = other.disk if takes else host.log
            after = with_host(fenced, index, fenced.hosts[index]._replace(log=log, has_heard=True))
            yield ("answer", index, number, len(log)), after


def freeze(state: State, index: int, rules: Rules) -> Steps:
    """The candidate sends its log to others; from now on it stays as it is."""
    host = state.hosts[index]
    if host.log != host.disk or (host.damaged and not host.has_heard and rules.damage_asks):
        return
    frozen = host._replace(start=len(host.log), is_frozen=True)
    if frozen == host:
        return
    sent = sent_more(state, frozen, log=host.log, rules=rules)
    yield ("freeze", index, host.epoch, len(host.log)), with_host(state, index, frozen)._replace(sent=sent)


def activate(state: State, index: int, *, bounds: Bounds, rules: Rules) -> Steps:
    host = state.hosts[index]
    if not host.is_frozen or host.start != len(host.disk):
        return
    for members in sets(state, index, bounds=bounds, level=len(host.log), rules=rules):
        record = Record(host.epoch, is_active=True, primary=index, members=members, opened=host.epoch, sealed=host.log)
        yield from send_change(state, index, record=record, bounds=bounds, rules=rules)
