"""A data folder that an earlier version wrote: three queues, four messages, a user, another account, a disabled key."""

import json
import sqlite3
import tarfile
from collections import Counter
from pathlib import Path

import pytest

from holdfast.core.coordination.identity import KEYS, key_of
from holdfast.core.coordination.store import Record
from holdfast.metadata import old_formats
from holdfast.metadata.service import MetadataError
from holdfast.stores.memory import MemoryStore
from tests.process.guarded import guarded, run
from tests.process.server import drain

OLD = Path(__file__).parent / "folders" / "catalogue-1.tar.xz"
HOME, AWAY = "000000000000", "111111111111"


def unpack(data: Path, *, is_whole: bool = True) -> None:
    """`is_whole`: with the messages."""
    with tarfile.open(OLD) as archive:
        archive.extraction_filter = getattr(tarfile, "data_filter", None)  # unknown to the first releases of 3.11
        members = [each for each in archive.getmembers() if is_whole or each.name.endswith(".db")]
        archive.extractall(data, members)


def make_version_2(path: Path) -> None:
    """It differed from the first by one column."""
    connection = sqlite3.connect(path)
    for table in ("queues", "former"):
        connection.execute(f"ALTER TABLE {table} ADD COLUMN account TEXT NOT NULL DEFAULT '{HOME}'")
    connection.execute("PRAGMA user_version = 2")
    connection.commit()
    connection.close()


def imported(data: Path) -> dict[str, Record]:
    store = MemoryStore()
    old_formats.prepare(store, data)
    return {each.key: each for each in store.range("").records}


def test_a_start_reads_it_with_everything_in_it(tmp_path: Path) -> None:
    data = tmp_path / "data"
    unpack(data)
    with guarded(data) as server, server.client(keys=server.root) as sqs:
        names = [each.rpartition("/")[2] for each in sqs.list_queues()["QueueUrls"]]
        assert names == ["dead", "events.fifo", "orders"]
        assert sqs.list_queue_tags(QueueUrl="dead")["Tags"] == {"team": "a"}
        held = sqs.get_queue_attributes(QueueUrl="orders", AttributeNames=["All"])["Attributes"]
        assert (held["VisibilityTimeout"], held["QueueArn"]) == ("7", f"arn:aws:sqs:us-east-1:{HOME}:orders")
        assert sqs.list_dead_letter_source_queues(QueueUrl="dead")["queueUrls"][0].endswith("/orders")
        server.stop()
    rows = {each["id"]: each for each in json.loads(run(data, "account", "ls", "--json"))}
    assert (rows[HOME]["users"], rows[AWAY]["active_keys"]) == (1, 1)
    assert not (data / "catalogue.db").exists()
    with guarded(data) as server, server.client(keys=server.root) as sqs:
        assert [each["Body"] for each in drain(sqs, "orders")] == ["order 0", "order 1", "order 2"]
        assert [each["Body"] for each in drain(sqs, "events.fifo")] == ["event"]
        made = sqs.create_queue(QueueName="new")["QueueUrl"]
        sqs.send_message(QueueUrl=made, MessageBody="on a lane that nobody had before")
        assert len(drain(sqs, made)) == 1


def test_all_of_it_becomes_records(tmp_path: Path) -> None:
    unpack(tmp_path, is_whole=False)
    records = imported(tmp_path)
    kinds = Counter(key.partition("/")[0] for key in records)
    assert kinds == {"queue": 3, "former": 1, "counter": 1, "account": 2, "user": 3, "key": 4, "used": 1, "format": 1}
    assert records["counter/lane"].value == b"4"
    assert b"sqs:ReceiveMessage" in records[f"user/{HOME}/worker"].value
    keys = [key_of(each) for key, each in records.items() if key.startswith(KEYS)]
    assert sorted(each.is_active for each in keys) == [False, True, True, True]


def test_the_format_with_accounts_says_the_same(tmp_path: Path) -> None:
    for version in ("1", "2"):
        unpack(tmp_path / version, is_whole=False)
    make_version_2(tmp_path / "2" / "catalogue.db")
    assert imported(tmp_path / "1") == imported(tmp_path / "2")


def test_what_a_crash_left_is_not_imported_twice(tmp_path: Path) -> None:
    unpack(tmp_path, is_whole=False)
    store = MemoryStore()
    old_formats.prepare(store, tmp_path)
    before = store.range("")
    for name in ("catalogue.db", "identities.db"):  # as if it had not been renamed yet
        (tmp_path / f"{name}.imported").rename(tmp_path / name)
    old_formats.prepare(store, tmp_path)
    assert store.range("") == before
    assert sorted(each.name for each in tmp_path.iterdir()) == ["catalogue.db.imported", "identities.db.imported"]


def test_a_format_that_is_not_known_is_refused_and_left_alone(tmp_path: Path) -> None:
    unpack(tmp_path, is_whole=False)
    connection = sqlite3.connect(tmp_path / "catalogue.db")
    connection.execute("PRAGMA user_version = 99")
    connection.close()
    with pytest.raises(MetadataError, match="format 99"):
        imported(tmp_path)
    assert (tmp_path / "identities.db").exists()
