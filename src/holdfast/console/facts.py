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


NEVER, RUNNING, DONE, FAILED = "never", "running", "done", "failed"


class Damage(msgspec.Struct, frozen=True):
    """Bytes of a file, the first and the one after the last."""

    path: str
    first: int
    last: int
    problem: str


class Scrub(msgspec.Struct, frozen=True):
    """The last one since the server started; times are seconds since 1970."""

    state: str = NEVER  # or running, done, failed
    began: int = 0
    ended: int = 0
    problem: str = ""  # why it failed
    files: int = 0
    is_live: bool = False  # the end of the log, which is being written, was left out
    damaged: list[Damage] = []


class Backup(msgspec.Struct, frozen=True):
    """The last one since the server started; times are seconds since 1970."""

    state: str = NEVER  # or running, done, failed
    began: int = 0
    ended: int = 0
    problem: str = ""  # why it failed
    destination: str = ""
    files: int = 0
    bytes: int = 0
