"""The external manager: how the clusters are, how much new each gets, and which clusters a queue has.

It knows clusters and not their hosts. One of its processes holds the office, a record under a lease; the others wait.

    reports/…  ──▶ sick for a while?  ──▶ standings/…  0: new messages go to the other clusters of their queues
               ──▶ well for longer?   ──▶ standings/…  100
               ──▶ nobody takes new messages of a queue ──▶ spreads/…  one more cluster
               ──▶ emptied                              ──▶ spreads/…  one cluster less

Laws
- Whatever it does is one transaction that checks its own office and the revision of what it changes.
- It moves where new messages go, never a message. A cluster leaves a queue only when it says that nothing is left.
- Going away is quick and coming back slow, so that a cluster that comes and goes stays away.
- A cluster is judged by its own words and by its silence. If all fall silent at once it is the manager that is deaf, or
  the store, and nothing changes.
- Changes of queues are bounded by the desk: a sick cluster with many queues is left by a few at a time.
"""

from collections.abc import Sequence
from typing import TypeVar

import msgspec

from holdfast.core.cluster.membership import Leased, Tick
from holdfast.core.cluster.spread import (
    CLUSTERS,
    REPORTS,
    SPREADS,
    STANDING_FULL,
    STANDINGS,
    ClusterId,
    ClusterRecord,
    ClusterReport,
    Share,
    Spread,
    Standing,
    clusters_for,
    new_spread,
    spread_key,
    utilisation,
)
from holdfast.core.coordination.asking import Desk, Fetch, Fetched, Loaded, Settled, Transact, Watched
from holdfast.core.coordination.sizing import Steady
from holdfast.core.coordination.store import Check, LeaseId, Put, Record, Transaction, Write
from holdfast.core.limits import (
    CLUSTER_FULL_PERMILLE,
    CLUSTER_ROOM_PERMILLE,
    CLUSTER_SICK_AFTER,
    CLUSTER_WELL_AFTER,
    FEDERATION_INTERVAL,
)
from holdfast.core.types import QueueName

K = TypeVar("K")
V = TypeVar("V")

OFFICE = "federation"
SILENT = "nothing was heard of it"
DRAINING = "it is being drained"
Event = Loaded | Watched | Settled | Fetched | Leased | Tick


class Output(msgspec.Struct, frozen=True):
    transacts: Sequence[Transact] = ()
    fetches: Sequence[Fetch] = ()


