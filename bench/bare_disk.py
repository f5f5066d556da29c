"""How long the disk itself takes: a frame's worth of bytes is written over zeros and synced, by nobody's server.

Whoever acknowledges only what is on the disk answers no sooner than this. It is measured in the moments between the
rounds of what it stands beside, since a disk that is shared with others is ten times slower now and then.

    python -m bench.bare_disk /var/tmp
"""

import os
import sys
import time
from pathlib import Path

from bench.histogram import Histogram

SECONDS = 2.0
FILE_BYTES = 16 << 20
FRAME_BYTES = 8192
GAP_S = 0.0005  # between two of them: a server also does something else than syncing
MS = 1e6


def syncs(folder: Path, seconds: float) -> Histogram:
    """Nanoseconds of each write and its fdatasync."""
    found, path, frame = Histogram(), folder / "bare-disk", b"x" * FRAME_BYTES
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_TRUNC, 0o600)
    try:
        os.pwrite(descriptor, bytes(FILE_BYTES), 0)
        os.fsync(descriptor)
        until, offset = time.perf_counter() + seconds, 0
        while time.perf_counter() < until:
            began = time.perf_counter_ns()
            os.pwrite(descriptor, frame, offset)
            os.fdatasync(descriptor)
            found.add(time.perf_counter_ns() - began)
            offset = (offset + FRAME_BYTES) % FILE_BYTES
            time.sleep(GAP_S)
    finally:
        os.close(descriptor)
        path.unlink()
    return found


def main() -> None:
    found = syncs(Path(sys.argv[1] if len(sys.argv) > 1 else "/var/tmp"), SECONDS)
    shown = ", ".join(f"p{percent:g} {found.percentile(percent) / MS:.2f} ms" for percent in (50, 99, 99.9, 100))
    print(f"{found.count} frames of {FRAME_BYTES} bytes synced in {SECONDS:g} s; {shown}")


if __name__ == "__main__":
    main()
