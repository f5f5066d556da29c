"""A host: its shards, their folders, and the threads under them."""

import asyncio
import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final, NoReturn

from holdfast.backend.disk import Disk, make_folders
from holdfast.backend.lead import Lead
from holdfast.backend.letters import Reader
from holdfast.backend.survey import Depth, look
from holdfast.backend.upkeep import Upkeep
from holdfast.backend.writer import Writer
from holdfast.core.errors import HoldfastError, NotPrimary
from holdfast.core.log.primary import Primary
from holdfast.core.log.recovery import recover
from holdfast.core.queue.columns import Columns
from holdfast.core.queue.command import EMPTY_DELIVERY, Arrive, Command, Handover
from holdfast.core.queue.shard import Shard
from holdfast.core.types import Address, LaneId, ShardId
from holdfast.runtime.aside import step_aside
from holdfast.runtime.crypto import MasterKey
from holdfast.runtime.failpoint import failpoint
from holdfast.runtime.logs import log
from holdfast.runtime.metrics import Histogram
from holdfast.runtime.rpc import Call

EXIT_DISK: Final = 74  # EX_IOERR


def stop_now(problem: BaseException) -> NoReturn:
    """The disk or the log cannot be trusted any more: nothing else may be said to anybody."""
    try:
        # What the system or the log says can be told; the text of a mistake of ours may quote a message.
        reason = str(problem) if isinstance(problem, OSError | HoldfastError) else "a mistake in Holdfast"
        log.critical("stopped at once; what was not durable has not been acknowledged", reason=reason, problem=problem)
    finally:
        os._exit(EXIT_DISK)


class Host:
    """Leads all shards under `root`. Belongs to the running loop."""

    def __init__(self, root: Path, master: MasterKey, *, syncs: Histogram | None = None) -> None:
        """`syncs`: how long the disk takes is noted there."""
        self._root = root
        self._master = master
        self._loop = asyncio.get_running_loop()
        self._leads: dict[ShardId, Lead] = {}
        self.on_moved: Callable[[Handover, LaneId], None] | None = (
            None  # told of those that have arrived, and from where
        )
        self.elsewhere: Callable[[ShardId, Command, Call], None] | None = None  # where other shards are led
        self.expects_more: Callable[[], bool] | None = None  # whether more commands are on their way already
        self._upkeeps: list[Upkeep] = []
        self._writer = Writer(self._loop, fail=stop_now, syncs=syncs or Histogram())
        self._reading = ThreadPoolExecutor(1, thread_name_prefix="holdfast-reader")
        self._maintaining = ThreadPoolExecutor(1, thread_name_prefix="holdfast-maintenance", initializer=step_aside)
        self._preparing = ThreadPoolExecutor(1, thread_name_prefix="holdfast-spares")

    def open(self, shards: Sequence[ShardId]) -> None:
        """Recovers the shards, one after the other, in this thread."""
        for shard in shards:
            self._open_shard(shard)

    def _open_shard(self, shard: ShardId) -> None:
        root = self._root / f"{shard:04d}"
        make_folders(root)
        disk = Disk(root)
        recovered = disk.run(recover(shard, machine=Shard))
        disk.close()
        failpoint("shard recovered")
        primary = Primary(recovered.shard, recovered.journal)
        reader = Reader(
            root,
            primary.journal,
            self._master,
            thread=self._reading,
            to_loop=self._loop.call_soon_threadsafe,
            fail=stop_now,
        )
        lead = Lead(
            primary,
            root,
            reader,
            self._writer,
            hand_over=self._hand_over,
            on_moved=self._moved,
            expects_more=self._expects_more,
            fail=stop_now,
        )
        upkeep = Upkeep(
            root,
            primary,
            reader,
            self._master,
            thread=self._maintaining,
            preparing=self._preparing,
            submit=lead.ask,
            fail=stop_now,
        )
        upkeep.first_spare()
        lead.on_turn = upkeep.every_turn
        self._upkeeps.append(upkeep)
        self._leads[shard] = lead
        if recovered.replayed:
            log.info("shard recovered", shard=shard, records=recovered.replayed)
        if recovered.torn_bytes:
            log.warning(
                "a torn end of the log was cut off and kept in quarantine/", shard=shard, bytes=recovered.torn_bytes
            )

    def leads(self, shard: ShardId) -> bool:
        return shard in self._leads

    def submit(self, shard: ShardId, command: Command, call: Call, wait_s: int = 0) -> None:
        lead = self._leads.get(shard)
        if lead is None:
            raise NotPrimary
        lead.submit(command, call, wait_s)

    def submit_all(self, shard: ShardId, commands: Sequence[Command], call: Call) -> None:
        lead = self._leads.get(shard)
        if lead is None:
            raise NotPrimary
        lead.submit_all(commands, call)

    def submit_plain(self, shard: ShardId, batch: Columns, call: Call) -> None:
        lead = self._leads.get(shard)
        if lead is None:
            raise NotPrimary
        lead.submit_plain(batch, call)

    def end_turn(self, is_urgent: bool) -> None:
        for lead in self._leads.values():
            lead.end_turn(is_urgent=is_urgent)
        self._writer.give_way()

    def hear(self) -> None:
        """Of the disk, before the loop does."""
        self._writer.hear()

    def cancel(self, shard: ShardId, call: Call) -> bool:
        return self._leads[shard].cancel(call)

    def _hand_over(self, command: Arrive, target: Address, call: Call) -> None:
        lead = self._leads.get(target.shard)
        if lead is not None:
            lead.submit(command, call)
        elif self.elsewhere is not None:
            self.elsewhere(target.shard, command, call)

    def _moved(self, handover: Handover, lane: LaneId) -> None:
        if self.on_moved is not None:
            self.on_moved(handover, lane)

    def _expects_more(self) -> bool:
        return self.expects_more is not None and self.expects_more()

    def look(self, shard: ShardId, lane: LaneId) -> Depth | None:
        lead = self._leads.get(shard)
        return look(lead.primary.shard, lane) if lead is not None else None

    def polls(self) -> int:
        """Receives that wait."""
        return sum(len(lead.primary.polls) for lead in self._leads.values())

    async def drain(self) -> None:
        """Waiting receives end with empty answers; everything decided becomes durable and is answered."""
        for lead in self._leads.values():
            calls = lead.end_polls()
            await lead.drained()
            for call in calls:
                call.answered(EMPTY_DELIVERY, ())

    async def close(self) -> None:
        for lead in self._leads.values():
            await lead.drained()
        for upkeep in self._upkeeps:
            upkeep.stop()
        self._writer.close()
        self._reading.shutdown()
        self._maintaining.shutdown()
        self._preparing.shutdown()
        for upkeep in self._upkeeps:
            upkeep.close()
        for lead in self._leads.values():
            lead.close()