class Federation:
    def __init__(self, name: str, now: int) -> None:
        self._name = name.encode()
        self._lease = LeaseId(0)
        self._desk = Desk()
        self._think_at = now
        self._term = 0
        self._steady = Steady()
        self._heard: dict[ClusterId, tuple[int, int]] = {}  # number of the last report, when it came
        # what the store says
        self.clusters: dict[ClusterId, ClusterRecord] = {}
        self.reports: dict[ClusterId, ClusterReport] = {}
        self.standings: dict[ClusterId, Standing] = {}
        self.spreads: dict[QueueName, Spread] = {}
        self._office: bytes | None = None
        self._revisions: dict[str, int] = {}
        self._known: dict[str, int] = {}

    @property
    def is_manager(self) -> bool:
        return self._term != 0

    def deadline(self) -> int:
        return self._think_at

    def step(self, event: Event, now: int) -> Output:
        match event:
            case Loaded(snapshot):
                self._forget()
                for record in snapshot.records:
                    self._learn(record.key, record, as_of=snapshot.revision, now=now)
            case Watched(change):
                self._learn(change.key, change.record, as_of=change.revision, now=now)
            case Settled():
                self._desk.settle(event, now)
            case Fetched(_, record, revision):
                key = self._desk.receive(event)
                if key is not None:
                    self._learn(key, record, as_of=revision, now=now)
            case Leased(lease):
                self._lease = lease
            case Tick():
                pass
        if now >= self._think_at:
            self._think_at = now + FEDERATION_INTERVAL
            self._think(now)
        output = Output(self._desk.transacts, self._desk.fetches)
        self._desk.transacts, self._desk.fetches = [], []
        return output

    # what the store says

    def _forget(self) -> None:
        for each in (self.clusters, self.reports, self.standings, self.spreads, self._revisions, self._known):
            each.clear()
        self._office = None

    def _learn(self, key: str, record: Record | None, *, as_of: int, now: int) -> None:
        """For each key the newest wins."""
        if as_of < self._known.get(key, 0):
            return
        self._known[key] = as_of
        _set(self._revisions, key, record.revision if record else None)
        value = record.value if record else None
        if key == OFFICE:
            self._office = value
        elif key.startswith(CLUSTERS):
            _set(self.clusters, ClusterId(key.removeprefix(CLUSTERS)), _decoded(value, ClusterRecord))
        elif key.startswith(REPORTS):
            self._hear(ClusterId(key.removeprefix(REPORTS)), _decoded(value, ClusterReport), now)
        elif key.startswith(STANDINGS):
            _set(self.standings, ClusterId(key.removeprefix(STANDINGS)), _decoded(value, Standing))
        elif key.startswith(SPREADS):
            _, account, name = key.split("/")
            _set(self.spreads, QueueName(account, name), _decoded(value, Spread))

    def _hear(self, cluster: ClusterId, report: ClusterReport | None, now: int) -> None:
        _set(self.reports, cluster, report)
        if report is not None and report.number != self._heard.get(cluster, (0, 0))[0]:
            self._heard[cluster] = (report.number, now)

    def _revision(self, key: str) -> int:
        return self._revisions.get(key, 0)

    def _write(self, key: str, write: Write, now: int) -> None:
        checks = (Check(OFFICE, self._term), Check(key, self._revision(key)))
        self._desk.write(key, Transaction(checks, (write,)), now)

    # thinking

    def _think(self, now: int) -> None:
        self._desk.look_for_answers(now)
        was_manager = self.is_manager
        self._term = self._revision(OFFICE) if self._office == self._name else 0
        if not self.is_manager:
            if self._office is None and self._lease and self._desk.is_free(OFFICE):
                put = Put(OFFICE, self._name, self._lease)
                self._desk.write(OFFICE, Transaction((Check(OFFICE, 0),), (put,)), now)
            return
        if not was_manager:
            # Whatever was heard before, and when, was perhaps not meant for this one: everybody has time to speak.
            self._steady = Steady()
            self._heard = {each: (self._heard.get(each, (0, 0))[0], now) for each in self.clusters}
        self._judge(now)
        for queue in sorted(self.spreads):
            self._tend(queue, now)

    def _judge(self, now: int) -> None:
        self._steady.keep_only([(each, what) for each in self.clusters for what in ("sick", "well")])
        said = {each: self._complaint(each, now) for each in sorted(self.clusters)}
        if said and all(each == SILENT for each in said.values()):
            return
        for cluster, complaint in said.items():
            standing = self.standings.get(cluster, Standing(STANDING_FULL))
            is_well = complaint == ""
            gets = standing.part > 0
            # Silence was waited for already.
            patience = 0 if complaint in (SILENT, DRAINING) else CLUSTER_SICK_AFTER
            falls = self._steady.holds((cluster, "sick"), gets and not is_well, now=now, for_us=patience)
            rises = self._steady.holds((cluster, "well"), is_well and not gets, now=now, for_us=CLUSTER_WELL_AFTER)
            key = STANDINGS + cluster
            if (falls or rises) and self._desk.is_free(key):
                changed = Standing(STANDING_FULL) if rises else Standing(0, complaint)
                self._write(key, Put(key, msgspec.json.encode(changed)), now)

    def _complaint(self, cluster: ClusterId, now: int) -> str:
        """Why it should get nothing new; "": nothing is wrong. One that was full must have room before it is well."""
        report = self.reports.get(cluster)
        _, heard_at = self._heard.setdefault(cluster, (0, now))
        if self.clusters[cluster].is_draining:
            return DRAINING
        if now - heard_at >= CLUSTER_SICK_AFTER:
            return SILENT
        if report is None:
            return ""  # it has just gone, or has just come
        if 2 * report.shards_active < report.shards:
            return "half of its shards are not active"
        gets = self.standings.get(cluster, Standing(STANDING_FULL)).part > 0
        if utilisation(report) >= (CLUSTER_FULL_PERMILLE if gets else CLUSTER_ROOM_PERMILLE):
            return "it is full"
        return ""

    # queues

    def _tend(self, queue: QueueName, now: int) -> None:
        spread, key = self.spreads[queue], spread_key(queue)
        if not self._desk.is_free(key):
            return
        changed = self._without_emptied(queue, spread)
        if not spread.is_pinned and not any(each.weight and self._takes(each.cluster) for each in changed.shares):
            taken = [each.cluster for each in changed.shares]
            more = clusters_for(1, self.clusters, self.reports, standings=self.standings, taken=taken)
            changed = Spread((*changed.shares, *new_spread(more, self.clusters, is_pinned=False).shares))
        if changed != spread:
            self._write(key, Put(key, msgspec.json.encode(changed)), now)

    def _takes(self, cluster: ClusterId) -> bool:
        standing = self.standings.get(cluster, Standing(STANDING_FULL))
        return cluster in self.clusters and standing.part > 0

    def _without_emptied(self, queue: QueueName, spread: Spread) -> Spread:
        """Without clusters that are meant to lose it and say that nothing is left; one always stays."""
        left = tuple(each for each in spread.shares if not self._is_left(queue, each))
        return Spread(left, spread.is_pinned) if left else spread

    def _is_left(self, queue: QueueName, share: Share) -> bool:
        record, report = self.clusters.get(share.cluster), self.reports.get(share.cluster)
        is_leaving = share.weight == 0 or (record is not None and record.is_draining)
        return is_leaving and report is not None and queue in report.emptied


def _set(table: dict[K, V], key: K, value: V | None) -> None:
    if value is None:
        table.pop(key, None)
    else:
        table[key] = value


def _decoded(value: bytes | None, kind: type[V]) -> V | None:
    return msgspec.json.decode(value, type=kind) if value is not None else None
