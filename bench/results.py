"""What a run found, as it is kept in bench/results/*.json. Tables, pages and claims are made from this alone."""

from pathlib import Path
from statistics import median

import msgspec

from bench.throughput import Sample

OURS = "Holdfast"
OPEN = "Holdfast open"  # without signatures, as its peers are
GENERATOR_BOUND = 0.9  # of its core; a rate measured there is a lower bound


class Facts(msgspec.Struct, frozen=True):
    """About a contender."""

    version: str
    is_durable: bool
    setting: str


class Spread(msgspec.Struct, frozen=True):
    """Of several rounds."""

    middle: float
    lowest: float
    highest: float


class Results(msgspec.Struct):
    when: str
    note: str
    machine: dict[str, str]
    settings: dict[str, str]
    contenders: dict[str, Facts] = {}
    cold: list[str] = []  # still gained speed when the time for warming up was over: a ratio to these flatters us
    absent: dict[str, str] = {}
    problems: dict[str, str] = {}  # what was tried and failed, by name
    samples: dict[str, dict[str, list[Sample]]] = {}  # mode, contender, rounds in order
    figures: dict[str, float] = {}  # of the experiments, by name with unit
    curves: dict[str, list[tuple[float, float]]] = {}

    def of(self, mode: str, name: str) -> list[Sample]:
        return self.samples.get(mode, {}).get(name, [])

    def rate(self, mode: str, name: str) -> Spread | None:
        return spread([each.rate for each in self.of(mode, name)])

    def cpu_us(self, mode: str, name: str) -> Spread | None:
        return spread([each.cpu_us for each in self.of(mode, name)])

    def ratio(self, mode: str, peer: str, *, ours: str = OURS) -> Spread | None:
        """Our rate by theirs, round by round: both met the same weather."""
        pairs = zip(self.of(mode, ours), self.of(mode, peer), strict=False)
        return spread([ours.rate / theirs.rate for ours, theirs in pairs if theirs.messages])

    def cpu_ratio(self, mode: str, peer: str, *, ours: str = OURS) -> Spread | None:
        """Their CPU per message by ours: what neighbours on the machine disturb least."""
        pairs = zip(self.of(mode, ours), self.of(mode, peer), strict=False)
        return spread([theirs.cpu_us / ours.cpu_us for ours, theirs in pairs if theirs.messages and ours.cpu_s])

    def disturbance(self) -> float:
        """The median over all runs of what neighbours took of a core."""
        found = spread([each.disturbance for by in self.samples.values() for rounds in by.values() for each in rounds])
        return found.middle if found else 0.0

    def is_generator_bound(self, mode: str, name: str) -> bool:
        return any(each.generator_load > GENERATOR_BOUND for each in self.of(mode, name))


def spread(values: list[float]) -> Spread | None:
    return Spread(median(values), min(values), max(values)) if values else None


def save(results: Results, file: Path) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(msgspec.json.format(msgspec.json.encode(results), indent=1) + b"\n")


def load(file: Path) -> Results:
    return msgspec.json.decode(file.read_bytes(), type=Results)
