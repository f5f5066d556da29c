"""What must hold in every state, and from each state to the next. A sentence says what does not; empty is well."""

from tests.model.state import PRIMARY, Record, State, served


def violation(before: State, after: State) -> str:
    if after.wrong:
        return after.wrong
    if after.record is not before.record or after.acknowledged is not before.acknowledged:
        said = lost(after) or seal_changed(before.record, after.record)
        if said:
            return said
    return primary_lacks(after) or unfit(after) or promise_fell(before, after)


def lost(state: State) -> str:
    """By the record alone: nobody who follows it will ever serve what was acknowledged."""
    told, sealed = state.acknowledged, state.record.sealed
    if told[: len(sealed)] != sealed[: len(told)]:
        return "I8 the range was sealed without an acknowledged record"
    if any(epoch < state.record.opened for epoch in told[len(sealed) :]):
        return "I7 a record beyond the seal was acknowledged"
    return ""


def seal_changed(before: Record, after: Record) -> str:
    if after.sealed[: len(before.sealed)] != before.sealed:
        return "I7 a seal has changed"
    return ""


def primary_lacks(state: State) -> str:
    leader = state.hosts[state.record.primary]
    is_leading = state.record.is_active and leader.role == PRIMARY and leader.epoch == state.record.epoch
    if is_leading and served(leader)[: len(state.acknowledged)] != state.acknowledged:
        return "I8 the primary lacks an acknowledged record"
    return ""


def unfit(state: State) -> str:
    """The members that the record names are what they have to be."""
    record = state.record
    if not record.is_active:
        return ""
    for index, life in record.members:
        host = state.hosts[index]
        if host.life == life and not host.damaged and host.disk[: len(record.sealed)] != record.sealed:
            return "I5 a member does not have what its configuration starts with"
    return ""


def promise_fell(before: State, after: State) -> str:
    for old, new in zip(before.hosts, after.hosts, strict=True):
        if old is not new and new.life == old.life and new.promise < old.promise:
            return "I4 a promise was forgotten"
    return ""


def loss(_before: State, after: State) -> str:
    """Only the last consequence: an acknowledged record is sealed away, or whoever serves lacks it."""
    return lost(after) or primary_lacks(after)
