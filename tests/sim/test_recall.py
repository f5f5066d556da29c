"""Work that was done before on equal files: the same operations and the same result, or the core's own work."""

import errno
from typing import Any

import pytest

from holdfast.core.log.files import FileOp, List, Read, Work, Write
from tests.sim.recall import DONE_ANYWAY, Recall
from tests.sim.replayed import run
from tests.sim.tally import Tally
from tests.sim.world import Violation


class Copying:
    """Joins all files into one; counts how often that was really done."""

    def __init__(self) -> None:
        self.done = 0
        self.sign = b"+"

    def __call__(self) -> Work[bytes]:
        parts = []
        for name in (yield List("")):
            try:
                parts.append((yield Read(name, 0, 10)))
            except OSError:
                parts.append(b"lost")
        self.done += 1
        yield Write("all", 0, self.sign.join(parts))
        return b"".join(parts)


class Files:
    def __init__(self, **files: bytes) -> None:
        self.files = files
        self.asked: list[FileOp] = []

    def do(self, op: FileOp) -> Any:
        self.asked.append(op)
        match op:
            case List():
                return sorted(self.files)
            case Read():
                return self.files[op.path]
            case Write():
                self.files[op.path] = op.data
        return None


def test_equal_files_are_asked_the_same_and_the_work_is_done_once() -> None:
    recall, copying = Recall(Tally()), Copying()
    disks = [Files(a=b"one", b=b"two") for _ in range(3)]
    assert [run(recall.work("copy", copying), disk.do) for disk in disks] == [b"onetwo"] * 3
    assert copying.done == 1
    assert disks[0].asked == disks[1].asked == disks[2].asked
    assert [disk.files["all"] for disk in disks] == [b"one+two"] * 3


@pytest.mark.parametrize("files", [{"a": b"one", "b": b"2"}, {"a": b"one"}, {"a": b"one", "b": b"two", "c": b"3"}, {}])
def test_other_files_are_worked_on(files: dict[str, bytes]) -> None:
    recall, copying = Recall(Tally()), Copying()
    run(recall.work("copy", copying), Files(a=b"one", b=b"two").do)
    assert run(recall.work("copy", copying), Files(**files).do) == b"".join(files.values())
    assert copying.done == 2


def test_an_error_is_for_the_work_and_what_follows_it_is_not_recalled() -> None:
    recall, copying = Recall(Tally()), Copying()
    run(recall.work("copy", copying), Files(a=b"one", b=b"two").do)
    for done in (2, 3):
        work = recall.work("copy", copying)
        assert next(work) == List("")
        assert work.send(["a", "b"]) == Read("a", 0, 10)
        assert work.throw(OSError(errno.EIO, "read")) == Read("b", 0, 10)
        assert work.send(b"two") == Write("all", 0, b"lost+two")
        with pytest.raises(StopIteration, match="losttwo"):
            work.send(None)
        assert copying.done == done


def test_now_and_then_it_is_done_again_and_has_to_come_out_the_same() -> None:
    recall, copying = Recall(Tally()), Copying()
    for _ in range(2 * DONE_ANYWAY):
        run(recall.work("copy", copying), Files(a=b"one", b=b"two").do)
    assert copying.done == 2
    copying.sign = b"-"
    with pytest.raises(Violation, match="another result"):
        run(recall.work("copy", copying), Files(a=b"one", b=b"two").do)


def test_spares_may_have_other_names() -> None:
    def first_log() -> Work[Any]:
        names = yield List("")
        done.append(names)
        return (yield Read(next(name for name in names if not name.startswith("spare-")), 0, 10))

    recall, done = Recall(Tally()), list[Any]()
    disks = [Files(**{"log": b"one", f"spare-{number}": b""}) for number in range(3)]
    assert [run(recall.work("look", first_log), disk.do) for disk in disks] == [b"one"] * 3
    assert len(done) == 1


def test_work_that_depends_on_spares_is_noticed() -> None:
    def names() -> Work[int]:
        return len((yield List("")))

    recall = Recall(Tally())
    disks = [Files(**{"log": b"", f"spare-{number}": b""}) for number in range(DONE_ANYWAY)]
    for disk in disks:
        run(recall.work("look", names), disk.do)
    with pytest.raises(Violation, match="another result"):
        run(recall.work("look", names), Files(log=b"").do)
