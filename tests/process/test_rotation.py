"""Another master key: everything is readable afterwards, wherever the way there was interrupted."""

import contextlib
import itertools
import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from holdfast.backend.disk import Disk, make_folders
from holdfast.cli import rotation
from holdfast.cli.first_start import Stores
from holdfast.core.coordination.identity import ROOT
from holdfast.metadata.identities import Identities
from holdfast.metadata.service import Metadata, begin
from holdfast.runtime.crypto import KeyFileError, MasterKey, create_key, read_key
from holdfast.stores.sqlite import SqliteStore
from tests.process.guarded import guarded, run
from tests.process.server import drain, environment

HOME = "000000000000"
SEGMENTS = ("0001/keys/00000001-0000000000000001.key", "0002/keys/00000001-0000000000000001.key")


class Killed(BaseException):
    """Nothing more is done."""


@contextlib.contextmanager
def identities(data: Path, master: MasterKey) -> Iterator[Identities]:
    store = SqliteStore(data / "metadata.db")
    try:
        yield Identities(Metadata(store), master)
    finally:
        store.close()


class Folder:
    """A data folder with two segments and two secrets, and what is in them."""

    def __init__(self, data: Path) -> None:
        self.data = data
        data.mkdir()
        master = MasterKey(create_key(data / "master.key"))
        self.sealed = {}
        for name in SEGMENTS:
            make_folders(data / "shards" / name[:4])
            cipher, wrapped = master.new_cipher()
            (data / "shards" / name).write_bytes(wrapped)
            self.sealed[name] = cipher.seal_all(1, 1, [b"message"], b"")[4:]
        store = SqliteStore(data / "metadata.db")
        begin(store)
        store.close()
        with identities(data, master) as held:
            held.claim()
            held.add_account(HOME)
            self.secrets = [held.add_key(held.user(HOME, ROOT)) for _ in range(2)]

    def check(self, data: Path, master: MasterKey) -> None:
        """Everything opens with this master key."""
        for name, sealed in self.sealed.items():
            cipher = master.cipher((data / "shards" / name).read_bytes())
            assert cipher.open(1, 1, sealed, b"") == b"message"
        with identities(data, master) as held:
            held.claim()
            assert [held.credentials(each.id).secret for each in self.secrets] == [each.secret for each in self.secrets]


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    return Folder(tmp_path / "data")


def test_everything_is_under_the_new_key_and_nothing_under_the_old_one(folder: Folder) -> None:
    old = MasterKey(read_key(folder.data / "master.key"))
    assert rotation.rotate(folder.data) == rotation.Rotated(2, 2)
    new = MasterKey(read_key(folder.data / "master.key"))
    assert new.fingerprint != old.fingerprint
    folder.check(folder.data, new)
    with pytest.raises(KeyFileError):
        old.cipher((folder.data / "shards" / SEGMENTS[0]).read_bytes())
    assert not rotation.is_under_way(folder.data)


def test_what_the_old_key_sealed_is_no_longer_in_any_file(folder: Folder) -> None:
    master = MasterKey(read_key(folder.data / "master.key"))
    store = SqliteStore(folder.data / "metadata.db")
    before = [each.value[-60:] for each in store.range("key/").records]
    store.close()
    (folder.data / "identities.db.imported").write_bytes(b"secrets of earlier versions")
    rotation.rotate(folder.data)
    files = b"".join(each.read_bytes() for each in folder.data.glob("*.db*"))
    assert not any(each in files for each in before)
    assert not (folder.data / "identities.db.imported").exists()
    assert master.fingerprint.encode() not in files


def interrupt(monkeypatch: pytest.MonkeyPatch, step: int) -> None:
    """Whoever would do the step with this number, of those that change files, is stopped before."""
    numbers = itertools.count()

    def stepped(original: Callable[..., Any]) -> Callable[..., Any]:
        def do(*arguments: Any, **options: Any) -> Any:
            if next(numbers) == step:
                raise Killed
            return original(*arguments, **options)

        return do

    for owner, name in (
        (os, "rename"),
        (os, "fsync"),
        (os, "unlink"),
        (Disk, "execute"),
        (SqliteStore, "transact"),
        (SqliteStore, "forget_history"),
    ):
        monkeypatch.setattr(owner, name, stepped(getattr(owner, name)))


