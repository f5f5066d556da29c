"""`holdfast serve`: the only place where the parts meet.

folder locked ─▶ keys ─▶ shards recovered ─▶ queues loaded ─▶ lanes reconciled ─▶ port opened ─▶ … ─▶ drained
"""

import asyncio
import contextlib
import dataclasses
import gc
import os
import resource
import secrets
import signal
import sys
import tempfile
from collections.abc import Awaitable, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

from holdfast.backend.host import Host, stop_now
from holdfast.backend.ownership import DataFolderError
from holdfast.cli import env
from holdfast.cli.admin import admin_port, admin_sources, own_look
from holdfast.cli.announcement import Announcement, url
from holdfast.cli.bookkeeping import Books, name_server, open_books
from holdfast.cli.colleagues import Colleagues
from holdfast.cli.crew import READY, Crew, Worker, free, leave, meet, reserve
from holdfast.cli.declarations import auto_create, declare, problems
from holdfast.cli.first_start import StartError, Stores
from holdfast.console.port import AdminPort
from holdfast.console.sources import Duty, Sources
from holdfast.core.errors import CorruptLog
from holdfast.core.types import ShardId
from holdfast.frontend.admit import Gate, Open, Rates, Signatures
from holdfast.frontend.bounds import Crowd
from holdfast.frontend.companions import Companions
from holdfast.frontend.follow import FOLLOW_S, Follow
from holdfast.frontend.keyring import Keyring
from holdfast.frontend.locate import Directory
from holdfast.frontend.queues import Queues
from holdfast.frontend.reach import Reach
from holdfast.frontend.server import Server
from holdfast.frontend.service import Service
from holdfast.metadata.catalogue import Catalogue
from holdfast.metadata.identities import IdentityError
from holdfast.metadata.service import MetadataError
from holdfast.protocol.names import Site
from holdfast.runtime import logs
from holdfast.runtime.config.kinds import Address
from holdfast.runtime.config.loading import Loaded
from holdfast.runtime.config.settings import Config
from holdfast.runtime.crypto import KeyFileError
from holdfast.runtime.logs import log
from holdfast.runtime.metrics import Meter
from holdfast.runtime.rpc import Backend
from holdfast.runtime.tls import Certificate, TlsError
from holdfast.stores.sqlite import StoreError

DRAIN_S = 5.0  # how long requests in flight may take when the process is asked to end
SWITCH_INTERVAL_S = 0.0005  # so soon a busy loop gives its threads their turn: the writer, the reader
COLLECT_AFTER = (50_000, 20, 20)  # requests leave no cycles behind, only connections do: collecting can be rare

OpenPort = Callable[[str, int], Awaitable[int]]  # host and port; answers the port that was opened


def run(loaded: Loaded) -> None:
    """Serves until SIGTERM or SIGINT."""
    if not __debug__:
        raise StartError("Python runs with -O, which removes the checks that protect messages. Start it without.")
    if wrong := list(problems(loaded.config)):
        raise StartError("\n".join(wrong))
    logs.configure(loaded.config.log.style, loaded.config.log.level)
    sys.setswitchinterval(SWITCH_INTERVAL_S)
    _raise_file_limit()
    with _start_errors(), _data_folder(loaded.config) as data:
        if loaded.config.server.workers == 1:
            _runner()(_serve(loaded, data, Worker()))
        else:
            _run_crew(loaded, data)


def _run_crew(loaded: Loaded, data: Path) -> None:
    config = loaded.config
    stores = Stores(data, account=config.server.account)
    announcement = _announcement(config, stores)
    name_server(config, data)
    stores.close_databases()  # the lock stays, for as long as a worker lives
    try:
        holder, listen = reserve(config.server.listen)
        asked = config.admin_listen
        admin_listen = asked if asked.port else free(asked)
    except OSError as problem:
        reason = os.strerror(problem.errno or 0)
        raise StartError(f"{config.server.listen} cannot be listened on: {reason}. Choose another address.") from None
    server = dataclasses.replace(config.server, listen=listen)
    config = dataclasses.replace(config, server=server, admin=dataclasses.replace(config.admin, listen=admin_listen))
    loaded = loaded._replace(config=config)
    with holder:
        work = partial(_work, loaded, data)
        status = Crew(config.server.workers, data, work, lambda: announcement(listen, admin_listen)).run()
    stores.close()
    if status:
        raise StartError("a worker could not go on; what it said stands above.")


def _work(loaded: Loaded, data: Path, worker: Worker) -> None:
    """A worker, from its fork to its end."""
    try:
        with _start_errors():
            _runner()(_serve(loaded, data, worker))
    except StartError as problem:
        print(f"holdfast: worker {worker.index}: {problem}", file=sys.stderr, flush=True)
        sys.exit(2)


def _runner() -> Callable[[Any], Any]:
    try:
        import uvloop  # noqa: PLC0415 - not on every platform
    except ImportError:
        return asyncio.run
    return uvloop.run


