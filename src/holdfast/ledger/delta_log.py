"""The transaction ids of a Delta table: which `appId` stands at which number, at a version.

deltalake tells one id when it is asked for it, and not which there are; the ledger has to know all nodes that it ever
heard of. The log is an open format: newest checkpoint first, then the commits after it, each a file of JSON lines.

    _delta_log/00000000000000000040.checkpoint.parquet     everything up to version 40
    _delta_log/00000000000000000041.json                   what version 41 changed
"""

from pathlib import Path

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq

from holdfast.ledger.errors import LedgerError


class _Txn(msgspec.Struct, rename="camel"):
    app_id: str
    version: int


class _Line(msgspec.Struct):
    txn: _Txn | None = None


_decoder = msgspec.json.Decoder(_Line)


def transactions(table: Path, version: int) -> dict[str, int]:
    """O(commits since the last checkpoint, and ids in it)."""
    log = table / "_delta_log"
    begin, found = _checkpoint(log, version)
    for number in range(begin, version + 1):
        for line in _lines(log / f"{number:020d}.json"):
            if line.txn is not None:
                found[line.txn.app_id] = line.txn.version
    return found


def _checkpoint(log: Path, version: int) -> tuple[int, dict[str, int]]:
    """The first commit that is not in the newest checkpoint up to `version`, and the ids in that checkpoint."""
    numbers = [int(path.name[:20]) for path in log.glob("*.checkpoint.parquet")]
    newest = max((each for each in numbers if each <= version), default=-1)
    if newest < 0:
        return 0, {}
    rows = pq.read_table(log / f"{newest:020d}.checkpoint.parquet", columns=["txn"]).column("txn").to_pylist()
    return newest + 1, {row["appId"]: row["version"] for row in rows if row is not None}


def _lines(path: Path) -> list[_Line]:
    try:
        return [_decoder.decode(line) for line in path.read_bytes().splitlines() if line]
    except (OSError, msgspec.DecodeError, pa.ArrowException) as problem:
        raise LedgerError(f"{path} cannot be read, and the table's log needs it: {problem}") from None
