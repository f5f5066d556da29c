"""Steps of the write path (REPLICATION §2): append, deliver, fsync, acknowledge, snapshot.

Delivering a leader's log is one step for a member's append, a learner's copy and what a candidate brings others
to, since the rule is the same: a host takes the next frame it does not have, and cuts what disagrees with the
leader. It cuts only frames of epochs below the message's: those the leader will never have. That is so because a
leader sends its log only when it holds all frames of earlier epochs that it ever will (a candidate freezes its
log before it sends it), so a late message cannot cut what was added since.
"""

from collections.abc import Iterator

from tests.model.state import (
    FOLLOWER,
    PRIMARY,
    Bounds,
    Host,
    Log,
    Record,
    Rules,
    Sent,
    State,
    acked,
    demoted,
    shared,
    with_ack,
    with_host,
)

Label = tuple[str | int | tuple[int, ...], ...]
Steps = Iterator[tuple[Label, State]]


def answers(state: State, bounds: Bounds, rules: Rules) -> Steps:
    """What primaries may tell clients now."""
    for index, host in enumerate(state.hosts):
        if host.role == PRIMARY:
            yield from commit(state, index, bounds=bounds, rules=rules)


def steps(state: State, bounds: Bounds, rules: Rules) -> Steps:
    for index, host in enumerate(state.hosts):
        if host.role == PRIMARY:
            yield from append(state, index, bounds=bounds, rules=rules)
        if host.log != host.disk:
            yield ("fsync", index, len(host.log)), fsynced(state, index)
        yield from deliver(state, index, bounds=bounds, rules=rules)
        if bounds.has_snapshots:
            yield from snapshot(state, index, rules)


def append(state: State, index: int, *, bounds: Bounds, rules: Rules) -> Steps:
    """The frame is sent to everybody while it is still being written here."""
    host = state.hosts[index]
    if len(host.log) >= bounds.lsns or (host.is_waiting and rules.stops_for_change):
        return
    log = (*host.log, host.epoch)
    after = with_host(state, index, host._replace(log=log))
    wrong = _second_writer(state, host.epoch, log)
    yield (
        ("append", index, host.epoch, len(log)),
        after._replace(sent=sent_more(state, host, log=log, rules=rules), wrong=wrong),
    )


def _second_writer(state: State, epoch: int, log: Log) -> str:
    for sent in state.sent:
        if sent.epoch == epoch and (len(sent.log) >= len(log) or sent.log != log[: len(sent.log)]):
            return "I3 two hosts append in one epoch"
    return ""


def sent_more(state: State, host: Host, *, log: Log, rules: Rules) -> tuple[Sent, ...]:
    """A log that continues what was sent before takes its place, since it can be delivered in part."""
    kept = (s for s in state.sent if s.epoch != host.epoch or s.log != log[: len(s.log)] or not rules.cuts_only_older)
    return tuple(sorted({*kept, Sent(host.epoch, host.start, log)}))


def fsynced(state: State, index: int) -> State:
    host = state.hosts[index]
    host = host._replace(disk=host.log)
    if host.role == FOLLOWER:
        for sent in state.sent:
            if sent.epoch == host.promise and sent.log[: len(host.log)] == host.log:
                host = with_ack(host, sent.epoch, len(host.log))
                host = host._replace(damaged=mended(host.damaged, sent, host.disk))
    return with_host(state, index, host)


def deliver(state: State, index: int, *, bounds: Bounds, rules: Rules) -> Steps:
    host = state.hosts[index]
    for sent in state.sent:
        if rules.fences and sent.epoch < host.promise:
            continue
        if host.role != FOLLOWER and host.epoch == sent.epoch:
            continue
        after = received(host, sent, bounds=bounds, rules=rules)
        if after is host:
            continue
        result = with_host(state, index, after)
        yield ("deliver", index, sent.epoch, len(after.log)), tidy(result) if host.role != FOLLOWER else result


