"""`holdfast serve`: the only place where the parts meet.

folder locked ─▶ keys ─▶ shards recovered ─▶ queues loaded ─▶ lanes reconciled ─▶ port opened ─▶ … ─▶ drained
"""

import asyncio
import contextlib
import gc
import os
import resource
import secrets
import signal
import sys
import tempfile
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from holdfast.backend.host import DataFolderError, Host, stop_now
from holdfast.cli import env, folder
from holdfast.cli.announcement import Announcement, url
from holdfast.cli.first_start import StartError, first_account, load_keys, open_folder
from holdfast.core.errors import CorruptLog
from holdfast.core.types import ShardId
from holdfast.frontend.admit import Gate, Open, Rates, Signatures
from holdfast.frontend.companions import Companions
from holdfast.frontend.follow import FOLLOW_S, Follow
from holdfast.frontend.keyring import Keyring
from holdfast.frontend.locate import Directory
from holdfast.frontend.queues import Queues
from holdfast.frontend.reach import Reach
from holdfast.frontend.server import Server
from holdfast.frontend.service import Service
from holdfast.metadata import old_formats
from holdfast.metadata.catalogue import Catalogue
from holdfast.metadata.identities import Credentials, Identities, IdentityError
from holdfast.metadata.service import Metadata, MetadataError
from holdfast.protocol.names import Site
from holdfast.runtime import logs
from holdfast.runtime.config.loading import Loaded
from holdfast.runtime.config.settings import Config
from holdfast.runtime.crypto import KeyFileError
from holdfast.runtime.logs import log
from holdfast.stores.sqlite import SqliteStore, StoreError

DRAIN_S = 5.0  # how long requests in flight may take when the process is asked to end
SWITCH_INTERVAL_S = 0.0005  # so soon a busy loop gives the writer thread its turn; 5 ms would delay every sync

COLLECT_AFTER = (50_000, 20, 20)  # requests leave no cycles behind, only connections do: collecting can be rare


def run(loaded: Loaded) -> None:
    """Serves until SIGTERM or SIGINT."""
    if not __debug__:
        raise StartError("Python runs with -O, which removes the checks that protect messages. Start it without.")
    logs.configure(loaded.config.log.style, loaded.config.log.level)
    sys.setswitchinterval(SWITCH_INTERVAL_S)
    _raise_file_limit()
    try:
        with _data_folder(loaded.config) as data:
            _runner()(_serve(loaded.config, data))
    except (DataFolderError, KeyFileError, MetadataError, StoreError, IdentityError) as problem:
        raise StartError(str(problem)) from None
    except CorruptLog as problem:
        raise StartError(f"the log is damaged, and serving it would lose messages: {problem}") from None


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
def _data_folder(config: Config) -> Iterator[Path]:
    if not config.server.ephemeral:
        yield config.server.data.absolute()
        return
    with tempfile.TemporaryDirectory(prefix="holdfast-") as made:
        yield Path(made)


