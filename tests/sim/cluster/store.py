"""The coordination store as hosts meet it: slow, away, of unknown outcome, restored from a backup.

A call has three ends: an answer, or UNKNOWN after its time is over. Unknown may mean that the request was lost, that
the reply was, or that it is carried out later than anybody waits for. What happens to records:
core/coordination/store.py.
"""

import copy
from collections.abc import Callable
from typing import Any, Final, Protocol

from holdfast.core.coordination.asking import Outcome
from holdfast.core.coordination.store import (
    Changes,
    Compacted,
    Event,
    Lease,
    LeaseGone,
    LeaseId,
    Put,
    State,
    Transaction,
)
from tests.sim.cluster.plan import StoreWeather
from tests.sim.cluster.wire import Wire
from tests.sim.world import MS, SECOND, World

STORE: Final = "store"
TIMEOUT: Final = SECOND
WATCH: Final = (5 * MS, 20 * MS)  # a watch tells what is new within so long,
LOOK_AGAIN: Final = 250 * MS  # and looks again after this, in case it was cut off
LATE: Final = (500 * MS, 6 * SECOND)
METADATA: Final = 300  # revisions between a backup and its return, at least


class Unknown:
    """The outcome of a call that was not answered in time."""

    def __repr__(self) -> str:
        return "unknown"


UNKNOWN: Final = Unknown()


def outcome_of(answer: Any) -> Outcome:
    if answer is UNKNOWN:
        return Outcome.UNKNOWN
    return Outcome.DONE if answer else Outcome.REFUSED


class Observer(Protocol):
    """Sees what really happens in the store, at once."""

    def stored(self, before: dict[str, Any], events: tuple[Event, ...]) -> None: ...


class Store:
    """The service. `state` is the truth."""

    def __init__(self, world: World, wire: Wire, weather: StoreWeather) -> None:
        self.world = world
        self.wire = wire
        self.weather = weather
        self.state = State()
        self.observer: Observer | None = None
        self.away_until = 0
        self.slow_until = 0
        self.is_healed = False
        self.backup: State | None = None
        self.lost: State | None = None  # what was there before the backup came back, until that is set right
        self.calls = 0
        self.restores = 0
        self.id = 1  # as etcd's cluster id: another one after a backup came back
        self.watches: list[Watch] = []
        self._expire_now_and_then()

    @property
    def is_away(self) -> bool:
        return self.world.now < self.away_until

    def apply(self, name: str, args: tuple[Any, ...]) -> Any:
        """What the call does, now."""
        self.expire()
        revision = self.state.revision
        answer = self._apply(name, args)
        if self.state.revision != revision:
            self._announce()
        return answer

    def _apply(self, name: str, args: tuple[Any, ...]) -> Any:
        state, now = self.state, self.world.now
        if name == "transact":
            before = {each.key: state.get(each.key) for each in args[0].writes}
            revision = state.revision
            try:
                is_done = state.transact(args[0])
            except LeaseGone:
                return False
            if self.observer is not None and state.revision > revision and self.lost is None:
                self.observer.stored(before, state.changes("", revision).events)
            return is_done
        if name == "get":
            return state.get(args[0]), state.revision
        if name == "range":
            return state.range(args[0])
        if name == "grant":
            return state.grant(args[0], now)
        assert name == "renew", name
        return state.renew(args[0], now)

    def expire(self) -> None:
        revision = self.state.revision
        self.state.expire(self.world.now)
        if self.state.revision != revision:
            self._announce()

    def _expire_now_and_then(self) -> None:
        self.expire()
        self.world.after(self.world.lazily(LOOK_AGAIN), self._expire_now_and_then)

    def stretch_leases(self, life_us: int) -> None:
        """All are this long from now on, whatever was asked for."""
        leases = self.state._leases
        for lease in leases:
            leases[lease] = Lease(lease, life_us, self.world.now + life_us)

    def _announce(self) -> None:
        """Watchers of processes that are gone are forgotten, the others look soon."""
        self.watches = [watch for watch in self.watches if watch.look_soon()]

    # Faults

    def save(self) -> None:
        """A backup. From now on others write much, as the metadata of queues and users is."""
        self.backup = copy.deepcopy(self.state)
        self._write_until(self.state.revision + METADATA)

    def _write_until(self, revision: int) -> None:
        while self.state.revision <= revision:
            self._apply("transact", (Transaction((), (Put("metadata", b""),)),))
        self._announce()

    def restore(self) -> None:
        """An old backup is brought back, by somebody who does not know how old it is."""
        assert self.backup is not None
        self.lost, self.state = self.state, copy.deepcopy(self.backup)
        self.state._last_lease = self.lost._last_lease  # no lease has the name of another
        self.restores += 1
        self.id += 1
        self._announce()

    def set_right(self) -> None:
        """An operator writes back what hosts know, and goes beyond every revision that anybody has seen."""
        assert self.lost is not None
        for prefix in ("shards/", "disks/", "assignments/", "losses/", "queue/", "lanes/", "counter/"):
            for record in self.lost.range(prefix).records:
                self._apply("transact", (Transaction((), (Put(record.key, record.value),)),))
        self._write_until(self.lost.revision)
        self.lost = None
        self.id -= 1

    def heal(self) -> None:
        self.is_healed = True
        self.away_until = self.slow_until = 0

    def expose(self) -> None:
        """Faults may befall it again."""
        self.is_healed = False


