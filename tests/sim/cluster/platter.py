"""What is really durable of the logs: read from the platters, by the simulator's own reading of the bytes.

    I5   enough disks hold a record when it is acknowledged
    I6   one (shard, epoch, lsn), the same bytes, wherever it ever stood
    I13  stamps never fall: not within a segment, nor behind anything acknowledged; and they are never ahead of time

A file is read once, as it grows; a frame that is asked for is looked at again, since files are cut and written anew.
"""

import struct
from typing import Final

from tests.sim.disk import Disk, File
from tests.sim.log import FrameSeen, frames
from tests.sim.tally import Tally
from tests.sim.world import World

SECTOR: Final = 512
_HEAD = struct.Struct("<IIIIIQ")


class Scan:
    __slots__ = ("end", "found")

    def __init__(self) -> None:
        self.end = SECTOR
        self.found: list[FrameSeen] = []


class Platters:
    def __init__(self, world: World, tally: Tally) -> None:
        self._world = world
        self._tally = tally
        self._scans: dict[File, Scan] = {}
        self._seen: dict[tuple[int, int, int], tuple[int, int, int]] = {}  # shard, epoch, lsn: its frame
        self._furthest: dict[tuple[str, int, int], int] = {}  # host, shard, epoch: the last lsn that was durable there
        self._reached: dict[int, tuple[int, int, int]] = {}  # shard: epoch, lsn and time of the last acknowledged

    def note(self, host: str, shard: int, file: File, path: str) -> None:
        """A segment was synced: its new frames have to be those that stand elsewhere under the same numbers."""
        where = f"{host} {path}"
        scan = self._scans.get(file)
        if scan is None or (scan.found and not _is_same(file, scan.found[-1])):  # new, or it was cut
            scan = self._scans[file] = Scan()
        for frame in frames(file.solid, scan.end):
            self._check_time(shard, frame, scan.found[-1].time if scan.found else 0, where)
            self._register(shard, frame, where)
            scan.found.append(frame)
            scan.end = frame.offset + -(-frame.length // SECTOR) * SECTOR
        if scan.found:
            last = scan.found[-1]
            key = (host, shard, last.epoch)
            self._furthest[key] = max(last.last, self._furthest.get(key, 0))

    def has_held(self, host: str, shard: int, *, epoch: int, lsn: int) -> bool:
        """The host had it on a disk once, as part of a segment."""
        return self._furthest.get((host, shard, epoch), 0) >= lsn

    def _register(self, shard: int, frame: FrameSeen, where: str) -> None:
        mine = (frame.first, frame.crc, frame.time)
        for lsn in range(frame.first, frame.first + frame.count):
            others = self._seen.setdefault((shard, frame.epoch, lsn), mine)
            if others != mine:
                self._tally.check("I6", False, f"{where}: epoch {frame.epoch} lsn {lsn} has other bytes than elsewhere")
        self._tally.counts["I6"] += 1

    def forget(self, disks: list[Disk]) -> None:
        """Files that are on none of these disks. What they held stays known: I6 compares it with later copies."""
        there = {file for disk in disks for names in disk.solid_names.values() for file in names.values()}
        there |= {file for disk in disks for names in disk.names.values() for file in names.values()}
        self._scans = {file: scan for file, scan in self._scans.items() if file in there}

    def _check_time(self, shard: int, frame: FrameSeen, before: int, where: str) -> None:
        now, time = self._world.now, frame.time
        epoch, lsn, reached = self._reached.get(shard, (0, 0, 0))
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
        logs = [name for name in names if name[0] != "s"]  # not spares
        if logs and self._has(names[max(logs)], epoch, lsn):  # nearly always
            return True
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
            scan = self._scans.get(file)
            frame = _find(scan, epoch, lsn) if scan is not None else None
            if frame is None:
                return False
            if _is_same(file, frame):
                return next(frames(file.solid, frame.offset), None) is not None
            self._scans[file] = scan = Scan()
            for each in frames(file.solid):
                scan.found.append(each)
                scan.end = each.offset + -(-each.length // SECTOR) * SECTOR
        return False


def _is_same(file: File, frame: FrameSeen) -> bool:
    if len(file.solid) < frame.offset + _HEAD.size:
        return False
    length, crc, _, epoch, count, first = _HEAD.unpack_from(file.solid, frame.offset)
    seen = (frame.length, frame.crc, frame.epoch, frame.count, frame.first)
    return seen == (length, crc, epoch, count, first)


def _find(scan: Scan, epoch: int, lsn: int) -> FrameSeen | None:
    for frame in reversed(scan.found):
        if frame.first <= lsn <= frame.last and frame.epoch == epoch:
            return frame
        if frame.last < lsn and frame.count:
            return None
    return None
