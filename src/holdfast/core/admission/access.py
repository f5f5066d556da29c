"""What is asked of authorization, and the actions that can be asked for.

Account and principal come from the verified key and from nowhere else. A request without a key has the principal "",
which only a policy for everyone admits.
"""

from typing import Final

from holdfast.core.values import Value

SERVICE: Final = "sqs"

_ACTIONS: Final = (
    "AddPermission CancelMessageMoveTask ChangeMessageVisibility CreateQueue DeleteMessage DeleteQueue "
    "GetQueueAttributes GetQueueUrl ListDeadLetterSourceQueues ListMessageMoveTasks ListQueueTags ListQueues "
    "PurgeQueue ReceiveMessage RemovePermission SendMessage SetQueueAttributes StartMessageMoveTask TagQueue UntagQueue"
).split()
_BATCHED: Final = "ChangeMessageVisibility DeleteMessage SendMessage".split()
_EXTENSIONS: Final = "PeekMessages ReadLog CommitOffset AdminRead AdminChange".split()

# What AddPermission can grant. The rest belongs to the owner's account: no policy gives it to another one.
GRANTABLE: Final = frozenset(
    "ChangeMessageVisibility DeleteMessage GetQueueAttributes GetQueueUrl ListDeadLetterSourceQueues PurgeQueue "
    "ReceiveMessage SendMessage".split()
)

# Names as policies are matched: in lower case, with their service.
BATCHES: Final = {f"sqs:{each}batch".lower(): f"sqs:{each}".lower() for each in _BATCHED}  # they ask for one alone
KNOWN: Final = (
    *(f"sqs:{each}".lower() for each in _ACTIONS),
    *BATCHES,
    *(f"holdfast:{each}".lower() for each in _EXTENSIONS),
)
OWNER_ONLY: Final = frozenset(f"sqs:{each}".lower() for each in _ACTIONS if each not in GRANTABLE)
QUEUE_ACTIONS: Final = tuple(_ACTIONS)


class Access(Value, frozen=True):
    """One question. Equal questions have equal answers, so it can be the key of a cache; see policy.remember_as."""

    account: str  # of the caller
    principal: str  # the caller's ARN; arn:aws:iam::<account>:root is the account itself
    action: str  # sqs:SendMessage, in any case
    resource: str  # the queue's ARN
    source_ip: str = ""
    secure_transport: bool | None = None  # None: not known, as on a plain listener of the loopback interface
    source_arn: str = ""
    source_account: str = ""
    now_s: int = 0

    @property
    def is_root(self) -> bool:
        return self.principal.endswith(":root") and self.principal == root_of(self.account)


def root_of(account: str) -> str:
    return f"arn:aws:iam::{account}:root"


def owner_of(arn: str) -> str:
    """The account in an ARN; empty when it has none."""
    parts = arn.split(":", 5)
    return parts[4] if len(parts) == 6 else ""
