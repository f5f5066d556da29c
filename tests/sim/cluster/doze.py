"""Hours in which nothing happens, for little: hosts go on as always, and say so less often.

A cluster without clients and without faults makes three hundred events in a second, nearly all of them to say that
nothing has changed. While it dozes all that is done at intervals is done every half minute at most, and whoever waits
for it is as patient; it is the same code with other limits. Leases of messages, retention, deduplication and
everything else that queues promise take the time that they take.

Nobody is hurt in a doze: faults begin when everybody is awake again, with the real limits.
"""

from typing import TYPE_CHECKING, Final

from holdfast.core import limits
from tests.sim.cluster.steward import LEASE
from tests.sim.plan import shrunk
from tests.sim.world import LAZY_MAX, SECOND

if TYPE_CHECKING:
    from tests.sim.cluster.cluster import Cluster

SLOWER: Final = 200
INTERVALS: Final = ("REPLICA_BEAT", "THINK_INTERVAL", "TICK_INTERVAL")
PATIENCES: Final = (
    "NOT_LEADING_PATIENCE",
    "REPLICA_PATIENCE",
    "RESIGN_AFTER",
    "STALL_PATIENCE",
    "SUSPECT_AFTER",
    "SUSPECT_AFTER_MAX",
    "UNSURE_AFTER",
)
WAKING: Final = LAZY_MAX + 2 * SECOND  # whatever was put off until later has happened by then


def doze(cluster: "Cluster", until: int) -> None:
    """Who is patient may be slow; who was slow has to be quick for a while before anybody is impatient again."""
    world, store = cluster.world, cluster.store
    with shrunk({name: SLOWER * getattr(limits, name) for name in PATIENCES}):
        store.stretch_leases(SLOWER * LEASE)
        world.pace = SLOWER
        with shrunk({name: min(LAZY_MAX, SLOWER * getattr(limits, name)) for name in INTERVALS}):
            world.run(max(world.now, until - WAKING))
        world.pace = 1
        world.run(world.now + WAKING)
        store.stretch_leases(LEASE)
