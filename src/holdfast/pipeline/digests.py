"""Audit files and the chain that seals them. Plain Python: `holdfast pipeline audit verify` needs no Spark.

    audit/2026/11/15/09.0.jsonl     the events of an hour, one per line, in order; part 0
    audit/2026/11/15/09.1.jsonl     events of that hour that came after it was sealed; part 1

    digest n = SHA-256 of: digest n-1, number, path, lines, SHA-256 of the file

Laws
- A sealed file is never written again. Whoever changes, removes, adds or reorders one has to change every later digest,
  and the last one is on each report and wherever somebody wrote it down.
- Every hour that closed has a part 0, if only an empty one: no events, and no file, differ.
"""

import datetime
import hashlib
import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

FIRST = "0" * 64  # before the first digest
SUFFIX = ".jsonl"


class Entry(msgspec.Struct, frozen=True):
    """One sealed file, a row of report.audit_digest."""

    number: int
    hour: datetime.datetime
    part: int
    path: str  # below the folder of the files
    lines: int
    sha256: str
    previous: str
    digest: str


class Event(msgspec.Struct, frozen=True):
    time: datetime.datetime
    uid: str
    text: str


def chained(previous: str, *, number: int, path: str, lines: int, sha256: str) -> str:
    return hashlib.sha256("\n".join([previous, str(number), path, str(lines), sha256]).encode()).hexdigest()


def seal(folder: Path, entries: Sequence[Entry], *, hours: Mapping[datetime.datetime, Sequence[Event]]) -> list[Entry]:
    """Writes files for what is not in one yet, and answers the entries to append. Call it for closed hours only."""
    added: list[Entry] = []
    known = list(entries)
    for hour in sorted(hours):
        own = [entry for entry in known if entry.hour == hour]
        sealed = {uid for entry in own for uid in uids(folder / entry.path)}
        events = sorted(
            (each for each in hours[hour] if each.uid not in sealed), key=lambda each: (each.time, each.uid)
        )
        if own and not events:
            continue
        entry = _write(folder, known[-1] if known else None, hour=hour, part=len(own), events=events)
        known.append(entry)
        added.append(entry)
    return added


def _write(folder: Path, before: Entry | None, *, hour: datetime.datetime, part: int, events: Sequence[Event]) -> Entry:
    name = f"{hour:%Y/%m/%d/%H}.{part}{SUFFIX}"
    data = "".join(f"{each.text}\n" for each in events).encode()
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_suffix(".tmp")
    with open(temporary, "wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
    temporary.rename(path)  # what a run left that died before its digest was committed is written again
    number, previous = (before.number + 1, before.digest) if before else (0, FIRST)
    sha256 = hashlib.sha256(data).hexdigest()
    digest = chained(previous, number=number, path=name, lines=len(events), sha256=sha256)
    return Entry(number, hour, part, name, len(events), sha256, previous, digest)


def uids(path: Path) -> Iterator[str]:
    for line in path.read_bytes().splitlines():
        yield msgspec.json.decode(line)["metadata"]["uid"]


class Finding(msgspec.Struct, frozen=True):
    path: str
    problem: str


def verify(folder: Path, entries: Sequence[Entry], *, events: Mapping[str, str] | None = None) -> list[Finding]:
    """What is wrong with the chain or a file. `events`, by uid, are the ledger's: they tell which line was changed."""
    found: list[Finding] = []
    previous = FIRST
    for number, entry in enumerate(sorted(entries, key=lambda each: each.number)):
        if entry.number != number:
            found.append(Finding(entry.path, f"the chain lacks digest {number}: an entry was removed"))
            return found
        digest = chained(previous, number=number, path=entry.path, lines=entry.lines, sha256=entry.sha256)
        if entry.previous != previous or entry.digest != digest:
            found.append(
                Finding(entry.path, f"digest {number} does not follow from the one before it: the chain was changed")
            )
        found += _file(folder, entry, events or {})
        previous = entry.digest
    known = {entry.path for entry in entries}
    strangers = (str(path.relative_to(folder)) for path in sorted(folder.rglob(f"*{SUFFIX}")))
    return found + [Finding(name, "no digest knows this file: it was added") for name in strangers if name not in known]


def _file(folder: Path, entry: Entry, events: Mapping[str, str]) -> Iterator[Finding]:
    try:
        data = (folder / entry.path).read_bytes()
    except OSError as problem:
        yield Finding(entry.path, f"cannot be read: {problem.strerror}")
        return
    if hashlib.sha256(data).hexdigest() == entry.sha256:
        return
    lines = data.decode(errors="replace").splitlines()
    wrong = [str(number) for number, line in enumerate(lines, 1) if events and line not in events.values()]
    where = f"line {', '.join(wrong[:5])} is not what the ledger has" if wrong else "its bytes are not what was sealed"
    yield Finding(entry.path, f"was changed: {where} ({len(lines)} lines, sealed with {entry.lines})")


def entry_of(row: Mapping[str, Any]) -> Entry:
    return Entry(**{name: row[name] for name in Entry.__struct_fields__})
