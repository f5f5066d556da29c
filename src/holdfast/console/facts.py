"""The answers of the admin API; openapi.py describes them from here."""

import msgspec


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
    sent: int = 0
    received: int = 0
    deleted: int = 0
    empty_receives: int = 0
    sent_bytes: int = 0


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
