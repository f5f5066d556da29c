"""What the core once made of the same bytes is not made of them again.

Work on files (core/log/files.py) is a function of what it is told: it has no clock, no chance and no state outside.
Several hosts do some of it on equal files: each replays the same log into the next snapshot of its own disk. The first
of them does it; the others ask their disks for the same, one operation at a time, and as long as each answer is what it
was then, the next operation is the one that followed then. At the first other answer, be it damage, another name or an
error, the core's own work goes on from what was said so far. Now and then it is done all the same, and has to come to
the same operations and the same result. Spare segments have other names where the shard is led; no work that is
recalled may depend on them, and that, too, is found out now and then.
"""

from collections.abc import Callable
from typing import Any, Final

from holdfast.core.log.files import FileOp, List, Work
from tests.sim.tally import Tally

KEPT: Final = 8  # pieces of work, the latest
DONE_ANYWAY: Final = 8  # one of so many

Said = list[tuple[FileOp, Any]]  # what was asked for, and the answer


class Recall:
    def __init__(self, tally: Tally) -> None:
        self._tally = tally
        self._known: dict[Any, tuple[Said, Any]] = {}  # with its result
        self._asked = 0

    def work(self, what: Any, make: Callable[[], Work[Any]]) -> Work[Any]:
        """As `make()`. `what` names it, and everything that it is made from but the answers."""
        if what not in self._known:
            return (yield from self._do(what, make(), [], None))
        self._asked += 1
        before, result = self._known[what]
        if self._asked % DONE_ANYWAY == 0:
            return (yield from self._do_again(what, make(), before, result))
        said: Said = []
        problem: OSError | None = None
        for op, expected in before:
            try:
                answer = yield op
            except OSError as raised:
                problem = raised
                break
            said.append((op, answer))
            if answer != expected and _without_spares(op, answer) != _without_spares(op, expected):
                break
        else:
            return result
        return (yield from self._do(what, make(), said, problem))

    def _do_again(self, what: Any, work: Work[Any], before: Said, result: Any) -> Work[Any]:
        answer = yield from self._do(what, work, [], None)
        said = self._known[what][0] if what in self._known else []
        now, then = ([(op, _without_spares(op, each)) for op, each in way] for way in (said, before))
        if [each for _, each in now] == [each for _, each in then]:
            self._tally.check("I21", (now, answer) == (then, result), f"{what}: equal files, and another result")
        return answer

    def _do(self, what: Any, work: Work[Any], said: Said, problem: OSError | None) -> Work[Any]:
        """The core's own, which has been told `said` so far, or `problem` after it."""
        is_whole = problem is None
        try:
            op = next(work)
            for _, answer in said:
                op = work.send(answer)
            while True:
                if problem is not None:
                    op, problem = work.throw(problem), None
                try:
                    answer = yield op
                except OSError as raised:
                    problem, is_whole = raised, False
                    continue
                said.append((op, list(answer) if isinstance(answer, list) else answer))
                op = work.send(answer)
        except StopIteration as end:
            if is_whole:
                self._keep(what, said, end.value)
            return end.value

    def _keep(self, what: Any, said: Said, result: Any) -> None:
        self._known[what] = (said, result)
        if len(self._known) > KEPT:
            del self._known[next(iter(self._known))]


def _without_spares(op: FileOp, answer: Any) -> Any:
    return [name for name in answer if not name.startswith("spare-")] if type(op) is List else answer
