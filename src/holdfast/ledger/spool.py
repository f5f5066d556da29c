"""What the spool has that the ledger does not: the next segments of every node, in order, each one checked.

    position of a node ──▶ its next segments, as far as they are contiguous and whole ──▶ ranges to take over

Laws
- A range has no hole. What lies behind a hole, a damaged file, an unknown version or a broken chain waits, and so do
  that node's hours; other nodes go on. The problem is answered, never skipped.
- An epoch begins when the one before it has ended: with its final segment.
- Every segment of a range is known to be whole: by the digest that its successor carries, or, the last one, by being
  read. So a changed byte is found before anything is counted.
- A limit is shared by the nodes, so that one that was away for a week does not keep the others waiting.
"""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import msgspec
import numpy as np
import pyarrow as pa

from holdfast.ledger.errors import LedgerError
from holdfast.ledger.positions import CHAIN_DIGITS, Position, Positions
from holdfast.ledger.tables import source_schema
from holdfast.usage import places, segment
from holdfast.usage.places import Stream
from holdfast.usage.segment import Footer, SegmentError

SEGMENTS_MAX: Final = 4096  # in one commit: bounds its size, and the work that a crash repeats


class Range(msgspec.Struct, frozen=True):
    """Segments `start` up to, not including, `end` of one epoch."""

    node: str
    epoch: int
    start: int
    end: int


class Problem(msgspec.Struct, frozen=True):
    """Why a node does not go on."""

    kind: str
    node: str
    what: str  # gap, damaged, unknown_version, broken_chain, counters
    detail: str


class Plan(msgspec.Struct, frozen=True):
    kind: str
    ranges: tuple[Range, ...]
    after: dict[str, Position]  # of the nodes in `ranges`, when these are in the ledger
    problems: tuple[Problem, ...]
    rows: int
    segments: int


class _Stopped(Exception):
    def __init__(self, what: str, detail: str) -> None:
        super().__init__(detail)
        self.what = what


def plan(root: Path, kind: str, *, positions: Positions, segments_max: int = SEGMENTS_MAX) -> Plan:
    """Reads every file of the ranges once, for its digest. Costs O(files), and nothing for a node without new ones."""
    present = {node: _waiting(root, kind, node, positions) for node in nodes(root, kind)}
    shares = _shares({node: len(found) for node, found in present.items()}, segments_max)
    ranges: list[Range] = []
    after: dict[str, Position] = {}
    problems: list[Problem] = []
    rows = 0
    for node, found in present.items():
        at = positions.get(node, Position())
        steps = _Steps(root, kind, node=node, at=at)
        try:
            steps.walk(found[: shares[node]], more=found[shares[node] : shares[node] + 1])
        except _Stopped as problem:
            problems.append(Problem(kind, node, problem.what, str(problem)))
        if steps.taken:
            ranges.extend(_ranges(node, steps.taken))
            after[node] = steps.at
            rows += sum(each.rows for each in steps.taken)
    segments = sum(each.end - each.start for each in ranges)
    return Plan(kind, tuple(ranges), after, tuple(problems), rows, segments)


def position_after(root: Path, kind: str, *, node: str, place: tuple[int, int]) -> Position:
    """Of a reader that has only `place`, epoch and number of the next segment: the one before tells the rest."""
    epoch, seq = place
    if not seq:
        return Position(epoch, 0)
    path = Stream(kind, node, epoch).path(root, seq - 1)
    if not path.exists():
        raise LedgerError(f"{path} was removed before all its readers had passed it")
    try:
        return _position(segment.read_footer(path), segment.digest(path))
    except SegmentError as problem:
        raise LedgerError(str(problem)) from None


def has_new(root: Path, kind: str, positions: Positions) -> bool:
    """Whether a node has a segment beyond its position. Opens no file."""
    return any(_waiting(root, kind, node, positions) for node in nodes(root, kind))


def nodes(root: Path, kind: str) -> list[str]:
    return sorted({each.node for each in places.streams(root, kind)})


