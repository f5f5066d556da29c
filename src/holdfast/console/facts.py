"""What the admin port knows, and where it gets it. `Sources` is filled by cli/serve.py: the console does not know the
roles. The other structs are the API's answers; openapi.py describes them from here.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

import msgspec

from holdfast.runtime.config.loading import Loaded
from holdfast.runtime.metrics import Meter


class Queue(msgspec.Struct, frozen=True, gc=False):
    """Counts are since the start of the server; ages and numbers of messages are approximate."""

    account: str
    name: str
    shard: int
    lane: int
    visible: int
    not_visible: int
    delayed: int
    bytes: int
    oldest_seconds: int
    sent: int
    received: int
    deleted: int
    empty_receives: int
    sent_bytes: int


class Queues(msgspec.Struct, frozen=True, gc=False):
    """One page; `next` is the `after` of the following one, empty on the last."""

    queues: list[Queue]
    next: str = ""


class Server(msgspec.Struct, frozen=True):
    version: str
    pid: int
    uptime_seconds: int
    data: str
    account: str
    region: str
    is_draining: bool
    queues: int
    connections: int
    long_polls: int


class Setting(msgspec.Struct, frozen=True):
    """`value` as TOML."""

    name: str
    value: str
    origin: str


class Account(msgspec.Struct, frozen=True):
    account: str


class User(msgspec.Struct, frozen=True):
    account: str
    name: str
    arn: str
    policies: list[str]


class Key(msgspec.Struct, frozen=True):
    """Without its secret."""

    id: str
    account: str
    user: str
    is_active: bool
    created: int  # seconds since 1970
    used_day: int  # days since 1970; 0: never


class Drain(msgspec.Struct, frozen=True):
    is_draining: bool


class Duty:
    """Whether load balancers should send work here. Only the answer of /in-service depends on it: whoever still asks is
    served."""

    def __init__(self) -> None:
        self.is_draining = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Sources:
    loaded: Loaded
    data: Path
    meter: Meter
    duty: Duty
    accounts: Callable[[], list[Account]]
    users: Callable[[], list[User]]
    keys: Callable[[], list[Key]]
    queues: Callable[[], Iterable[Queue]]  # one step per queue, so that a long list can be read with pauses
    queue_count: Callable[[], int]
    connections: Callable[[], int]
    long_polls: Callable[[], int]
    usage_trouble: Callable[[], bool]
    usage_dropped: Callable[[], int]
