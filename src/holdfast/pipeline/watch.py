"""Watching: what is handed over is rolled up within seconds, for ever. What takes longer is done aside.

    look at the spool ──▶ take over, roll up ──▶ again, half a second later
                                 │
                                 ▼
                 aside, one at a time: check, close, `follow` (publish reports)

Laws
- Usage does not wait for a session that starts, for checks, or for reports. They read what was committed when they
  began, and commit to other tables; an hour that changes meanwhile is due again.
- Both are one run to everybody else, who is refused.
- `on_run` is called here, one at a time; `follow` is called aside.
"""

import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Final

from holdfast.ledger.errors import LedgerError
from holdfast.ledger.spool import Problem
from holdfast.pipeline.run import Ledger, Outcome

POLL_S: Final = 0.5
RESTED_S: Final = 10.0  # after an error, before it is tried again

Follow = Callable[[Ledger, Outcome], None]


def watch(
    ledger: Ledger,
    *,
    stop: Callable[[float], bool],
    on_run: Callable[[Outcome | LedgerError], None],
    follow: Follow = lambda _ledger, _done: None,
) -> None:
    """Until `stop`, which waits that many seconds or less. Tells every run that did something, or could not."""
    with ledger.alone(), _Aside(ledger.beside(), on_run=on_run, follow=follow) as aside:
        troubles: list[Problem] = []
        pause_s = POLL_S
        while not stop(pause_s):
            pause_s = POLL_S
            try:
                found = ledger.advance()
            except LedgerError as problem:
                on_run(problem)
                pause_s = RESTED_S
                continue
            if found.did_something or found.problems != troubles:
                on_run(found)
            troubles = found.problems
            aside.go_on(troubles, is_news=found.did_something)


class _Aside:
    """One thread, which does what takes long. On leaving, what is under way comes to its end."""

    def __init__(self, ledger: Ledger, *, on_run: Callable[[Outcome | LedgerError], None], follow: Follow) -> None:
        self._ledger = ledger
        self._on_run = on_run
        self._follow = follow
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="closing")
        self._running: Future[Outcome] | None = None
        self._is_news = True  # of the time before this process
        self._rests_until_s = 0.0

    def __enter__(self) -> "_Aside":
        return self

    def __exit__(self, *_: object) -> None:
        self._thread.shutdown()
        self._look()

    def go_on(self, problems: Sequence[Problem], *, is_news: bool) -> None:
        """Tells what came to its end, and begins anew when there is something to do and the thread is free."""
        self._is_news |= is_news
        self._look()
        if self._running is not None or time.monotonic() < self._rests_until_s:
            return
        if self._is_news or self._ledger.closable(problems):  # some hours close because time passes
            self._is_news = False
            self._running = self._thread.submit(self._work, list(problems))

    def _work(self, problems: Sequence[Problem]) -> Outcome:
        done = self._ledger.settle(problems)
        self._follow(self._ledger, done)
        return done

    def _look(self) -> None:
        """An error of ours is told, and tried again after a rest; any other ends the watch, here."""
        if self._running is None or not self._running.done():
            return
        ended, self._running = self._running, None
        try:
            done = ended.result()
        except LedgerError as problem:
            self._on_run(problem)
            self._is_news = True
            self._rests_until_s = time.monotonic() + RESTED_S
            return
        if done.did_something:
            self._on_run(done)
