"""Everything that can be set, section by section. The file names them [section] key, the environment
HOLDFAST__SECTION__KEY; some have a flag of `holdfast serve`.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, TypeVar

from holdfast.core.admission.bucket import Rate
from holdfast.runtime.config import kinds
from holdfast.runtime.config.declared import PAIRS, SECTION, DeclaredQueue, Pairs
from holdfast.runtime.config.kinds import Address, Kind, Network

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Setting:
    """One row: its name, what it may be, what it is when nobody says anything, and what it does."""

    section: str
    key: str
    kind: Kind[Any]
    default: Any
    explanation: str
    flag: str  # empty: none
    is_hidden: bool  # for developers; not in the example file

    @property
    def name(self) -> str:
        return f"{self.section}.{self.key}"

    @property
    def variable(self) -> str:
        return f"HOLDFAST__{self.section}__{self.key}".upper()


def _set(default: T, kind: Kind[T], explanation: str, *, flag: str = "", is_hidden: bool = False) -> T:
    """A field of a section. Typed as its default, as `dataclasses.field` is."""
    about = {"kind": kind, "explanation": explanation, "flag": flag, "is_hidden": is_hidden}
    made: T = field(default=default, metadata=about)
    return made


@dataclass(frozen=True, slots=True)
class Server:
    data: Path = _set(Path("data"), kinds.PATH, "Folder for messages, keys and the catalogue of queues.", flag="--data")
    listen: Address = _set(
        Address("127.0.0.1", 9324),
        kinds.ADDRESS,
        "Where SQS is served; port 0 lets the system choose.",
        flag="--listen",
    )
    account: str = _set(
        "000000000000",
        kinds.ACCOUNT,
        "The account that the first start makes, and whose queues these are.",
        flag="--account",
    )
    region: str = _set("us-east-1", kinds.REGION, "What ARNs say. Requests may be signed for any.", flag="--region")
    relaxed: bool = _set(
        False,
        kinds.FLAG,
        "Without AWS's 60-second rules and lower bounds, for tests and development.",
        flag="--relaxed/--strict",
    )
    ephemeral: bool = _set(
        False,
        kinds.FLAG,
        "Temporary data, removed at the end, and relaxed unless that is set. For test suites.",
        flag="--ephemeral",
    )
    ready_file: Path | None = _set(
        None,
        kinds.optional(kinds.PATH),
        "Written when requests are accepted: the endpoint and the admin URL.",
        flag="--ready-file",
    )
    workers: int = _set(
        1, kinds.integer(1, 64), "Processes that share the port, for more cores: docs/OPERATING.md.", flag="--workers"
    )
    shards: int = _set(1, kinds.integer(1, 64), "Logs on this host.", flag="--shards", is_hidden=True)


@dataclass(frozen=True, slots=True)
class Admin:
    listen: Address | None = _set(
        None,
        kinds.optional(kinds.ADDRESS),
        "Where health, metrics and the admin API are served. None: 127.0.0.1, on the port after that of server.listen.",
        flag="--admin-listen",
    )
    backups: Path | None = _set(
        None,
        kinds.optional(kinds.PATH),
        "Where the admin API puts backups, which hold the master key. None: it makes none.",
        flag="--backups",
    )


@dataclass(frozen=True, slots=True)
class Auth:
    enabled: bool = _set(
        True,
        kinds.FLAG,
        "Whether signatures and policies are checked. Off: on a loopback address only.",
        flag="--auth/--no-auth",
    )
    open_anywhere: bool = _set(
        False, kinds.FLAG, "Without authentication also on addresses that others can reach.", flag="--no-auth-anywhere"
    )


@dataclass(frozen=True, slots=True)
class Tls:
    certificate: Path | None = _set(
        None,
        kinds.optional(kinds.PATH),
        "A PEM file with the certificate and what leads to its CA. Both ports speak TLS then. SIGHUP reads it again.",
        flag="--tls-certificate",
    )
    key: Path | None = _set(
        None, kinds.optional(kinds.PATH), "Its private key, a PEM file without a password.", flag="--tls-key"
    )
    authority: Path | None = _set(
        None,
        kinds.optional(kinds.PATH),
        "A CA of your own, for `holdfast env` to tell clients (AWS_CA_BUNDLE). None: one that clients know.",
        flag="--tls-authority",
    )


@dataclass(frozen=True, slots=True)
class Proxy:
    advertised_url: str | None = _set(
        None,
        kinds.optional(kinds.URL),
        "What QueueUrls begin with. None: the Host that the request came to.",
        flag="--advertised-url",
    )
    trusted: tuple[Network, ...] = _set(
        (), kinds.NETWORKS, "Proxies whose X-Forwarded-For, -Host and -Proto are believed.", flag="--trusted-proxy"
    )


@dataclass(frozen=True, slots=True)
class Limits:
    account: Rate | None = _set(None, kinds.optional(kinds.RATE), "Requests of one account.", flag="--limit account=")
    queue: Rate | None = _set(None, kinds.optional(kinds.RATE), "Requests to one queue.", flag="--limit queue=")
    action: Rate | None = _set(
        None, kinds.optional(kinds.RATE), "Requests of one account for one action.", flag="--limit action="
    )
    connections_per_address: int | None = _set(
        None,
        kinds.optional(kinds.integer(1, 20_000)),
        "Connections of one client address. None: 1000, and from loopback addresses as many as there are.",
        flag="--connections-per-address",
    )


@dataclass(frozen=True, slots=True)
class AutoCreate:
    queues: tuple[str, ...] = _set(
        (),
        kinds.PATTERNS,
        "Queues that are made when they are first used, by a caller who may create them.",
        flag="--auto-create",
    )
    attributes: Pairs = _set(Pairs(), PAIRS, "What such a queue is set to.")
    fifo_attributes: Pairs = _set(Pairs(), PAIRS, "In addition, if its name ends in .fifo.")


@dataclass(frozen=True, slots=True)
class Usage:
    enabled: bool = _set(
        True,
        kinds.FLAG,
        "Whether usage is written down. What was not counted cannot be billed, audited or explained later.",
        flag="--usage/--no-usage",
    )
    folder: Path | None = _set(
        None, kinds.optional(kinds.PATH), "Where. None: `usage` in the data folder.", flag="--usage-folder"
    )
    node: str | None = _set(
        None,
        kinds.optional(kinds.NODE),
        "What this server is called there. None: a name that the first start makes.",
        flag="--usage-node",
    )
    window_s: int = _set(
        10, kinds.integer(1, 600), "How much time one row of counts stands for, in seconds.", flag="--usage-window"
    )
    room_mib: int = _set(
        10_240,
        kinds.integer(0, 1 << 30),
        "MiB that it may take; beyond that it loses detail, and the log says so before. 0: as much as there is.",
        flag="--usage-room",
    )
    audit: str = _set(
        "management",
        kinds.choice("off", "management", "all"),
        "Which requests get a row of their own: those about queues, or those about messages, too.",
        flag="--audit",
    )


@dataclass(frozen=True, slots=True)
class Log:
    style: str = _set(
        "auto",
        kinds.choice("auto", "pretty", "json"),
        "Pretty for people, json for machines; auto: pretty on a terminal.",
        flag="--log-style",
    )
    level: str = _set(
        "info", kinds.choice("debug", "info", "warning", "error"), "The least that is logged.", flag="--log-level"
    )


@dataclass(frozen=True, slots=True)
class Config:
    """The order of sections is that of the example file."""

    server: Server = Server()
    admin: Admin = Admin()
    auth: Auth = Auth()
    tls: Tls = Tls()
    proxy: Proxy = Proxy()
    limits: Limits = Limits()
    auto_create: AutoCreate = AutoCreate()
    usage: Usage = Usage()
    log: Log = Log()
    queues: tuple[DeclaredQueue, ...] = ()  # only in a file

    @property
    def has_tls(self) -> bool:
        return self.tls.certificate is not None

    @property
    def admin_listen(self) -> Address:
        """Port 0 stays port 0, so that servers of tests do not get in each other's way."""
        port = self.server.listen.port
        return self.admin.listen or Address("127.0.0.1", port and port % 65_535 + 1)


SECTIONS: dict[str, type[Any]] = {each.name: type(each.default) for each in fields(Config) if each.name != SECTION}
EXPLANATIONS = {
    "server": "The process and its ports.",
    "admin": "The port for those who run it. docs/OPERATING.md",
    "auth": "Who may ask. docs/SECURITY.md",
    "tls": "Encryption on the wire. docs/SECURITY.md",
    "proxy": "Behind a load balancer or another name.",
    "limits": "How fast requests may come; more is refused with RequestThrottled. None: as fast as they like.",
    "auto_create": "Queues that nobody has to create: at the first send, receive, GetQueueUrl or GetQueueAttributes.",
    "usage": "What was used, for audits, bills and service levels. docs/OPERATING.md",
    "log": "What the process says about itself, on standard error. Never bodies or secrets.",
}


def settings() -> Iterator[Setting]:
    """All rows, in order."""
    for section, made in SECTIONS.items():
        for each in fields(made):
            yield Setting(section, each.name, default=each.default, **each.metadata)
