"""Rows of every kind, and a node's segments made of them."""

from pathlib import Path
from typing import Any

from holdfast.usage import schema, segment
from holdfast.usage.places import Place, Stream
from holdfast.usage.schema import Type

START = 1_800_000_000_000_000  # µs
WINDOW = 10_000_000


def row(kind: str, number: int = 0) -> tuple[Any, ...]:
    """Values that differ from column to column and from row to row."""
    values: list[Any] = []
    for place, column in enumerate(schema.columns(kind)):
        match column.type:
            case Type.TIME:
                values.append(START + number * WINDOW)
            case Type.TEXT:
                values.append(f"{column.name} {number}")
            case Type.NUMBER:
                values.append(100 * place + number)
            case Type.NUMBERS:
                values.append([number, *[0] * 31])
    return tuple(values)


class Node:
    """Writes segments as a node would, one after the other."""

    def __init__(self, root: Path, kind: str, name: str = "node-1") -> None:
        self.root = root
        self.kind = kind
        self.name = name
        self.epoch, self.seq = 1, 0
        self.previous = segment.NO_DIGEST
        self.lifetime = dict.fromkeys(segment.totals(kind, ()), 0)
        self.windows = 0

    def write(self, count: int, *, is_final: bool = False) -> Path:
        rows = [row(self.kind, self.windows) for _ in range(count)]
        self.windows += 1
        for name, added in segment.totals(self.kind, rows).items():
            self.lifetime[name] += added
        stream = Stream(self.kind, self.name, self.epoch)
        path = stream.path(self.root, self.seq)
        self.previous = segment.write(
            self.root,
            Place(stream, self.seq),
            rows,
            previous=self.previous,
            until=START + self.windows * WINDOW,
            lifetime=self.lifetime,
            is_final=is_final,
        )
        self.seq += 1
        if is_final:
            self.epoch, self.seq = self.epoch + 1, 0
        return path
