"""Wires the admin port: what it shows comes from the roles, who may ask is decided as on the SQS port."""

import asyncio
import ssl
from collections.abc import Awaitable, Callable

from holdfast.backend.host import Host
from holdfast.backend.survey import Depth
from holdfast.cli.bookkeeping import Books
from holdfast.cli.colleagues import Colleagues
from holdfast.cli.first_start import Stores
from holdfast.console import app, facts, parts
from holdfast.console.app import Asked
from holdfast.console.chores import Chores
from holdfast.console.parts import Part
from holdfast.console.port import AdminPort
from holdfast.console.routes import Routes
from holdfast.console.sources import Duty, Sources
from holdfast.core.admission import policy
from holdfast.core.admission.access import Access
from holdfast.frontend.admit import Gate
from holdfast.frontend.exchange import Exchange, Heads
from holdfast.frontend.locate import Directory
from holdfast.frontend.reach import Reach
from holdfast.frontend.server import Server
from holdfast.metadata.identities import Identities
from holdfast.protocol.names import Site
from holdfast.runtime import clock
from holdfast.runtime.config.loading import Loaded

SERVICE = b"holdfast"  # what requests to the admin port are signed for
PAUSE_EVERY = 500  # queues looked at before others get their turn; about a millisecond
_NOTHING = Depth(0, 0, 0, 0, 0)


def admin_port(
    sources: Sources, *, gate: Gate, site: Site, reach: Reach, tls: ssl.SSLContext | None = None
) -> AdminPort:
    guard, token = _guard(gate, site, reach), sources.metrics_token
    return AdminPort(app.make(Routes(sources).rows(), guard=guard, metrics_token=token), tls=tls)


def own_look(directory: Directory, host: Host, books: Books, server: Server) -> Callable[[], Awaitable[Part]]:
    """What this process knows."""

    async def look() -> Part:
        directory.catch_up()  # another worker may have made a queue that is led here
        depths = await _depths(directory, host)
        polls, usage = host.polls(), (books.has_trouble, books.dropped)
        return parts.of_meter(books.meter, depths, connections=len(server.connections), long_polls=polls, usage=usage)

    return look


def admin_sources(
    loaded: Loaded,
    stores: Stores,
    directory: Directory,
    *,
    duty: Duty,
    colleagues: Colleagues,
    whole: Callable[[], Awaitable[Part]],
) -> Sources:
    identities = stores.identities
    return Sources(
        loaded=loaded,
        data=stores.data,
        metrics_token=stores.metrics_token,
        duty=duty,
        chores=Chores(stores.data, loaded.config.admin.backups),
        accounts=lambda: [facts.Account(each) for each in identities.all_accounts()],
        users=lambda: _users(identities),
        keys=lambda: _keys(identities),
        queue_count=lambda: len(directory),
        is_complete=colleagues.are_there,
        whole=whole,
    )


async def _depths(directory: Directory, host: Host) -> list[facts.Queue]:
    """Of the queues that this process leads. O(queues), with pauses for everybody else."""
    found: list[facts.Queue] = []
    for number, each in enumerate(list(directory)):
        if number % PAUSE_EVERY == PAUSE_EVERY - 1:
            await asyncio.sleep(0)
        if not host.leads(each.shard):
            continue
        depth = host.look(each.shard, each.lane) or _NOTHING
        counts = (depth.visible, depth.not_visible, depth.delayed, depth.bytes, depth.oldest_s)
        found.append(facts.Queue(*each.name, each.shard, each.lane, *counts))
    return found


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