class StoreClient:
    """One machine's way to the store. `after` runs actions in the life of the process that asks."""

    def __init__(self, name: str, store: Store, after: Callable[..., None]) -> None:
        self.name = name
        self._store = store
        self._world = store.world
        self._after = after

    def transact(self, transaction: Transaction, on_answer: Callable[[Any], None]) -> None:
        """True, False, or UNKNOWN."""
        self._call("transact", (transaction,), on_answer)

    def get(self, key: str, on_answer: Callable[[Any], None]) -> None:
        self._call("get", (key,), on_answer)

    def range(self, prefix: str, on_answer: Callable[[Any], None]) -> None:
        self._call("range", (prefix,), on_answer)

    def grant(self, life_us: int, on_answer: Callable[[Any], None]) -> None:
        self._call("grant", (life_us,), on_answer)

    def renew(self, lease: LeaseId, on_answer: Callable[[Any], None]) -> None:
        self._call("renew", (lease,), on_answer)

    def _call(self, name: str, args: tuple[Any, ...], on_answer: Callable[[Any], None]) -> None:
        call = _Call(self, name, args, on_answer)
        self._store.calls += 1
        self._after(TIMEOUT, call.end, UNKNOWN)
        call.depart(self._store, self._world)


class _Call:
    __slots__ = ("args", "client", "is_over", "name", "on_answer")

    def __init__(self, client: StoreClient, name: str, args: tuple[Any, ...], on_answer: Callable[[Any], None]) -> None:
        self.client, self.name, self.args, self.on_answer = client, name, args, on_answer
        self.is_over = False

    def depart(self, store: Store, world: World) -> None:
        weather = store.weather
        way = _way(store, world)
        if not store.is_healed:
            if world.chance(weather.request_lost):
                world.fault("store request lost")
                return
            if self.name == "transact" and world.chance(weather.applied_late):
                world.fault("store applied late")
                way += world.between(*LATE)
        if not store.wire.is_cut(self.client.name, STORE):
            world.after(way, self.arrive, store, world)

    def arrive(self, store: Store, world: World) -> None:
        if store.is_away:
            return
        answer = store.apply(self.name, self.args)
        if not store.is_healed and world.chance(store.weather.reply_lost):
            world.fault("store reply lost")
            return
        if not store.wire.is_cut(STORE, self.client.name):
            self.client._after(_way(store, world), self.end, answer)

    def end(self, answer: Any) -> None:
        if not self.is_over:
            self.is_over = True
            self.on_answer(answer)


def _way(store: Store, world: World) -> int:
    latency = store.weather.latency_us * (40 if world.now < store.slow_until else 1)
    return world.between(latency // 4, latency * 3 // 4)


class Watch:
    """Tells one process of changes under a prefix, in order, some time after they happened."""

    def __init__(
        self,
        client: StoreClient,
        prefix: str,
        *,
        on_event: Callable[[Event], None],
        on_revision: Callable[[int], None],
        on_restored: Callable[[], None] | None = None,
        after: int = 0,
        is_alive: Callable[[], bool] = lambda: True,
    ) -> None:
        self._client = client
        self._store = client._store
        self._prefix = prefix
        self._on_event = on_event
        self._on_revision = on_revision
        self._on_restored = on_restored
        self._seen = after
        self._is_alive = is_alive
        self._is_due = False
        self._store.watches.append(self)
        self._go_on()

    def look_soon(self) -> bool:
        """False: its process is gone."""
        if self._is_alive() and not self._is_due:
            self._is_due = True
            self._client._after(self._client._world.between(*WATCH), self._look)
        return self._is_alive()

    def _go_on(self) -> None:
        self._look()
        self._client._after(self._store.world.lazily(LOOK_AGAIN), self._go_on)

    def _look(self) -> None:
        self._is_due = False
        store = self._store
        wire, name = store.wire, self._client.name
        is_reached = not (store.is_away or wire.is_cut(STORE, name) or wire.is_cut(name, STORE))
        if is_reached and store.state.revision != self._seen:
            self._tell(store)

    def _tell(self, store: Store) -> None:
        state = store.state
        if state.revision < self._seen and self._on_restored is not None:
            self._seen = state.revision
            self._on_restored()
            return
        if state.revision < self._seen:  # restored: everything is read again
            changes = _as_changes(state, self._prefix)
        else:
            try:
                changes = state.changes(self._prefix, self._seen)
            except Compacted:
                changes = _as_changes(state, self._prefix)
        self._seen = changes.revision
        self._on_revision(changes.revision)
        for event in changes.events:
            self._on_event(event)


def _as_changes(state: State, prefix: str) -> Changes:
    found = state.range(prefix)
    return Changes(tuple(Event(each.revision, each.key, each) for each in found.records), found.revision)
