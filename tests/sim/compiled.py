"""Where the simulator runs fastest: `python -m tests.sim.compiled` prints the folder to start it in.

`make compile-sim` (scripts/compile_sim.py) leaves a copy of core and simulator with its hot modules compiled. It is
used while nothing that it was made of is newer; otherwise the source is.
"""

from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[2]
TARGET: Final = ROOT / "build" / "compiled-sim"
READY: Final = TARGET / ".ready"  # as old as what was compiled
MADE_OF: Final = ("src", "tests/sim", "scripts", "hatch_build.py")


def fastest() -> Path:
    if not READY.exists():
        return ROOT
    made = READY.stat().st_mtime
    files = [path for name in MADE_OF for path in (ROOT / name, *(ROOT / name).rglob("*"))]
    sources = [path for path in files if path.suffix in (".py", ".h", ".txt")]
    return ROOT if any(path.stat().st_mtime > made for path in sources) else TARGET


if __name__ == "__main__":
    print(fastest())
