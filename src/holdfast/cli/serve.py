"""`holdfast serve`: the only place where the parts meet.

folder locked ─▶ keys ─▶ shards recovered ─▶ queues loaded ─▶ lanes reconciled ─▶ port opened ─▶ … ─▶ drained
"""

import asyncio
import gc
import ipaddress
import os
import re
import resource
import secrets
import shlex
import shutil
import signal
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import msgspec

from holdfast.backend.host import DataFolderError, Host, lock_folder, stop_now
from holdfast.cli import env, folder
from holdfast.core.bucket import Rate
from holdfast.core.errors import CorruptLog
from holdfast.core.types import ShardId
from holdfast.frontend.admit import Gate, Open, Rates, Signatures
from holdfast.frontend.companions import Companions
from holdfast.frontend.keyring import Keyring
from holdfast.frontend.locate import Directory
from holdfast.frontend.queues import Queues
from holdfast.frontend.server import Serve, Server
from holdfast.frontend.service import Service
from holdfast.protocol.names import Site
from holdfast.runtime.crypto import KeyFileError, MasterKey, create_key, read_key, sync_folder
from holdfast.stores.identities import ROOT, Credentials, Identities, IdentityError
from holdfast.stores.sqlite import Catalogue, CatalogueError

DRAIN_S = 5.0  # how long requests in flight may take when the process is asked to end
SWITCH_INTERVAL_S = 0.0005  # so soon a busy loop gives the writer thread its turn; 5 ms would delay every sync

COLLECT_AFTER = (50_000, 20, 20)  # requests leave no cycles behind, only connections do: collecting can be rare


class StartError(Exception):
    """Why Holdfast does not start, and what to do."""


class Settings(msgspec.Struct, frozen=True):
    data: Path
    host: str
    port: int
    is_strict: bool = True
    ready_file: Path | None = None
    shards: int = 1
    is_open: bool = False  # without authentication
    rates: dict[str, Rate] = {}
    site: Site = Site()  # the account of the first key, and the region in ARNs

    @classmethod
    def checked(
        cls,
        *,
        data: Path,
        listen: str,
        is_open_to_all: bool,
        is_open_anywhere: bool,
        limits: list[str],
        is_strict: bool,
        ready_file: Path | None,
        shards: int,
    ) -> "Settings":
        if not __debug__:
            raise StartError("Python runs with -O, which removes the checks that protect messages. Start it without.")
        host, colon, port = listen.rpartition(":")
        if not colon or not port.isdigit() or int(port) > 65_535:
            raise StartError(f"--listen {listen} is not HOST:PORT; for example 127.0.0.1:9324.")
        host = host.strip("[]")
        if is_open_to_all and not (_is_loopback(host) or is_open_anywhere):
            raise StartError(
                f"--no-auth accepts requests from anybody, and {host} can be reached from other machines. "
                "Listen on 127.0.0.1 or ::1, or add --no-auth-anywhere if that is what you want."
            )
        rates = dict(map(_rate, limits))
        return cls(data.absolute(), host, int(port), is_strict, ready_file, shards, is_open_to_all, rates)


def _rate(text: str) -> tuple[str, Rate]:
    found = re.fullmatch(r"(account|queue|action)=([1-9][0-9]{0,8})(?::([1-9][0-9]{0,8}))?", text)
    if found is None:
        raise StartError(f"--limit {text} is not KIND=PER_SECOND[:BURST]; for example account=5000 or queue=100:500.")
    kind, per_second, burst = found.groups()
    return kind, Rate(int(per_second), int(burst or per_second))


def _is_loopback(host: str) -> bool:
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def run(settings: Settings) -> None:
    """Serves until SIGTERM or SIGINT."""
    sys.setswitchinterval(SWITCH_INTERVAL_S)
    _raise_file_limit()
    try:
        _runner()(_serve(settings))
    except (DataFolderError, KeyFileError, CatalogueError, IdentityError) as problem:
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


class _Keys(msgspec.Struct, frozen=True):
    master: MasterKey
    receipt: bytes


def _load_keys(data: Path) -> _Keys:
    """Made at the first start. Later a missing one is not replaced: it would make the old messages unreadable."""
    master, receipts = data / folder.MASTER_KEY, data / "receipt.key"
    if not master.exists():
        if (data / "shards").exists():
            raise KeyFileError(f"{master} is missing beside data that was written with it. Put it back.")
        create_key(master)
    if not receipts.exists():
        create_key(receipts)
    return _Keys(MasterKey(read_key(master)), read_key(receipts))


def _first_start(identities: Identities, account: str) -> None:
    """The account and its root key: given by the environment, else made at random."""
    if any(each.account == account for each in identities.all_keys()):
        return
    identities.add_account(account)
    key_id, secret = _from_environment("HOLDFAST_ACCESS_KEY_ID"), _from_environment("HOLDFAST_SECRET_ACCESS_KEY")
    if bool(key_id) != bool(secret):
        raise StartError("set both HOLDFAST_ACCESS_KEY_ID and HOLDFAST_SECRET_ACCESS_KEY (or ..._FILE), or none.")
    credentials = Credentials.checked(key_id, secret) if key_id else None
    identities.add_key(identities.user(account, ROOT), credentials)


def _from_environment(name: str) -> str:
    """A variable, or the content of the file that NAME_FILE names."""
    file = os.environ.get(name + "_FILE")
    if not file:
        return os.environ.get(name, "")
    try:
        return Path(file).read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError):
        raise StartError(f"{name}_FILE names {file}, which cannot be read.") from None


