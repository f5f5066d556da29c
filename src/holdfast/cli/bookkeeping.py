"""Usage, wired: what the roles have counted and noticed goes to the recorder soon after, and each second.

tallies ─┐
audit ───┼─▶ Books, in the loop ─▶ Batch ─▶ Recorder, a thread ─▶ files
queues ──┤
letters ─┘
"""

import asyncio
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Final

import msgspec

from holdfast.backend.host import Host, stop_now
from holdfast.backend.survey import Depth
from holdfast.cli.crew import Worker
from holdfast.core import usage
from holdfast.core.limits import IN_FLIGHT_MAX
from holdfast.core.queue.command import Handover
from holdfast.core.queue.receipt import message_id_text
from holdfast.core.types import Cause, LaneId
from holdfast.frontend.locate import Directory, Queue
from holdfast.frontend.reach import Reach
from holdfast.frontend.trail import Trail
from holdfast.protocol import attributes, content, receives
from holdfast.runtime import clock
from holdfast.runtime.config.settings import Config
from holdfast.runtime.logs import log
from holdfast.runtime.metrics import Meter
from holdfast.usage import nodes, schema
from holdfast.usage.recorder import Recorder
from holdfast.usage.rows import ROWS_MAX, Batch, Row

TURN_US: Final = 1_000_000  # between two syncs: a power cut loses at most what was counted in this time
SOON_S: Final = 0.05  # from the first count to its hand-over: what a killed process takes with it, at most
CELL_S: Final = 0.0016  # a hand-over waits so long for each cell of the one before: together 0.5 % of the time
_HOUR_US: Final = 3_600_000_000
LOOK_S: Final = 60.0  # between two looks at all queues
LOOKED_AT_ONCE: Final = 100  # queues; then requests have their turn


class Books:
    """Belongs to the loop."""

    def __init__(self, meter: Meter, recorder: Recorder | None, *, audit: str) -> None:
        self.recorder = recorder  # None: counted for metrics only
        self.meter = meter
        self._audit = audit
        self._noted: dict[str, list[Row]] = {}
        self._since = _floor(clock.wall_us())
        self._turning: asyncio.TimerHandle | None = None
        self._soon: asyncio.TimerHandle | None = None  # what was counted waits for it
        self._pause_s = SOON_S
        self._looking: asyncio.Task[None] | None = None
        self._look: Callable[[], Coroutine[None, None, None]] | None = None
        self._was_used: set[int] = set()  # lanes that had messages at the last look
        self._expired: dict[int, int] = {}  # by lane, as of the last look
        self._redriven: dict[int, int] = {}  # by lane, since the last look
        self._told_hour = 0  # in which all tags were told
        self._dropped = 0

    @property
    def has_trouble(self) -> bool:
        """What was counted is not on disk."""
        return self.recorder is not None and bool(self.recorder.trouble)

    @property
    def dropped(self) -> int:
        """Rows that there was no room for; counts are never dropped."""
        return self._dropped + (self.recorder.dropped if self.recorder is not None else 0)

    def trail(self, reach: Reach) -> Trail | None:
        if self.recorder is None or self._audit == "off":
            return None
        return Trail(lambda row: self._note(schema.AUDIT, row), reach, has_data=self._audit == "all")

    def start(self, directory: Directory, host: Host) -> None:
        self._arm()
        if self.recorder is not None:
            self.meter.tell(self._hand_over_soon)
            host.on_moved = lambda handover, lane: self._moved(directory, handover, lane)
            self._expired = {queue.lane: seen.expired for queue in directory if (seen := _depth(host, queue))}
            self._look = lambda: self.look(directory, host)
            self._looking = asyncio.create_task(self._keep_looking(self._look))

    async def close(self) -> None:
        """After the last reply."""
        if self._turning is not None:
            self._turning.cancel()
        if self._looking is not None:
            self._looking.cancel()
        if self.recorder is not None:
            if self._look is not None:
                await self._look()
            self._turn()
            if self._soon is not None:
                self._soon.cancel()
            await asyncio.to_thread(self.recorder.close)

    def _hand_over_soon(self) -> None:
        """Sooner than the second is over, as far as that is cheap."""
        if self._soon is None:
            self._soon = asyncio.get_running_loop().call_later(self._pause_s, self._hand_over)

    def _hand_over(self) -> None:
        self._soon = None
        self._turn()

    def _turn_on(self) -> None:
        self._turn()
        self._arm()

    def _arm(self) -> None:
        """When the next second begins, so that windows do."""
        left_us = TURN_US - clock.wall_us() % TURN_US
        self._turning = asyncio.get_running_loop().call_later(left_us / 1e6, self._turn_on)

    def _turn(self) -> None:
        if self.recorder is None:
            self.meter.turn()
        elif not self.recorder.is_behind:
            since, self._since = self._since, max(self._since, _floor(clock.wall_us()))
            noted, self._noted = self._noted, {}
            counted = self.meter.turn()
            self._pause_s = min(TURN_US / 1e6, max(SOON_S, len(counted) * CELL_S))
            self.recorder.put(Batch(since, self._since, counted, noted))

    def _note(self, kind: str, row: Row) -> None:
        rows = self._noted.setdefault(kind, [])
        if len(rows) < ROWS_MAX:
            rows.append(row)
            self._hand_over_soon()
        else:
            self._dropped += 1

    # queues

    async def _keep_looking(self, look: Callable[[], Coroutine[None, None, None]]) -> None:
        """A task that fails is noticed by nobody, so that ends the process."""
        while True:
            await asyncio.sleep(LOOK_S)
            try:
                await look()
            except Exception as problem:  # noqa: BLE001 - the root of a task
                stop_now(problem)

    async def look(self, directory: Directory, host: Host) -> None:
        """At all queues. One that is empty, was so the last time and has lost nothing since is passed over, but for its
        tags, which are told each hour."""
        used: set[int] = set()
        hour = clock.wall_us() // _HOUR_US
        is_new_hour, self._told_hour = hour != self._told_hour, hour
        for number, queue in enumerate(directory):
            depth = _depth(host, queue)
            if depth is not None:
                if depth.visible or depth.not_visible or depth.delayed:
                    used.add(queue.lane)
                expired = depth.expired - self._expired.get(queue.lane, 0)
                lost = (expired, self._redriven.pop(queue.lane, 0))
                self._expired[queue.lane] = depth.expired
                is_told = is_new_hour and bool(queue.row.tags)
                if is_told or any(lost) or queue.lane in used or queue.lane in self._was_used:
                    self._note(schema.QUEUE_STATE, _state(queue, depth, lost))
            if number % LOOKED_AT_ONCE == LOOKED_AT_ONCE - 1:
                await asyncio.sleep(0)
        self._was_used = used

    # messages that went to another queue

    def _moved(self, directory: Directory, handover: Handover, lane: LaneId) -> None:
        if handover.cause is Cause.REDRIVE:
            self._redriven[lane] = self._redriven.get(lane, 0) + 1
        else:
            self._dead_letter(directory, handover, lane)

    def _dead_letter(self, directory: Directory, handover: Handover, lane: LaneId) -> None:
        source = directory.name_of_lane(lane)
        to = directory.name_of_lane(handover.lane)
        stored = content.unpack(handover.content)
        self._note(
            schema.DEAD_LETTER,
            (
                clock.wall_us(),
                source.account if source else "",
                source.name if source else "",
                to.name if to else "",
                message_id_text(handover.message_id),
                receives.cause_text(handover.cause),
                handover.count,
                handover.size,
                stored.extras.reason,
                usage.shape(content.text(stored)),
                stored.extras.consumer,
            ),
        )


