"""What a host does for the cluster beside its shards: its lease, its heartbeats, its copy of the store, the manager.

The manager runs on every host; which of them acts is decided in the store (core/cluster/office.py).
"""

from functools import partial
from typing import TYPE_CHECKING, Any, Final

from holdfast.core.cluster.arrangement import Settings
from holdfast.core.cluster.membership import Leased, Manager, Output, Thawed, Tick
from holdfast.core.coordination.asking import Loaded, Settled, Watched
from holdfast.core.coordination.cluster import HostRecord, encode, host_key
from holdfast.core.coordination.heartbeat import Heartbeat, audience_of
from holdfast.core.coordination.store import Event, LeaseId, Put, Snapshot, Transaction
from tests.sim.cluster.store import UNKNOWN, Watch, outcome_of
from tests.sim.world import MS, SECOND

if TYPE_CHECKING:
    from tests.sim.cluster.node import NodeProcess

LEASE: Final = 5 * SECOND
RENEW: Final = SECOND
BEAT: Final = 200 * MS
GRACE: Final = 8 * SECOND  # a lost host's replicas are made anew elsewhere; minutes in earnest


class Steward:
    def __init__(self, process: "NodeProcess") -> None:
        assert process.identity is not None
        self.process = process
        self.world = process.world
        self.identity = process.identity
        self._lease = LeaseId(0)
        self._beats = 0
        self._woken_at = -1
        self._is_watching = self._is_thawing = False
        settings = Settings(replicas=3, min_members=2, shards_per_host=0, grace_us=GRACE)
        self.manager = Manager(
            self.identity.host,
            self.identity.boot,
            settings=settings,
            now=self.now(),
            seen_revision=self.identity.revision,
            cluster=self.identity.cluster,
        )

    def now(self) -> int:
        return self.process.node.clock.elapsed()

    def start(self) -> None:
        self._load()
        self._keep_lease()
        self._beat()

    # The lease, and the host's record under it

    def _keep_lease(self) -> None:
        store = self.process.store
        if self._lease:
            store.renew(self._lease, self._renewed)
        else:
            store.grant(LEASE, self._granted)

    def _renewed(self, answer: Any) -> None:
        if answer is False:
            self._lease = LeaseId(0)
            self._keep_lease()
        else:
            self.process.call(self.world.lazily(RENEW), self._keep_lease)

    def _granted(self, answer: Any) -> None:
        if answer is UNKNOWN:
            self._keep_lease()
            return
        self._lease = answer
        self._register()
        self._step(Leased(answer))
        self.process.call(self.world.lazily(RENEW), self._keep_lease)

    def _register(self) -> None:
        record = HostRecord(self.identity.disk, self.identity.boot, address=str(self.identity.host))
        put = Put(host_key(self.identity.host), encode(record), self._lease)
        self.process.store.transact(Transaction((), (put,)), self._registered)

    def _registered(self, answer: Any) -> None:
        if answer is UNKNOWN:
            self._register()

    # Heartbeats

    def _beat(self) -> None:
        manager, identity = self.manager, self.identity
        self._beats += 1
        view = manager.view
        holder = view.manager.host if view.manager is not None else None
        silence = manager.hearing.silence(holder, self.now()) if holder is not None else 0
        beat = Heartbeat(
            identity.host,
            identity.disk,
            identity.life,
            identity.boot,
            self._beats,
            shards=self.process.reports(),
            manager_silence_us=silence,
        )
        for host in audience_of(identity.host, view.hosts, holder):
            self.process.cluster.send(self.process.node, host, "hear_beat", beat)
        self.process.call(self.world.lazily(BEAT), self._beat)

    def hear(self, beat: Heartbeat) -> None:
        self._step(beat)

    # The store

    def _load(self) -> None:
        self.process.store.range("", self._loaded)

    def _loaded(self, answer: Any) -> None:
        if answer is UNKNOWN:
            self._load()
            return
        snapshot: Snapshot = answer
        self._step(Loaded(snapshot))
        view = self.manager.view
        if view.is_loaded:
            self.process.lanes.loaded(snapshot)
        if view.is_frozen:
            self.process.freeze()
        if not self._is_watching and (view.is_loaded or view.is_frozen):
            self._watch(snapshot.revision)
        if view.is_loaded and self._is_thawing:
            self._is_thawing = False
            self.process.thaw()
        if view.is_loaded:
            for record in snapshot.records:
                self.process.changed(record.key)
            if self._lease and self.identity.host not in view.hosts:
                self._register()

    def _watch(self, revision: int) -> None:
        self._is_watching = True
        Watch(
            self.process.store,
            "",
            on_event=self._changed,
            on_revision=lambda _: None,
            on_restored=self._load,
            after=revision,
            is_alive=lambda: self.process.is_alive,
        )

    def thaw(self, revision: int) -> None:
        """An operator has set the store right; it is read anew."""
        self._is_thawing = True
        self._step(Thawed(revision))

    def _changed(self, event: Event) -> None:
        if event.key == host_key(self.identity.host) and event.record is None and self._lease:
            self._register()  # an older registration came late, and its lease has ended since
        self._step(Watched(event))
        self.process.lanes.changed(event)
        self.process.changed(event.key)

    # The manager

    def _step(self, event: Any) -> None:
        self._do(self.manager.step(event, self.now()))
        self._arm()

    def _do(self, output: Output) -> None:
        for note in output.notes:
            self.world.note(f"manager {self.identity.host}: {note.what.value} {note.shard} {note.host} {note.text}")
            self.world.count(f"manager: {note.what.value}")
        for transact in output.transacts:
            self.process.store.transact(transact.transaction, partial(self._settled, transact.token))
        for fetch in output.fetches:
            self.process.fetch(fetch, self._step)
        if output.needs_load:
            self._load()

    def _settled(self, token: int, answer: Any) -> None:
        self._step(Settled(token, outcome_of(answer)))

    def _arm(self) -> None:
        at = max(self.now(), self.manager.deadline())
        if at != self._woken_at:
            self._woken_at = at
            self.process.call(at - self.now(), self._wake, at)

    def _wake(self, at: int) -> None:
        if at == self._woken_at:
            self._woken_at = -1
            self._step(Tick())
