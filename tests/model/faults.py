"""Steps of misfortune: power cuts, wiped disks, damaged tails."""

from tests.model.state import FOLLOWER, Bounds, Host, Rules, State, demoted, with_host
from tests.model.writing import Steps, tidy


def steps(state: State, bounds: Bounds, rules: Rules) -> Steps:
    for index, host in enumerate(state.hosts):
        if state.crashes < bounds.crashes:
            yield from crash(state, index, rules)
        if state.wipes < bounds.wipes:
            wiped = Host(life=host.life + 1, promise=0, acks=host.acks)
            yield ("wipe", index, wiped.life), tidy(with_host(state, index, wiped)._replace(wipes=state.wipes + 1))
        if state.rots < bounds.rots and host.disk:
            yield ("rot", index, len(host.disk)), tidy(rotten(state, index))


def crash(state: State, index: int, rules: Rules) -> Steps:
    host = state.hosts[index]
    after = demoted(host)._replace(log=host.disk) if host.role != FOLLOWER or host.log != host.disk else host
    if not rules.promise_survives:
        after = after._replace(promise=0)
    if not rules.damage_is_remembered:
        after = after._replace(damaged=0)
    state = state._replace(crashes=state.crashes + 1)
    if after != host:
        yield ("crash", index, len(after.log)), tidy(with_host(state, index, after))
    if not rules.cuts_only_conflicts:
        for mark in range(min(len(after.disk), len(state.acknowledged))):
            cut = after._replace(log=after.disk[:mark], disk=after.disk[:mark])
            yield ("cut", index, mark), tidy(with_host(state, index, cut))


def rotten(state: State, index: int) -> State:
    """The last frame cannot be read when the host starts: a torn write, or one that was acknowledged."""
    host = state.hosts[index]
    disk = host.disk[:-1]
    after = demoted(host)._replace(log=disk, disk=disk, damaged=host.promise)
    return with_host(state, index, after)._replace(rots=state.rots + 1)