def _floor(moment: int) -> int:
    """What happened since the second began goes into the batch that ends with it."""
    return moment - moment % TURN_US


def _depth(host: Host, queue: Queue) -> Depth | None:
    return host.look(queue.shard, queue.lane)


def _state(queue: Queue, depth: Depth, lost: tuple[int, int]) -> Row:
    """`lost`: messages that expired, and that were redriven, since the last row."""
    policy = queue.row.attributes.get("RedrivePolicy")
    redrive = attributes.redrive_policy(policy) if policy else None
    return (
        clock.wall_us(),
        queue.name.account,
        queue.name.name,
        "fifo" if queue.is_fifo else "standard",
        depth.visible,
        depth.not_visible,
        depth.delayed,
        depth.bytes,
        depth.oldest_s,
        queue.config.retention_s,
        IN_FLIGHT_MAX,
        queue.config.messages_max,
        queue.config.bytes_max,
        redrive.receives_max if redrive else 0,
        redrive.target_arn.rpartition(":")[2] if redrive else "",
        *lost,
        msgspec.json.encode(queue.row.tags, order="sorted").decode() if queue.row.tags else "",
    )


def name_server(config: Config, data: Path) -> str:
    """As it is called in its usage folder; empty when usage is not written down. Ephemeral servers would take it with
    them."""
    if not config.usage.enabled or (config.server.ephemeral and config.usage.folder is None):
        return ""
    try:
        return config.usage.node or nodes.server_name(_root(config, data))
    except OSError as problem:  # a full disk must not keep consumers from their messages
        log.error("usage is not written down", reason=str(problem))
        return ""


def _root(config: Config, data: Path) -> Path:
    return config.usage.folder.absolute() if config.usage.folder else data / "usage"


def open_books(config: Config, data: Path, *, worker: Worker, meter: Meter) -> Books:
    server = name_server(config, data)
    if not server:
        return Books(meter, None, audit="off")
    asked, root = config.usage, _root(config, data)
    recorder = Recorder(
        root,
        nodes.node_name(server, index=worker.index, count=worker.count),
        others=nodes.others(root, server, count=worker.count) if worker.index == 0 else [],
        window_us=asked.window_s * 1_000_000,
        bytes_max=asked.room_mib << 20,
    )
    return Books(meter, recorder, audit=asked.audit)