async def _serve(config: Config, data: Path) -> None:
    lock = open_folder(data)
    asyncio.get_running_loop().set_exception_handler(_fatal)
    keys = load_keys(data)
    stores = [SqliteStore(data / folder.METADATA) for _ in range(2)]  # for the loop, and for the thread that waits
    old_formats.prepare(stores[0], data)
    metadata, written = map(Metadata, stores)
    identities, usage = Identities(metadata, keys.master), Identities(written, keys.master)
    site = Site(config.server.account, config.server.region)
    first_account(identities, site.account)
    host = Host(data / "shards", keys.master)
    shards = [ShardId(number) for number in range(1, config.server.shards + 1)]
    host.open(sorted({*shards, *_shards_on_disk(data)}))
    directory = Directory(site, receipt_key=keys.receipt)
    reach = _reach(config)
    with ThreadPoolExecutor(1, thread_name_prefix="holdfast-metadata") as thread:
        keyring = Keyring(identities, lambda key, day: thread.submit(usage.note_use, key, day))
        follow = Follow(metadata, directory, keyring)
        follow.load()
        queues = Queues(
            directory,
            follow,
            Catalogue(written),
            backend=host,
            shards=shards,
            is_strict=not config.server.relaxed,
            in_thread=lambda work: asyncio.get_running_loop().run_in_executor(thread, work),
            reach=reach,
        )
        await queues.start()
        gate = _gate(config, directory, keyring, reach)
        service = Service(directory, host, gate, receipt_key=keys.receipt, others=queues.handlers)
        per_address_max = config.limits.connections_per_address
        server = Server(Companions(gate, service.serve).serve, boot=_boot(), per_address_max=per_address_max)
        stop = _stop_signals()
        await _listen(config, server, data, env.root_credentials(identities, site.account))
        _settle_collector()
        following = asyncio.create_task(_keep_following(follow))
        await stop.wait()
        await _drain(server, host)
        following.cancel()
    for store in stores:
        store.close()
    os.close(lock)


async def _keep_following(follow: Follow) -> None:
    """Sees what other processes change of keys, users and queues. A task that fails is noticed by nobody, so that ends
    the process."""
    while True:
        await asyncio.sleep(FOLLOW_S)
        try:
            follow.catch_up()
        except Exception as problem:  # noqa: BLE001 - the root of a task
            stop_now(problem)


def _shards_on_disk(data: Path) -> list[ShardId]:
    folder = data / "shards"
    return [ShardId(int(each.name)) for each in folder.iterdir()] if folder.exists() else []


def _reach(config: Config) -> Reach:
    return Reach(
        url(config.server.listen),
        advertised_url=config.proxy.advertised_url,
        proxies=config.proxy.trusted,
        secure_transport=None if config.server.listen.is_loopback else False,
    )


def _gate(config: Config, directory: Directory, keyring: Keyring, reach: Reach) -> Gate:
    limits = config.limits
    rates = Rates(limits.account, limits.queue, limits.action)
    if not config.auth.enabled:
        return Open(directory, rates=rates)
    return Signatures(directory, keyring, rates=rates, reach=reach)


async def _listen(config: Config, server: Server, data: Path, root: Credentials | None) -> None:
    listen = config.server.listen
    try:
        port = await server.listen(listen.host, listen.port)
    except OSError as problem:
        reason = os.strerror(problem.errno or 0)
        raise StartError(f"{listen} cannot be listened on: {reason}. Choose another address with --listen.") from None
    listen = listen._replace(port=port)
    log.info("serving", endpoint=url(listen), data=str(data), account=config.server.account)
    Announcement(
        data,
        listen,
        config.server.account,
        config.server.region,
        is_open=not config.auth.enabled,
        root=root,
        ready_file=config.server.ready_file,
    ).make()


def _stop_signals() -> asyncio.Event:
    """Set by SIGTERM and SIGINT."""
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    return stop


def _settle_collector() -> None:
    """What is there now stays; the collector need not look at it again."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(*COLLECT_AFTER)


async def _drain(server: Server, host: Host) -> None:
    log.info("stopping; requests in flight are finished")
    server.drain()
    try:
        async with asyncio.timeout(DRAIN_S):
            await host.drain()
            await server.wait_empty()
    except TimeoutError:
        log.warning("some clients did not take their answers in time")
    server.stop()
    await host.close()
    log.info("stopped")


def _boot() -> str:
    """Distinguishes this process's request ids: the first parts of a UUID."""
    digits = secrets.token_hex(10)
    return f"{digits[:8]}-{digits[8:12]}-4{digits[13:16]}-8{digits[17:20]}-"


def _fatal(_: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    """Nothing may go wrong in the loop itself; if it does, the state in memory is not to be trusted."""
    problem = context.get("exception")
    stop_now(problem if isinstance(problem, BaseException) else RuntimeError(context.get("message")))
