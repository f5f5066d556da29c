"""Where the simulator runs fastest: `python -m tests.sim.compiled` prints the folder to start it in.

`make compile-sim` (scripts/compile_sim.py) leaves a copy of core and simulator with its hot modules compiled. It is
used while nothing that it was made of is newer; otherwise the source is.
"""

from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[2]
MADE_OF: Final = ("src", "tests/sim", "scripts", "hatch_build.py")


def target(root: Path) -> Path:
    """Where the copy is. In it, there is none."""
    return root / "build" / "compiled-sim"


def ready(root: Path) -> Path:
    """A file that is there when all is compiled, and as old as what was compiled."""
    return target(root) / ".ready"


def fastest(root: Path = ROOT) -> Path:
    if not ready(root).exists():
        return root
    made = ready(root).stat().st_mtime
    files = [path for name in MADE_OF for path in (root / name, *(root / name).rglob("*"))]
    sources = [path for path in files if path.suffix in (".py", ".h", ".txt")]
    return root if any(path.stat().st_mtime > made for path in sources) else target(root)


if __name__ == "__main__":
    print(fastest())
