"""The program that makes a snapshot: `python -m holdfast.backend.snapshotter FOLDER SHARD LSN`.

A process of its own, and of low priority, because it replays the log since the last snapshot: that would hold the
server's loop for seconds. Reads sealed segments, writes the next snapshot, prints what can be removed as JSON.
"""

import os
import sys
from pathlib import Path

import msgspec

from holdfast.backend.disk import Disk
from holdfast.core.shard import Shard
from holdfast.core.snapshot import advance_snapshot
from holdfast.core.types import Lsn, ShardId

NICENESS = 15


def main() -> None:
    os.nice(NICENESS)
    root, shard, upto = sys.argv[1:]
    disk = Disk(Path(root))
    advanced = disk.run(advance_snapshot(ShardId(int(shard)), Lsn(int(upto)), machine=Shard))
    disk.close()
    sys.stdout.buffer.write(msgspec.json.encode(advanced))


if __name__ == "__main__":
    main()
