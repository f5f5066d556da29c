"""Who the demo's accounts are, and what happens to them.

    shop        orders (FIFO), e-mails, thumbnails: a working day
    payments    one cause of dead letters that was always there, and from 10:20 a new one that does not stop
    analytics   a batch job at 14:00 that takes most of the two nodes: the noisy neighbour
    fleet       thousands of devices; commands are polled without waiting, so nearly every receive is empty

From 09:20 to 09:55 node-b is slow and fails half of its calls to the queues that it leads; then it is restarted, which
is a new epoch.
"""

from typing import NamedTuple

NODES = ("node-a", "node-b")
OUTAGE = (9 * 60 + 20, 9 * 60 + 55)  # minutes of the day, on the second node
OUTAGE_FAILS = 0.5
NEW_CAUSE_FROM = 10 * 60 + 20
NOISE = (14 * 60, 15 * 60 + 10)
NOISE_FACTOR = 40

SHOP, PAYMENTS, ANALYTICS, FLEET = "410000000001", "420000000002", "430000000003", "440000000004"
NAMES = {SHOP: "shop", PAYMENTS: "payments", ANALYTICS: "analytics", FLEET: "fleet"}
REDRIVE = 650  # the minute of the day at which the dead letters of the new cause are sent back to their queue

OFFICE, FLAT, EVENING = "office", "flat", "evening"


class Queue(NamedTuple):
    account: str
    name: str
    per_minute: int  # messages sent at the busiest time
    shape: str
    size: int  # bytes of a message
    batch: int = 1  # messages per call
    capacity: float = 1.5  # what consumers can take, as a multiple of per_minute
    polls: int = 3  # receives per minute that find nothing, when there is nothing to wait for
    dies: float = 0.0  # share of messages that end in the dead-letter queue
    dead_letter_queue: str = ""
    messages_max: int = 0
    is_noisy: bool = False
    has_new_cause: bool = False
    expires: float = 0.0  # share of messages that nobody fetches in time
    tags: str = ""  # as JSON

    @property
    def type(self) -> str:
        return "fifo" if self.name.endswith(".fifo") else "standard"


QUEUES = (
    Queue(SHOP, "orders.fifo", 8_400, OFFICE, 1800, tags='{"team":"checkout"}'),
    Queue(SHOP, "emails", 18_000, OFFICE, 6000, batch=10, tags='{"team":"growth"}'),
    Queue(SHOP, "thumbnails", 6_000, EVENING, 90_000, capacity=0.6, messages_max=1_000_000, tags='{"team":"media"}'),
    Queue(
        PAYMENTS,
        "charges.fifo",
        4_800,
        OFFICE,
        2400,
        dies=2e-4,
        dead_letter_queue="charges-dead.fifo",
        has_new_cause=True,
    ),
    Queue(PAYMENTS, "receipts", 4_800, OFFICE, 700, dies=1e-4, dead_letter_queue="receipts-dead"),
    Queue(ANALYTICS, "events", 18_000, FLAT, 3200, batch=10, capacity=60, is_noisy=True),
    Queue(ANALYTICS, "exports", 240, FLAT, 200_000),
    Queue(FLEET, "telemetry", 52_000, FLAT, 900, batch=10),
    Queue(FLEET, "commands", 80, FLAT, 400, polls=38_000, expires=0.03),
)
DEAD_LETTER_QUEUES = tuple((queue.account, queue.dead_letter_queue) for queue in QUEUES if queue.dead_letter_queue)

OLD_REASONS = (
    "card declined: insufficient funds for charge {n}",
    "no customer with id '{n}'",
)
NEW_REASON = "TimeoutError: processor gateway-2 did not answer within 30000 ms (charge {n})"


class Act(NamedTuple):
    """A management action: who did what, at which minute."""

    minute: int
    account: str
    user: str
    action: str
    queue: str
    error_code: str = ""
    source_ip: str = "10.1.4.20"


ACTS = (
    Act(372, SHOP, "deployer", "CreateQueue", "thumbnails"),
    Act(373, SHOP, "deployer", "SetQueueAttributes", "thumbnails"),
    Act(374, SHOP, "deployer", "TagQueue", "thumbnails"),
    Act(498, FLEET, "deployer", "SetQueueAttributes", "commands"),
    Act(577, PAYMENTS, "ana", "GetQueueAttributes", "charges.fifo", source_ip="10.1.7.5"),
    Act(581, PAYMENTS, "ana", "ListDeadLetterSourceQueues", "charges-dead.fifo", source_ip="10.1.7.5"),
    Act(640, PAYMENTS, "ana", "StartMessageMoveTask", "charges-dead.fifo", "AccessDeniedException", "10.1.7.5"),
    Act(644, PAYMENTS, "root", "AddPermission", "charges-dead.fifo", source_ip="10.1.7.5"),
    Act(651, PAYMENTS, "ana", "StartMessageMoveTask", "charges-dead.fifo", source_ip="10.1.7.5"),
    Act(797, ANALYTICS, "batch", "CreateQueue", "exports"),
    Act(835, ANALYTICS, "batch", "SetQueueAttributes", "events"),
    Act(912, SHOP, "intern", "PurgeQueue", "orders.fifo", "AccessDeniedException", "10.1.9.44"),
    Act(913, SHOP, "intern", "DeleteQueue", "orders.fifo", "AccessDeniedException", "10.1.9.44"),
    Act(914, SHOP, "intern", "DeleteQueue", "orders.fifo", "AccessDeniedException", "10.1.9.44"),
    Act(1003, FLEET, "deployer", "RemovePermission", "telemetry"),
    Act(1204, SHOP, "deployer", "TagQueue", "emails"),
)