def _waiting(root: Path, kind: str, node: str, positions: Positions) -> list[tuple[int, int]]:
    """Epoch and number of all segments of a node from its position on."""
    begin = positions.get(node, Position()).place
    streams = [each for each in places.streams(root, kind) if each.node == node and each.epoch >= begin[0]]
    found = [(each.epoch, seq) for each in streams for seq in places.numbers(root, each)]
    return [each for each in found if each >= begin]


def _shares(waiting: Mapping[str, int], limit: int) -> dict[str, int]:
    """The limit spread evenly; what a node does not need goes to the others. At least one each: no node starves."""
    shares: dict[str, int] = {}
    left, rest = max(limit, len(waiting)), len(waiting)
    for node, count in sorted(waiting.items(), key=lambda item: (item[1], item[0])):
        shares[node] = min(count, left // rest)
        left, rest = left - shares[node], rest - 1
    return shares


class _Steps:
    """Goes from segment to segment of a node, as far as each one follows from the one before."""

    def __init__(self, root: Path, kind: str, *, node: str, at: Position) -> None:
        self._root = root
        self._kind = kind
        self._node = node
        self.at = at
        self.taken: list[Footer] = []

    def walk(self, places_wanted: Sequence[tuple[int, int]], *, more: Sequence[tuple[int, int]]) -> None:
        """`more` is the one after the last that is wanted: only its footer is needed, to vouch for that one."""
        held: tuple[Footer, str] | None = None  # checked against what is before it, not yet vouched for
        for place in [*places_wanted, *more]:
            footer = self._next(place, held)
            if held is not None:
                self._take(*held)
            if place in more:
                return
            held = footer, segment.digest(self._path(place))
        if held is not None:
            self._read(held[0])
            self._take(*held)

    def _next(self, place: tuple[int, int], held: tuple[Footer, str] | None) -> Footer:
        """The footer at `place`, if that follows. When it does not, `held` has to be whole by itself; but where the
        chain is broken nobody knows which of the two is the wrong one, and neither is taken."""
        try:
            return self._follow(place, held)
        except _Stopped as problem:
            if held is not None and problem.what != "broken_chain" and self._is_whole(held[0]):
                self._take(*held)
            raise

    def _follow(self, place: tuple[int, int], held: tuple[Footer, str] | None) -> Footer:
        before = _position(*held) if held else self.at
        if place != before.place:
            missing = Stream(self._kind, self._node, before.place[0]).path(self._root, before.place[1])
            raise _Stopped("gap", f"{missing} is missing, and {self._path(place)} is there: bring it back")
        footer = self._footer(place)
        if before.chain and not footer.previous.startswith(f"{before.chain:0{CHAIN_DIGITS}x}"):
            raise _Stopped(
                "broken_chain",
                f"{self._path(place)} was written after another segment than the one before it: one of them was "
                "changed or exchanged; bring back the one that the node wrote",
            )
        _require_counters(before, footer, path=self._path(place))
        return footer

    def _footer(self, place: tuple[int, int]) -> Footer:
        try:
            return segment.read_footer(self._path(place))
        except segment.UnknownVersion as problem:
            raise _Stopped("unknown_version", str(problem)) from None
        except SegmentError as problem:
            raise _Stopped("damaged", f"{problem}; bring back the one that the node wrote") from None

    def _is_whole(self, footer: Footer) -> bool:
        try:
            self._read(footer)
        except _Stopped:
            return False
        return True

    def _read(self, footer: Footer) -> None:
        try:
            segment.read(self._path((footer.epoch, footer.seq)))
        except SegmentError as problem:
            raise _Stopped("damaged", f"{problem}; bring back the one that the node wrote") from None

    def _take(self, footer: Footer, digest: str) -> None:
        self.at = _position(footer, digest)
        self.taken.append(footer)

    def _path(self, place: tuple[int, int]) -> Path:
        return Stream(self._kind, self._node, place[0]).path(self._root, place[1])


def _position(footer: Footer, digest: str) -> Position:
    return Position(
        footer.epoch, footer.seq + 1, footer.is_final, footer.until, int(digest[:CHAIN_DIGITS], 16), footer.lifetime
    )


def _require_counters(before: Position, footer: Footer, *, path: Path) -> None:
    counted = before.lifetime.get("rows", 0) + footer.rows
    if footer.lifetime.get("rows") != counted:
        raise _Stopped(
            "counters",
            f"{path} says that its node wrote {footer.lifetime.get('rows')} rows so far; {counted} were handed over",
        )


def _ranges(node: str, taken: Sequence[Footer]) -> Iterator[Range]:
    for epoch in sorted({each.epoch for each in taken}):
        numbers = [each.seq for each in taken if each.epoch == epoch]
        yield Range(node, epoch, numbers[0], numbers[-1] + 1)


# --- the rows of a range ------------------------------------------------------------------------------


def read(root: Path, kind: str, ranges: Sequence[Range], *, batch_rows: int) -> Iterator[Any]:
    """Arrow batches of `tables.source_schema`. Small segments are put together: a batch costs more than a row."""
    waiting: list[Any] = []
    count = 0
    for each in ranges:
        for seq in range(each.start, each.end):
            waiting.append(_rows(root, kind, node=each.node, place=(each.epoch, seq)))
            count += waiting[-1].num_rows
            if count >= batch_rows:
                yield from pa.concat_tables(waiting).combine_chunks().to_batches(max_chunksize=batch_rows)
                waiting, count = [], 0
    yield from pa.concat_tables([source_schema(kind).empty_table(), *waiting]).combine_chunks().to_batches()


def _rows(root: Path, kind: str, *, node: str, place: tuple[int, int]) -> Any:
    epoch, seq = place
    try:
        _, table = segment.read(Stream(kind, node, epoch).path(root, seq))
    except SegmentError as problem:
        raise LedgerError(str(problem)) from None
    count = table.num_rows
    constants = [pa.repeat(pa.scalar(value), count) for value in (node, epoch, seq)]
    columns = [*table.columns, *constants, pa.array(np.arange(count))]
    wanted = source_schema(kind)
    return pa.table([_as(field.type, column) for column, field in zip(columns, wanted, strict=True)], schema=wanted)


def _as(kind: Any, column: Any) -> Any:
    return column if column.type == kind else column.cast(kind)  # asking costs a tenth of a cast to the same


def split(root: Path, kind: str, ranges: Sequence[Range], *, parts: int) -> list[list[Range]]:
    """Ranges for that many tasks, of about equal bytes. A task gets the same stretch of time of all nodes, as far as
    numbers tell: it then writes few hours, and each hour is written by few tasks."""
    segments = _abreast(ranges)
    sizes = [Stream(kind, each.node, each.epoch).path(root, each.start).stat().st_size for each in segments]
    share = sum(sizes) / max(parts, 1)
    tasks: list[list[Range]] = []
    filled = 0.0
    for each, size in zip(segments, sizes, strict=True):
        if not tasks or filled + size / 2 > share * len(tasks):
            tasks.append([])
        filled += size
        _extend(tasks[-1], each)
    return tasks


def _abreast(ranges: Sequence[Range]) -> list[Range]:
    """Single segments, nodes side by side: the third of ten comes with the thirtieth of a hundred."""
    of_node: dict[str, list[Range]] = {}
    for each in ranges:
        single = [Range(each.node, each.epoch, seq, seq + 1) for seq in range(each.start, each.end)]
        of_node.setdefault(each.node, []).extend(single)
    placed = [(number / len(many), each) for many in of_node.values() for number, each in enumerate(many)]
    return [each for _, each in sorted(placed, key=lambda item: (item[0], item[1].node))]


def _extend(task: list[Range], added: Range) -> None:
    last = task[-1] if task else None
    if last is not None and (last.node, last.epoch, last.end) == (added.node, added.epoch, added.start):
        task[-1] = Range(last.node, last.epoch, last.start, added.end)
    else:
        task.append(added)
