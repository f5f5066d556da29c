"""The program that makes a snapshot: `python -m holdfast.backend.snapshotter FOLDER SHARD LSN`.

For states that take too long to write down in the server's loop. A process of its own, and of lower priority, because
it replays the log since the last snapshot, which takes seconds. Reads sealed segments, writes the next snapshot,
prints what can be removed as JSON.
"""

import errno
import os
import sys
from pathlib import Path

import msgspec

from holdfast.backend.disk import Disk
from holdfast.core.log.segment_files import remove_files
from holdfast.core.log.snapshot import advance_snapshot
from holdfast.core.queue.shard import Shard
from holdfast.core.types import Lsn, ShardId
from holdfast.runtime.failpoint import failpoint

NICENESS = 5  # a quarter of a busy core, more than replay needs to keep up with it; at 15 it never would
NO_SPACE = 75  # status: EX_TEMPFAIL


def main() -> None:
    os.nice(NICENESS)
    root, shard, upto = sys.argv[1:]
    disk = Disk(Path(root))
    try:
        advanced = disk.run(advance_snapshot(ShardId(int(shard)), Lsn(int(upto)), machine=Shard))
    except OSError as problem:
        if problem.errno != errno.ENOSPC:
            raise
        disk.run(remove_files("snapshots", [f"{int(upto):016x}.snap.tmp"]))  # it takes the space that is missing
        sys.exit(NO_SPACE)
    disk.close()
    failpoint("snapshotter done")
    sys.stdout.buffer.write(msgspec.json.encode(advanced))


if __name__ == "__main__":
    main()
