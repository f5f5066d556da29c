"""Changes of queues that another process comes before, on a real host."""

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from holdfast.backend.host import Host
from holdfast.core.coordination.catalogue import QueueRow
from holdfast.core.errors import QueueDoesNotExist
from holdfast.core.queue.command import Count, Drop
from holdfast.core.types import QueueName, ShardId, WallMs
from holdfast.frontend.changes import Changes
from holdfast.frontend.follow import Follow
from holdfast.frontend.keyring import Keyring
from holdfast.frontend.locate import Directory
from holdfast.metadata.catalogue import Catalogue
from holdfast.metadata.identities import Identities
from holdfast.metadata.service import Metadata
from holdfast.protocol.names import Site
from holdfast.runtime.crypto import MasterKey, ReceiptKey
from holdfast.stores.memory import MemoryStore

SHARD = ShardId(1)
NAME = QueueName("000000000000", "jobs")


def wired(root: Path) -> tuple[Host, Changes]:
    master, metadata = MasterKey(bytes(32)), Metadata(MemoryStore())
    host = Host(root, master)
    host.open([SHARD])
    directory = Directory(Site(), receipt_key=ReceiptKey(bytes(32)))
    follow = Follow(metadata, directory, Keyring(Identities(metadata, master), lambda _, __: None))
    follow.load()

    def at_once(work: Callable[[], Any]) -> "asyncio.Future[Any]":
        future = asyncio.get_running_loop().create_future()
        future.set_result(work())
        return future

    catalogue = Catalogue(metadata)
    return host, Changes(directory, follow, catalogue, backend=host, is_strict=True, in_thread=at_once)


async def make(changes: Changes) -> QueueRow:
    lane = changes.catalogue.new_lane(SHARD)
    row = QueueRow(NAME, lane, SHARD, {}, {}, WallMs(1), WallMs(1))
    await changes.configure(row, is_known=False)
    await changes.write(lambda: changes.catalogue.add(row))
    return row


def test_a_change_of_a_queue_that_was_just_deleted_does_not_make_its_lane_anew(tmp_path: Path) -> None:
    """Nobody would receive from it, and a redrive that remembers it would take messages there."""

    async def race() -> None:
        host, changes = wired(tmp_path / "data" / "shards")
        row = await make(changes)
        queue = changes.directory.get(NAME)
        assert queue is not None
        await changes.command(SHARD, Drop(row.lane))  # by another worker; this one has not heard of it
        wanted = msgspec.structs.replace(queue.row, attributes={"VisibilityTimeout": "5"}, version=2)
        with pytest.raises(QueueDoesNotExist):
            await changes.update(queue, wanted)
        with pytest.raises(QueueDoesNotExist):
            await changes.command(SHARD, Count(row.lane))
        await host.close()

    asyncio.run(race())