def received(host: Host, sent: Sent, *, bounds: Bounds, rules: Rules) -> Host:
    same = shared(host.log, sent.log)
    if max(host.log[same:], default=0) >= sent.epoch and rules.cuts_only_older:
        return host  # it has what came later in that epoch
    log = sent.log[: same + 1]
    disk = host.disk if bounds.has_slow_disks or not rules.ack_after_fsync else log
    damaged = host.damaged if log != disk else mended(host.damaged, sent, log)
    after = demoted(host) if host.role != FOLLOWER and sent.epoch > host.epoch else host
    if (log, disk, damaged) != (host.log, host.disk, host.damaged) or sent.epoch > host.promise:
        promise = max(host.promise, sent.epoch)
        after = after._replace(promise=promise, log=log, disk=disk, damaged=damaged)
    if log == disk or not rules.ack_after_fsync:
        after = with_ack(after, sent.epoch, len(log))
    return after


def mended(damaged: int, sent: Sent, disk: Log) -> int:
    """The mark of a damaged tail goes when all is back on disk that was acknowledged before the damage."""
    return 0 if damaged < sent.epoch and len(disk) >= sent.start else damaged


def commit(state: State, index: int, *, bounds: Bounds, rules: Rules) -> Steps:
    """Clients are answered up to what every member of the leader's configuration has on disk."""
    host = state.hosts[index]
    lsns = sorted(has_level(state, host, member, rules) for member in host.members if member[0] != index)
    if not rules.all_members_commit:
        lsns = lsns[len(lsns) - len(host.members) // 2 :]  # with the primary a majority
    lsn = min([len(host.disk), *lsns])
    log = host.log[:lsn]
    if len(log) <= len(state.acknowledged) and log == state.acknowledged[:lsn]:
        return
    wrong = ""
    if log[: len(state.acknowledged)] != state.acknowledged[:lsn]:
        wrong = "I8 another record was acknowledged at the same place"
    elif holders(state, host, log) < bounds.min_members:
        wrong = "I5 acknowledged with too few copies on disk"
    longest = max(log, state.acknowledged, key=len)
    yield ("commit", index, host.epoch, lsn), state._replace(acknowledged=longest, wrong=wrong)


def has_level(state: State, leader: Host, member: tuple[int, int], rules: Rules) -> int:
    """Up to where the leader knows its log to be on the disk of a member or learner; below 0: not at all."""
    other = state.hosts[member[0]]
    if rules.life_counts:
        lsn = acked(other, life=member[1], epoch=leader.epoch)
    else:
        lsn = max((ack.lsn for ack in other.acks if ack.epoch == leader.epoch), default=-1)
    is_known = leader.role == PRIMARY and member in leader.members  # nobody becomes a member below the start
    return max(lsn, leader.start) if is_known else lsn


def holders(state: State, leader: Host, log: Log) -> int:
    """Members that have these frames on disk, or had until the disk was wiped or damaged."""
    number = 0
    for index, life in leader.members:
        host = state.hosts[index]
        has_lost = host.life != life or host.damaged
        number += bool(has_lost) or host.disk[: len(log)] == log
    return number


def snapshot(state: State, index: int, rules: Rules) -> Steps:
    """Of what is known to be committed; the host may have heard of it late, or not yet, which is no step."""
    host = state.hosts[index]
    end = shared(host.disk, state.acknowledged) if rules.snapshots_committed else len(host.disk)
    whole = host.disk[:end]
    if len(whole) > len(host.snapshot):
        yield ("snapshot", index, len(whole)), with_host(state, index, host._replace(snapshot=whole))


def tidy(state: State) -> State:
    """Forgets facts that can have no effect any more: two states that differ in them alone are the same."""
    led = [host.epoch for host in state.hosts if host.role != FOLLOWER]
    hosts = state.hosts
    if any(ack.epoch not in led for host in hosts for ack in host.acks):
        hosts = tuple(h._replace(acks=tuple(a for a in h.acks if a.epoch in led)) for h in hosts)
    outcomes = tuple(record for record in state.outcomes if _is_awaited(record, hosts[record.primary]))
    return state._replace(hosts=hosts, outcomes=outcomes)


def _is_awaited(record: Record, host: Host) -> bool:
    return host.is_waiting and record.epoch == host.epoch + (host.role == PRIMARY)