def _raise_file_limit() -> None:
    """Each connection is a descriptor."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


@contextlib.contextmanager
def _start_errors() -> Iterator[None]:
    try:
        yield
    except (DataFolderError, KeyFileError, TlsError, MetadataError, StoreError, IdentityError) as problem:
        raise StartError(str(problem)) from None
    except CorruptLog as problem:
        raise StartError(f"the log is damaged, and serving it would lose messages: {problem}") from None


@contextlib.contextmanager
def _data_folder(config: Config) -> Iterator[Path]:
    if not config.server.ephemeral:
        yield config.server.data.absolute()
        return
    with tempfile.TemporaryDirectory(prefix="holdfast-") as made:
        yield Path(made)


async def _serve(loaded: Loaded, data: Path, worker: Worker) -> None:
    config = loaded.config
    certificate = _certificate(config)
    stores = Stores(data, account=config.server.account, is_locked=worker.count > 1)
    asyncio.get_running_loop().set_exception_handler(_fatal)
    meter = Meter()
    books = open_books(config, data, worker=worker, meter=meter)
    host = Host(data / "shards", stores.master, syncs=meter.syncs)
    backend, links, aside = await meet(worker, host, _open_shards(host, config, data, worker=worker))
    colleagues = Colleagues(worker, links, aside)
    directory = Directory(Site(config.server.account, config.server.region), receipt_key=stores.receipt_key)
    reach = _reach(config, config.server.listen)
    with ThreadPoolExecutor(1, thread_name_prefix="holdfast-metadata") as thread:
        keyring = Keyring(stores.identities, lambda key, day: thread.submit(stores.uses.note_use, key, day))
        follow = Follow(stores.metadata, directory, keyring)
        follow.load()
        queues = Queues(
            directory,
            follow,
            Catalogue(stores.written),
            backend=backend,
            shards=_shards(config),
            is_strict=not config.server.relaxed,
            in_thread=lambda work: asyncio.get_running_loop().run_in_executor(thread, work),
            reach=reach,
            meter=meter,
        )
        await _start_queues(queues, config, worker)
        gate = _gate(config, directory, keyring, reach=reach, colleagues=colleagues)
        server = _sqs_server(config, directory, backend, gate=gate, queues=queues, stores=stores, books=books)
        host.expects_more, server.end_turn, server.hear = server.expects_more, host.end_turn, host.hear
        whole = colleagues.report(own_look(directory, host, books, server))
        sources = admin_sources(loaded, stores, directory, duty=_duty(worker), colleagues=colleagues, whole=whole)
        admin = _admin_port(config, sources, gate=gate, site=directory.site, certificate=certificate)
        stop = _stop_signals(worker)
        await _listen(config, _opener(server, certificate, worker), admin.listen, stores=stores, worker=worker)
        books.start(directory, host)
        _settle_collector()
        following = asyncio.create_task(_keep_following(follow))
        await stop.wait()
        sources.duty.is_draining = True
        await _drain(server, host, worker)
        following.cancel()
        colleagues.close()
        await admin.stop()
        await sources.chores.stop()
        await books.close()
    stores.close()
    log.info("stopped")


async def _start_queues(queues: Queues, config: Config, worker: Worker) -> None:
    await queues.start(worker.leads, is_alone=not worker.is_replacement)
    if worker.index == 0 and not worker.is_replacement:
        await declare(config, queues)


def _sqs_server(
    config: Config, directory: Directory, backend: Backend, *, gate: Gate, queues: Queues, stores: Stores, books: Books
) -> Server:
    service = Service(
        directory,
        backend,
        gate,
        receipt_key=stores.receipt_key,
        others=queues.handlers,
        meter=books.meter,
        trail=books.trail(_reach(config, config.server.listen)),
    )
    if (auto := auto_create(config, queues, gate)) is not None:
        service.make_missing = auto.take
    sqs = Companions(gate, service.serve, service.prepare)
    crowd = Crowd(per_address_max=config.limits.connections_per_address, proxies=config.proxy.trusted)
    return Server(sqs.serve, sqs.prepare, boot=_boot(), soon=asyncio.get_running_loop().call_soon, crowd=crowd)


async def _keep_following(follow: Follow) -> None:
    """Sees what other processes change of keys, users and queues. A task that fails is noticed by nobody, so that ends
    the process."""
    while True:
        await asyncio.sleep(FOLLOW_S)
        try:
            follow.catch_up()
        except Exception as problem:  # noqa: BLE001 - the root of a task
            stop_now(problem)


def _open_shards(host: Host, config: Config, data: Path, *, worker: Worker) -> list[ShardId]:
    """Those that the worker leads. Answers all."""
    shards = sorted({*_shards(config), *_shards_on_disk(data)})
    host.open([each for each in shards if worker.leads(each)])
    return shards


def _shards(config: Config) -> list[ShardId]:
    """Those that take new queues."""
    return [ShardId(number) for number in range(1, max(config.server.shards, config.server.workers) + 1)]


def _shards_on_disk(data: Path) -> list[ShardId]:
    folder = data / "shards"
    return [ShardId(int(each.name)) for each in folder.iterdir()] if folder.exists() else []


def _reach(config: Config, listen: Address) -> Reach:
    return Reach(
        url(listen, is_secure=config.has_tls),
        advertised_url=config.proxy.advertised_url,
        proxies=config.proxy.trusted,
        secure_transport=True if config.has_tls else None if listen.is_loopback else False,
    )


def _gate(config: Config, directory: Directory, keyring: Keyring, *, reach: Reach, colleagues: Colleagues) -> Gate:
    limits = config.limits
    rates = Rates(limits.account, limits.queue, limits.action, is_shared=config.server.workers > 1)
    colleagues.share(rates)
    if not config.auth.enabled:
        return Open(directory, rates=rates)
    return Signatures(directory, keyring, rates=rates, reach=reach)


def _duty(worker: Worker) -> Duty:
    return Duty(Path(worker.sockets) / "draining" if worker.sockets else None)


def _admin_port(
    config: Config, sources: Sources, *, gate: Gate, site: Site, certificate: Certificate | None
) -> AdminPort:
    reach = _reach(config, config.admin_listen)
    return admin_port(sources, gate=gate, site=site, reach=reach, tls=certificate.context if certificate else None)


async def _listen(config: Config, open_sqs: OpenPort, open_admin: OpenPort, *, stores: Stores, worker: Worker) -> None:
    """The admin port is opened by one worker, which asks the others."""
    listen = await _open_port(config.server.listen, open_sqs, flag="--listen")
    admin_listen = config.admin_listen
    if worker.index == 0:
        admin_listen = await _open_port(admin_listen, open_admin, flag="--admin-listen")
    account = config.server.account
    log.info("serving", listen=str(listen), admin=str(admin_listen), data=str(stores.data), account=account)
    if worker.count > 1:
        worker.tell(READY)
    else:
        _announcement(config, stores)(listen, admin_listen)


def _announcement(config: Config, stores: Stores) -> Callable[[Address, Address], None]:
    """Made from what is open now, to be told when the ports are known."""
    root = env.root_credentials(stores.identities, config.server.account)

    def announce(listen: Address, admin_listen: Address) -> None:
        Announcement(
            stores.data,
            listen,
            admin_listen,
            config.server.account,
            config.server.region,
            is_open=not config.auth.enabled,
            root=root,
            is_secure=config.has_tls,
            authority=config.tls.authority,
            ready_file=config.server.ready_file,
        ).make()

    return announce


async def _open_port(asked: Address, listen: OpenPort, *, flag: str) -> Address:
    """Answers the address with the port that the system chose."""
    try:
        return asked._replace(port=await listen(asked.host, asked.port))
    except OSError as problem:
        number = problem.errno or 0  # negative when a name was not found
        reason = os.strerror(number) if number > 0 else "there is no such address here"
        raise StartError(f"{asked} cannot be listened on: {reason}. Choose another address with {flag}.") from None


def _opener(server: Server, certificate: Certificate | None, worker: Worker) -> OpenPort:
    return partial(server.listen, reuse_port=worker.count > 1 or None, **(certificate.options() if certificate else {}))


def _certificate(config: Config) -> Certificate | None:
    """Read again at SIGHUP."""
    if config.tls.certificate is None or config.tls.key is None:
        return None
    made = Certificate(config.tls.certificate, config.tls.key)

    def reload() -> None:
        try:
            made.reload()
        except TlsError as problem:
            log.error("the certificate was not read again; the old one stays in force", reason=str(problem))
        else:
            log.info("the certificate was read again")

    asyncio.get_running_loop().add_signal_handler(signal.SIGHUP, reload)
    return made


def _stop_signals(worker: Worker) -> asyncio.Event:
    """Set by SIGTERM and SIGINT, and by the end of the parent."""
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    if worker.from_parent >= 0:
        loop.add_reader(worker.from_parent, stop.set)
    return stop


def _settle_collector() -> None:
    """What is there now stays; the collector need not look at it again."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(*COLLECT_AFTER)
    gc.enable()


async def _drain(server: Server, host: Host, worker: Worker) -> None:
    log.info("stopping; requests in flight are finished")
    server.drain()
    try:
        async with asyncio.timeout(DRAIN_S):
            await host.drain()
            await server.wait_empty()
    except TimeoutError:
        log.warning("some clients did not take their answers in time")
    await leave(worker)
    server.stop()
    await host.close()


def _boot() -> str:
    """Distinguishes this process's request ids: the first parts of a UUID."""
    digits = secrets.token_hex(10)
    return f"{digits[:8]}-{digits[8:12]}-4{digits[13:16]}-8{digits[17:20]}-"


def _fatal(_: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    """Nothing may go wrong in the loop itself; if it does, the state in memory is not to be trusted. The admin port has
    no part in that state."""
    problem = context.get("exception")
    if type(context.get("protocol")).__module__.startswith("uvicorn."):
        log.error("a connection to the admin port failed", problem=problem)
        return
    stop_now(problem if isinstance(problem, BaseException) else RuntimeError(context.get("message")))
