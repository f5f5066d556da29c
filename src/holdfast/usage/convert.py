"""Journals become segments: at a start, what an earlier one left; by `holdfast usage convert`, what was kept without
pyarrow.

An epoch is ended here, so it must be one that no server writes any more. May be cut short and repeated at any point: a
stretch that is in a segment is not put into another one, and files are removed when all of their epoch is in segments.
"""

import contextlib
import fcntl
import os
from collections.abc import Iterator
from pathlib import Path

from holdfast.runtime.logs import log
from holdfast.usage import journal, spool
from holdfast.usage.folders import make_folders
from holdfast.usage.journal import JournalError, Name, Reader
from holdfast.usage.rows import Stretch
from holdfast.usage.stores import Segments


def nodes(root: Path) -> list[str]:
    """Those that have journals."""
    folder = root / "journal"
    return sorted(each.name for each in folder.iterdir() if each.is_dir()) if folder.is_dir() else []


def keeping(root: Path) -> list[str]:
    """Those of them that keep complete windows in a journal, because their server has no pyarrow."""
    return [
        node
        for node in nodes(root)
        if any(each.number == journal.KEPT for each in journal.present(journal.folder_of(root, node)))
    ]


def finish_all(root: Path, node: str) -> int:
    """For a node that nobody is at the moment."""
    return finish(root, node, Segments(root, node), before=spool.last_epoch(root, node) + 1)


def follow(root: Path, node: str) -> int:
    """For a node that a server is, which writes its last epoch: all that it has kept, and the epochs before."""
    store, last = Segments(root, node), spool.last_epoch(root, node)
    count = finish(root, node, store, before=last)
    with _alone(root):
        store.begin(last)
        folder = journal.folder_of(root, node)
        kept = [each for each in journal.present(folder) if each == Name(last, journal.KEPT)]
        count += sum(store.take(each) for each in _stretches(folder, kept, is_live=True))
    return count


def finish(root: Path, node: str, store: Segments, *, before: int) -> int:
    """Puts all epochs below `before` into segments, and ends them. Answers how many windows that were."""
    folder = journal.folder_of(root, node)
    names = [each for each in journal.present(folder) if each.epoch < before]
    epochs = {each.epoch for each in names}
    if 0 < store.open_epoch < before:
        epochs.add(store.open_epoch)
    if not epochs:
        return 0
    count = 0
    with _alone(root):
        for epoch in sorted(epochs):
            of_epoch = [each for each in names if each.epoch == epoch]
            count += _finish_epoch(store, epoch, _stretches(folder, of_epoch))
            for each in of_epoch:
                each.path(folder).unlink(missing_ok=True)
    return count


@contextlib.contextmanager
def _alone(root: Path) -> Iterator[None]:
    """A server and a command may want to convert the same journals."""
    make_folders(root)
    descriptor = os.open(root / "convert.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def _finish_epoch(store: Segments, epoch: int, stretches: Iterator[Stretch]) -> int:
    store.begin(epoch)
    count, last = 0, None
    for each in stretches:
        if last is not None:
            count += store.take(last)
        last = each
    count += store.take(last or Stretch(store.until()), is_final=True)
    return count


def _stretches(folder: Path, names: list[Name], *, is_live: bool = False) -> Iterator[Stretch]:
    """Kept ones first; a journal that was kept and not removed is recognized by the store."""
    for name in names:
        path = name.path(folder)
        try:
            reader = Reader(path)
        except JournalError as problem:
            aside = path.with_suffix(".damaged")
            log.error("a usage journal is damaged and was put aside", reason=str(problem), aside=str(aside))
            path.rename(aside)
            continue
        if name.number == journal.KEPT:
            yield from (Stretch.of(batch.since, [batch]) for batch in reader)
        else:
            yield Stretch.of(reader.start, reader)
        if reader.torn and not is_live:
            log.warning("the end of a usage journal was torn by a crash", path=str(path), bytes=reader.torn)
