"""Wires the admin port: what it shows comes from the roles, who may ask is decided as on the SQS port."""

import ssl
from collections.abc import Iterator

from holdfast.backend.host import Host
from holdfast.backend.survey import Depth
from holdfast.cli.bookkeeping import Books
from holdfast.cli.first_start import Stores, metrics_token
from holdfast.console import app, facts
from holdfast.console.app import Asked
from holdfast.console.facts import Sources
from holdfast.console.port import AdminPort
from holdfast.console.routes import Routes
from holdfast.core import policy
from holdfast.core.access import Access
from holdfast.frontend.admit import Gate
from holdfast.frontend.exchange import Exchange, Heads
from holdfast.frontend.locate import Directory
from holdfast.frontend.reach import Reach
from holdfast.frontend.server import Server
from holdfast.metadata.identities import Identities
from holdfast.protocol.names import Site
from holdfast.runtime import clock
from holdfast.runtime.config.loading import Loaded
from holdfast.runtime.metrics import NOTHING, Meter

SERVICE = b"holdfast"  # what requests to the admin port are signed for
_NOTHING = Depth(0, 0, 0, 0, 0)


def admin_port(
    sources: Sources, *, gate: Gate, site: Site, reach: Reach, tls: ssl.SSLContext | None = None
) -> AdminPort:
    guard, token = _guard(gate, site, reach), metrics_token(sources.data)
    return AdminPort(app.make(Routes(sources).rows(), guard=guard, metrics_token=token), tls=tls)


def admin_sources(
    loaded: Loaded, stores: Stores, *, directory: Directory, host: Host, books: Books, server: Server
) -> Sources:
    identities = stores.identities
    return Sources(
        loaded=loaded,
        data=stores.data,
        meter=books.meter,
        duty=facts.Duty(),
        accounts=lambda: [facts.Account(each) for each in identities.all_accounts()],
        users=lambda: _users(identities),
        keys=lambda: _keys(identities),
        queues=lambda: _queues(directory, host, books.meter),
        queue_count=lambda: len(directory),
        connections=lambda: len(server.connections),
        long_polls=host.polls,
        usage_trouble=lambda: books.has_trouble,
        usage_dropped=lambda: books.dropped,
    )


def _queues(directory: Directory, host: Host, meter: Meter) -> Iterator[facts.Queue]:
    """All of them, each looked at when it is its turn."""
    meter.update()
    for each in directory:
        if not host.leads(each.shard):
            continue  # another worker shows it
        depth = host.look(each.shard, each.lane) or _NOTHING
        counts = meter.queues.get(each.name, NOTHING)
        account, name = each.name
        yield facts.Queue(
            account,
            name,
            each.shard,
            each.lane,
            depth.visible,
            depth.not_visible,
            depth.delayed,
            depth.bytes,
            depth.oldest_s,
            *counts,
        )


def _users(identities: Identities) -> list[facts.User]:
    return [facts.User(each.account, each.name, each.arn, sorted(each.policies)) for each in identities.all_users()]


def _keys(identities: Identities) -> list[facts.Key]:
    used = identities.used_days()
    return [
        facts.Key(each.id, each.account, each.user, each.is_active, each.created // 1000, used.get(each.id, 0))
        for each in identities.all_keys()
    ]


def _guard(gate: Gate, site: Site, reach: Reach) -> app.Guard:
    """Root of the server's own account may do everything here, others what their policies allow."""

    def check(asked: Asked, right: str) -> None:
        exchange = Exchange(
            _Nobody(asked.peer), asked.method, asked.target, dict(asked.headers), asked.body, is_last=True
        )
        caller = gate.admit(exchange, service=SERVICE)
        access = Access(
            caller.account,
            caller.arn,
            f"holdfast:{right}",
            f"arn:aws:holdfast:{site.region}:{site.account}:server",
            source_ip=reach.source_ip(exchange),
            secure_transport=reach.secure_transport(exchange),
            now_s=clock.wall_ms() // 1000,
        )
        decision = policy.evaluate(access, identity=caller.policies, resource=None)
        if not decision.is_allowed:
            raise policy.refusal(access, decision)

    return check


class _Nobody:
    """A connection that only has an address: the admin port answers by itself."""

    heads = Heads("", "")

    def __init__(self, peer: str) -> None:
        self._peer = peer

    def deliver(self, _: Exchange, __: bytes) -> None:
        raise AssertionError("the admin port answers by itself")

    def peer(self) -> str:
        return self._peer
