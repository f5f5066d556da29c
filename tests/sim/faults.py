"""What befalls a host from outside: power, kills, pauses, clock jumps, full disks, damaged bytes. Drawn by the plan.

Bits are flipped only where the design promises to notice (RELIABILITY §1.9): in frames that a later frame or header
declares durable, and in files that carry their own digest. One flip per host at a time, so that the proof of one
damaged frame is not damaged itself.
"""

from collections.abc import Callable

from tests.sim.disk import SECTOR, File, Flip
from tests.sim.host import KILL, POWER, Host
from tests.sim.log import frames, header_durable
from tests.sim.world import MS, SECOND, World


class Faults:
    def __init__(self, world: World, host: Host) -> None:
        self._world = world
        self._host = host
        self.is_at_rest = False

    def start(self) -> None:
        plan = self._host.plan
        for mean_s, action in (
            (plan.power_s, lambda: self._host.crash(POWER, "")),
            (plan.kill_s, lambda: self._host.crash(KILL, "")),
            (plan.pause_s, self._pause),
            (plan.jump_s, self._jump),
            (plan.flip_s, self.flip),
            (plan.full_s, self._fill),
        ):
            if mean_s:
                self._repeat(int(mean_s * SECOND), action)

    def _repeat(self, mean: int, action: Callable[[], None]) -> None:
        def happen() -> None:
            if not self._host.is_healed:
                if not self.is_at_rest:
                    action()
                self._repeat(mean, action)

        self._world.after(self._world.gap(mean), happen)

    def _pause(self) -> None:
        """Often longer than any lease that clients ask for."""
        self._host.pause(self._world.rng.choice((50 * MS, SECOND, 7 * SECOND)))

    def _jump(self) -> None:
        hours = self._world.rng.choice((-30, -1, 1, 30))
        self._world.fault("clock jump", f"{hours} h")
        self._host.clock.jump(hours * 3_600_000)

    def _fill(self) -> None:
        """The disk is full, or nearly so, for a while."""
        disk = self._host.disk
        disk.budget = disk.used + self._world.between(0, 2 * self._host.plan.segment_bytes)
        self._world.fault("full disk")
        self._world.after(self._world.between(SECOND // 2, 3 * SECOND), self._free)

    def _free(self) -> None:
        self._host.disk.budget = None

    # Damaged bytes

    def flip(self) -> None:
        disk = self._host.disk
        if disk.flips:
            for flip in disk.repair():  # nobody read it: it is scrubbed
                self._world.note(f"repaired {flip.what}")
            self._host.repaired_at = self._world.now
            return
        root = str(self._world.rng.choice(self._host.shards))
        kind = self._world.rng.choice(("frame", "frame", "frame", "header", "snapshots", "index", "keys", ""))
        target = self._target(root, kind)
        if target is None:
            return
        file, offset, what = target
        if file.dirty or file.lost or offset >= len(file.solid):
            return
        flip = Flip(file, offset, 1 << self._world.between(0, 7), what)
        flip.turn()
        disk.flips.append(flip)
        self._world.fault("bit flip", what)
        if self._world.chance(0.5):
            self._world.after(self._world.between(0, SECOND // 2), self._restart)

    def _restart(self) -> None:
        if not self._host.is_healed:
            self._host.crash(KILL, "after a flip")

    def _target(self, root: str, kind: str) -> tuple[File, int, str] | None:
        if kind in ("frame", "header"):
            return self._in_log(root, kind)
        names = self._host.disk.solid_names[f"{root}/{kind}"]
        lasting = [name for name in sorted(names) if not name.endswith(".tmp") and "spare" not in name]
        if not lasting:
            return None
        name = self._world.rng.choice(lasting)
        file = names[name]
        return (file, self._world.rng.randrange(len(file.solid)), f"{root}/{kind}/{name}") if file.solid else None

    def _in_log(self, root: str, kind: str) -> tuple[File, int, str] | None:
        """A byte of a frame, or of the header before it, that something later on the platter declares durable."""
        names = self._host.disk.solid_names[f"{root}/segments"]
        stems = sorted((name for name in names if "spare" not in name), key=lambda name: name.partition("-")[2])
        places: list[tuple[File, int, int, str]] = []
        declared = -1
        for name in reversed(stems):
            file = names[name]
            found = list(frames(file.solid))
            for frame in reversed(found):
                if frame.count and frame.last <= declared and kind == "frame":
                    places.append((file, frame.offset, frame.length, f"{name} frame {frame.first}"))
                declared = max(declared, frame.durable)
            is_first_declared = bool(found) and found[0].count > 0 and found[0].last <= declared
            if kind == "header" and is_first_declared:
                places.append((file, 0, SECTOR, f"{name} header"))
            declared = max(declared, header_durable(file.solid))
        if not places:
            return None
        file, offset, length, what = self._world.rng.choice(places[:40])
        return file, offset + self._world.rng.randrange(length), what
