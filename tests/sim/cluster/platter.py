"""What is really durable of the logs: read from the platters, by the simulator's own reading of the bytes.

    I5   enough disks hold a record when it is acknowledged
    I6   one (shard, epoch, lsn), the same bytes, wherever it ever stood
    I13  stamps never fall: not within a segment, nor behind anything acknowledged; and they are never ahead of time

A file is read once, as it grows; a frame that is asked for is looked at again, since files are cut and written anew.
"""

import struct
from typing import Final

from tests.sim.disk import Disk, File
from tests.sim.log import FrameSeen, frame_at, frames
from tests.sim.tally import Tally
from tests.sim.world import World

SECTOR: Final = 512
_HEAD = struct.Struct("<IIIIIQ")  # of a frame, what tells it from any other: length, checksums, epoch, count, first lsn
HEAD: Final = _HEAD.size
NO_LENGTH: Final = bytes(4)  # where no frame begins
NOTHING: Final = (0, 0, 0)
NOWHERE: Final[tuple[str, File | None]] = ("", None)


class Scan:
    """What was found in a file. `head` are the bytes of the last frame's head: if they are others, the file was cut."""

    __slots__ = ("end", "found", "head")

    def __init__(self) -> None:
        self.end = SECTOR
        self.found: list[FrameSeen] = []
        self.head = bytearray()

    def add(self, frame: FrameSeen, data: bytearray) -> None:
        self.found.append(frame)
        self.end = frame.end
        self.head = data[frame.offset : frame.offset + HEAD]

    def is_of(self, data: bytearray) -> bool:
        if not self.found:
            return True
        last = self.found[-1]
        return data[last.offset : last.offset + HEAD] == self.head or _is_same(data, last)