def _open_folder(data: Path) -> int:
    try:
        data.mkdir(parents=True, exist_ok=True, mode=0o700)
        sync_folder(data.parent)
        return lock_folder(data)
    except OSError as problem:
        raise DataFolderError(
            f"{data} cannot be used: {problem.strerror}. Choose another folder with --data."
        ) from None


async def _serve(settings: Settings) -> None:
    lock = _open_folder(settings.data)
    asyncio.get_running_loop().set_exception_handler(_fatal)
    keys = _load_keys(settings.data)
    catalogue = Catalogue(settings.data / "catalogue.db")
    identities = Identities(settings.data / folder.IDENTITIES, keys.master)
    _first_start(identities, settings.site.account)
    usage = Identities(settings.data / folder.IDENTITIES, keys.master)  # for the thread; requests use the other
    host = Host(settings.data / "shards", keys.master)
    shards = [ShardId(number) for number in range(1, settings.shards + 1)]
    rows = catalogue.queues()
    for line in host.open(sorted({*shards, *_shards_on_disk(settings.data)})):
        print(line, flush=True)
    directory = Directory(settings.site, receipt_key=keys.receipt)
    directory.load(rows, catalogue.former_lanes())
    with ThreadPoolExecutor(1, thread_name_prefix="holdfast-catalogue") as thread:
        queues = Queues(
            directory,
            catalogue,
            host,
            shards=shards,
            is_strict=settings.is_strict,
            in_thread=lambda work: asyncio.get_running_loop().run_in_executor(thread, work),
            endpoint=f"http://{settings.host}:{settings.port}",
        )
        await queues.start()
        keyring = Keyring(identities, lambda key, day: thread.submit(usage.note_use, key, day))
        gate = _gate(settings, directory, keyring)
        service = Service(directory, host, gate, receipt_key=keys.receipt, others=queues.handlers)
        shown = env.root_credentials(identities, settings.site.account)
        await _listen(settings, Companions(gate, service.serve).serve, host, shown)
    usage.close()
    identities.close()
    catalogue.close()
    os.close(lock)


def _shards_on_disk(data: Path) -> list[ShardId]:
    folder = data / "shards"
    return [ShardId(int(each.name)) for each in folder.iterdir()] if folder.exists() else []


def _gate(settings: Settings, directory: Directory, keyring: Keyring) -> Gate:
    if settings.is_open:
        return Open(directory.site)
    return Signatures(
        directory,
        keyring,
        rates=Rates(**settings.rates),
        secure_transport=None if _is_loopback(settings.host) else False,
    )


async def _listen(settings: Settings, serve: Serve, host: Host, shown: Credentials | None) -> None:
    server = Server(serve, boot=_boot())
    try:
        port = await server.listen(settings.host, settings.port)
    except OSError as problem:
        reason = os.strerror(problem.errno or 0)
        raise StartError(
            f"{settings.host}:{settings.port} cannot be listened on: {reason}. Choose another address with --listen."
        ) from None
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    _announce(settings, port, shown)
    gc.collect()
    gc.freeze()  # what is there now stays; the collector need not look at it again
    gc.set_threshold(*COLLECT_AFTER)
    await stop.wait()
    print("stopping: requests in flight are finished", flush=True)
    await _drain(server, host)
    print("stopped", flush=True)


async def _drain(server: Server, host: Host) -> None:
    server.drain()
    try:
        async with asyncio.timeout(DRAIN_S):
            await host.drain()
            await server.wait_empty()
    except TimeoutError:
        print("some clients did not take their answers in time", flush=True)
    server.stop()
    await host.close()


def _boot() -> str:
    """Distinguishes this process's request ids: the first parts of a UUID."""
    digits = secrets.token_hex(10)
    return f"{digits[:8]}-{digits[8:12]}-4{digits[13:16]}-8{digits[17:20]}-"


def _announce(settings: Settings, port: int, shown: Credentials | None) -> None:
    """The secret is for a person at a terminal, not for a log."""
    endpoint = _endpoint(settings.host, port)
    command = f"{_program()} env --data {shlex.quote(str(settings.data))}"
    print(f"Holdfast serves SQS at {endpoint}, messages in {settings.data}")
    if settings.is_open:
        print("Requests are not authenticated: any keys are accepted.")
    elif shown is not None:
        secret = shown.secret if sys.stdout.isatty() else f"shown by: {command}"
        print(f"  access key  {shown.id}\n  secret      {secret}")
    else:
        print("  the root has no active key; make one: holdfast key create")
    print(f'To use it from a shell, paste:\n  eval "$({command})"', flush=True)
    _write_whole(settings.data / folder.ENDPOINT, _endpoint(_reachable(settings.host), port))
    if settings.ready_file is not None:
        _write_whole(settings.ready_file, endpoint)


def _program() -> str:
    """How a shell can call us again."""
    if shutil.which("holdfast"):
        return "holdfast"
    called = Path(sys.argv[0]).absolute()
    return f"{shlex.quote(sys.executable)} -m holdfast" if called.suffix == ".py" else shlex.quote(str(called))


def _endpoint(host: str, port: int) -> str:
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def _reachable(host: str) -> str:
    """From this machine, when all addresses are listened on."""
    return {"0.0.0.0": "127.0.0.1", "::": "::1", "": "127.0.0.1"}.get(host, host)


def _write_whole(path: Path, line: str) -> None:
    temporary = path.with_name(path.name + ".tmp")
    temporary.write_text(line + "\n", encoding="utf-8")
    temporary.rename(path)


def _fatal(_: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    """Nothing may go wrong in the loop itself; if it does, the state in memory is not to be trusted."""
    problem = context.get("exception")
    stop_now(problem if isinstance(problem, BaseException) else RuntimeError(context.get("message")))
