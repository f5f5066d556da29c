"""Says what is missing for `make compile`, and ends with 1 then."""

import shutil
import sys
import sysconfig
from pathlib import Path

if __name__ == "__main__":
    missing = []
    if shutil.which("cc") is None and shutil.which("gcc") is None:
        missing.append("a C compiler (Debian: gcc)")
    if not (Path(sysconfig.get_path("include")) / "Python.h").exists():
        missing.append("Python's headers (Debian: python3-dev)")
    if missing:
        print(f"make compile needs {' and '.join(missing)}. Without it everything works, only slower.", file=sys.stderr)
        sys.exit(1)
