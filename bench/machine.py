"""What the figures were measured on."""

import os
import platform
import time
from pathlib import Path

_LOAD = "load average at the start"


def describe(folder: Path) -> dict[str, str]:
    """`folder`: where the servers keep their data."""
    return {
        "processor": _field("/proc/cpuinfo", "model name") or platform.machine(),
        "cores": str(len(os.sched_getaffinity(0))),
        "memory": f"{int(_field('/proc/meminfo', 'MemTotal').split()[0] or 0) / 2**20:.0f} GiB",
        "system": f"{platform.system()} {platform.release()}",
        "file system": file_system(folder),
        "python": platform.python_version(),
        _LOAD: f"{os.getloadavg()[0]:.1f}",
    }


def is_same(one: dict[str, str], other: dict[str, str]) -> bool:
    """By their descriptions; how busy it was may differ."""
    return {**one, _LOAD: ""} == {**other, _LOAD: ""}


def _field(file: str, name: str) -> str:
    lines = Path(file).read_text(encoding="utf-8").splitlines()
    return next((line.partition(":")[2].strip() for line in lines if line.startswith(name)), "0")


def file_system(folder: Path) -> str:
    """The kind of the innermost mount that holds the folder."""
    mounts = [line.split()[1:3] for line in Path("/proc/mounts").read_text(encoding="utf-8").splitlines()]
    path = str(folder.resolve())
    holding = [
        (len(point), kind) for point, kind in mounts if path == point or path.startswith(point.rstrip("/") + "/")
    ]
    return max(holding)[1] if holding else "unknown"


def busy_share(seconds: float = 1.0) -> float:
    """How much of the machine others use now: 0 is a quiet one, and figures of a busy one are noise."""
    before, start = _cpu_times(), time.process_time()
    time.sleep(seconds)
    after = _cpu_times()
    idle = after[3] + after[4] - before[3] - before[4]
    total = sum(after[:8]) - sum(before[:8])
    own = (time.process_time() - start) * os.sysconf("SC_CLK_TCK")
    return max(0.0, (total - idle - own) / max(1, total))


def _cpu_times() -> list[int]:
    return [int(word) for word in Path("/proc/stat").read_text(encoding="utf-8").splitlines()[0].split()[1:]]