def test_wherever_it_is_interrupted_a_start_finishes_it(folder: Folder, tmp_path: Path) -> None:
    interrupted = 0
    for step in itertools.count():
        data = tmp_path / f"copy-{step}"
        shutil.copytree(folder.data, data)
        with pytest.MonkeyPatch.context() as monkeypatch:
            interrupt(monkeypatch, step)
            try:
                rotation.rotate(data)
            except Killed:
                interrupted += rotation.is_under_way(data)
            else:
                break
        Stores(data, account=HOME).close()
        assert not rotation.is_under_way(data)
        folder.check(data, MasterKey(read_key(data / "master.key")))
        shutil.rmtree(data)
    assert step > interrupted > 10


def test_what_is_interrupted_twice_is_finished_by_the_third(folder: Folder) -> None:
    for step in (20, 12):
        with pytest.MonkeyPatch.context() as monkeypatch:
            interrupt(monkeypatch, step)
            with pytest.raises(Killed):
                rotation.rotate(folder.data)
        assert rotation.is_under_way(folder.data)
    rotation.rotate(folder.data)
    folder.check(folder.data, MasterKey(read_key(folder.data / "master.key")))


def test_nothing_changes_when_something_does_not_open(folder: Folder) -> None:
    broken = folder.data / "shards" / SEGMENTS[1]
    broken.write_bytes(bytes(40))
    before = {path: path.read_bytes() for path in folder.data.rglob("*.key")}
    with pytest.raises(KeyFileError, match="0002/keys/"):
        rotation.rotate(folder.data)
    assert {path: path.read_bytes() for path in folder.data.rglob("*.key")} == before
    assert not rotation.is_under_way(folder.data)


def test_a_secret_cannot_be_added_under_a_key_that_was_replaced_meanwhile(folder: Folder) -> None:
    with identities(folder.data, MasterKey(read_key(folder.data / "master.key"))) as late:
        user = late.user(HOME, ROOT)
        rotation.rotate(folder.data)
        with pytest.raises(KeyFileError, match="try again"):
            late.add_key(user)


def test_another_folders_master_key_is_refused(folder: Folder) -> None:
    with identities(folder.data, MasterKey(bytes(32))) as held, pytest.raises(KeyFileError, match="put the right one"):
        held.claim()


# the whole program


def test_messages_and_keys_outlive_a_rotation(tmp_path: Path) -> None:
    data = tmp_path / "data"
    with guarded(data) as server:
        root = server.root
        with server.client(keys=root) as sqs:
            url = sqs.create_queue(QueueName="jobs")["QueueUrl"]
            sqs.send_message(QueueUrl=url, MessageBody="from before")
        assert "Stop it" in run(data, "key", "rotate-master", status=2)
        server.stop()
    before = (data / "master.key").read_bytes()
    assert json.loads(run(data, "key", "rotate-master", "--json"))["secrets"] == 1
    assert (data / "master.key").read_bytes() != before
    assert "is new" in run(data, "key", "rotate-master")
    with guarded(data) as server, server.client(keys=root) as sqs:
        assert server.root == root
        assert [each["Body"] for each in drain(sqs, "jobs")] == ["from before"]


KILLED = """
import os, signal, sys
from pathlib import Path
from holdfast.cli import rotation
from holdfast.core.log import rewrap
def dies(*_):
    os.kill(os.getpid(), signal.SIGKILL)
setattr(*{"segments": (rewrap, "replace"), "secrets": (rotation.Identities, "reseal"),
          "name": (Path, "rename")}[sys.argv[2]], dies)
rotation.rotate(Path(sys.argv[1]))
"""


@pytest.mark.parametrize("step", ["segments", "secrets", "name"])
def test_a_killed_rotation_is_finished_by_the_next_start(tmp_path: Path, step: str) -> None:
    data = tmp_path / "data"
    with guarded(data) as server:
        root = server.root
        with server.client(keys=root) as sqs:
            sqs.send_message(QueueUrl=sqs.create_queue(QueueName="jobs")["QueueUrl"], MessageBody="from before")
        server.stop()
    killed = subprocess.run([sys.executable, "-c", KILLED, str(data), step], env=environment(), check=False)
    assert killed.returncode == -signal.SIGKILL
    assert "holdfast key rotate-master" in run(data, "env", status=2)
    with guarded(data) as server, server.client(keys=root) as sqs:
        assert "interrupted rotation" in server.output()
        assert [each["Body"] for each in drain(sqs, "jobs")] == ["from before"]


def test_a_folder_without_metadata_is_not_rotated(tmp_path: Path) -> None:
    create_key(tmp_path / "master.key")
    assert "start a server first" in run(tmp_path, "key", "rotate-master", status=2)