class Platters:
    def __init__(self, world: World, tally: Tally) -> None:
        self._world = world
        self._tally = tally
        self._scans: dict[File, Scan] = {}
        self._latest: dict[tuple[Disk, int], tuple[str, File | None]] = {}  # the segment that was synced last
        self._seen: dict[tuple[int, int, int], tuple[int, int, int]] = {}  # shard, epoch, lsn: its frame
        self._furthest: dict[tuple[str, int, int], int] = {}  # host, shard, epoch: the last lsn that was durable there
        self._reached: dict[int, tuple[int, int, int]] = {}  # shard: epoch, lsn and time of the last acknowledged

    def note(self, host: str, disk: Disk, shard: int, name: str, file: File) -> None:
        """A segment was synced: its new frames have to be those that stand elsewhere under the same numbers."""
        data, scan = file.solid, self._scans.get(file)
        self._latest[disk, shard] = (name, file)
        if scan is None or not scan.is_of(data):  # new, or it was cut
            scan = self._scans[file] = Scan()
        found = scan.found
        while data[scan.end : scan.end + 4] != NO_LENGTH and (frame := frame_at(data, scan.end)) is not None:
            self._check_time(shard, frame, found[-1].time if found else 0, (host, name))
            self._register(shard, frame, (host, name))
            scan.add(frame, data)
        if found:
            last = found[-1]
            key = (host, shard, last.epoch)
            self._furthest[key] = max(last.last, self._furthest.get(key, 0))

    def has_held(self, host: str, shard: int, *, epoch: int, lsn: int) -> bool:
        """The host had it on a disk once, as part of a segment."""
        return self._furthest.get((host, shard, epoch), 0) >= lsn

    def _register(self, shard: int, frame: FrameSeen, where: tuple[str, str]) -> None:
        mine = (frame.first, frame.crc, frame.time)
        for lsn in range(frame.first, frame.last + 1):
            others = self._seen.setdefault((shard, frame.epoch, lsn), mine)
            if others != mine:
                self._tally.check("I6", False, f"{where}: epoch {frame.epoch} lsn {lsn} has other bytes than elsewhere")
        self._tally.counts["I6"] += 1

    def forget(self, disks: list[Disk]) -> None:
        """Files that are on none of these disks. What they held stays known: I6 compares it with later copies."""
        there = {file for disk in disks for names in disk.solid_names.values() for file in names.values()}
        there |= {file for disk in disks for names in disk.names.values() for file in names.values()}
        self._scans = {file: scan for file, scan in self._scans.items() if file in there}
        self._latest = {key: each for key, each in self._latest.items() if key[0] in disks}

    def _check_time(self, shard: int, frame: FrameSeen, before: int, where: tuple[str, str]) -> None:
        now, time = self._world.now, frame.time
        epoch, lsn, reached = self._reached.get(shard, NOTHING)
        is_of_log = frame.epoch >= epoch and frame.last > lsn  # unlike what a deposed primary still writes
        if not before <= time <= now or (is_of_log and time < reached):
            text = f"{where}: lsn {frame.first} of epoch {frame.epoch} is of {time}, behind {before}; lsn {lsn} was"
            self._tally.check("I13", False, f"{text} of {reached}; now it is {now}")
        self._tally.counts["I13"] += 1

    def acknowledged(self, shard: int, epoch: int, lsn: int) -> None:
        """From here on time goes forward."""
        seen = self._seen.get((shard, epoch, lsn))
        if seen is not None and lsn > self._reached.get(shard, (0, 0, 0))[1]:
            self._reached[shard] = (epoch, lsn, seen[2])

    def holds(self, disk: Disk, shard: int, *, epoch: int, lsn: int) -> bool:
        """The record, or a snapshot that covers it, is durable on this disk."""
        names = disk.solid_names[f"{shard}/segments"]
        name, file = self._latest.get((disk, shard), NOWHERE)
        if file is not None and names.get(name) is file and self._has(file, epoch, lsn):  # nearly always
            return True
        logs = [name for name in names if name[0] != "s"]  # not spares
        for name in sorted(logs, reverse=True):
            if int(name[:8], 16) <= epoch and int(name[9:25], 16) <= lsn and self._has(names[name], epoch, lsn):
                return True
        snapshots = disk.solid_names[f"{shard}/snapshots"]
        return any(name.endswith(".snap") and int(name[:16], 16) >= lsn for name in snapshots)

    def held(self, disk: Disk, shard: int, *, epoch: int, lsn: int) -> bool:
        """It lies among the segments that were put aside as a whole."""
        names = disk.solid_names[f"{shard}/quarantine"]
        whole = [name for name in names if name.endswith(".cut") and name[26:34] == "00000000"]
        return any(self._has(names[name], epoch, lsn) for name in whole)

    def _has(self, file: File, epoch: int, lsn: int) -> bool:
        for _ in range(2):
            scan = self._scans.get(file) or self._scan(file)  # a repaired one was synced under another name
            frame = _find(scan, epoch, lsn)
            if frame is None:
                return False
            if frame_at(file.solid, frame.offset) == frame:
                return True
            if _is_same(file.solid, frame):  # damaged: what lies behind it is as it was
                return False
            self._scan(file)  # it was cut
        return False

    def _scan(self, file: File) -> Scan:
        scan = self._scans[file] = Scan()
        for each in frames(file.solid):
            scan.add(each, file.solid)
        return scan


def _is_same(data: bytearray, frame: FrameSeen) -> bool:
    """By its head; whether it is whole is not looked at."""
    if len(data) < frame.offset + HEAD:
        return False
    length, crc, _, epoch, count, first = _HEAD.unpack_from(data, frame.offset)
    return (frame.length, frame.crc, frame.epoch, frame.count, frame.first) == (length, crc, epoch, count, first)


def _find(scan: Scan, epoch: int, lsn: int) -> FrameSeen | None:
    for frame in reversed(scan.found):
        if frame.first <= lsn <= frame.last and frame.epoch == epoch:
            return frame
        if frame.last < lsn and frame.count:
            return None
    return None
