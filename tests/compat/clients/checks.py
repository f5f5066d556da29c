"""What a program inside a client's environment uses to report. Only the standard library is certain to be there.

Each check is a function whose name is a sentence. `run` calls them in order and prints one JSON line for each; one that
fails does not stop the next.
"""

import json
import time
import traceback
from collections.abc import Awaitable, Callable, Iterable
from typing import Any

PATIENCE_S = 25.0


def run(checks: Iterable[Callable[..., Any]], *arguments: Any) -> None:
    for check in checks:
        problem = ""
        try:
            check(*arguments)
        except Exception:  # noqa: BLE001 - whatever a client raises is what is reported
            problem = traceback.format_exc()
        _report(check.__name__, problem)


async def run_async(checks: Iterable[Callable[..., Awaitable[None]]], *arguments: Any) -> None:
    for check in checks:
        problem = ""
        try:
            await check(*arguments)
        except Exception:  # noqa: BLE001 - whatever a client raises is what is reported
            problem = traceback.format_exc()
        _report(getattr(check, "__name__", ""), problem)


def _report(name: str, problem: str) -> None:
    print(json.dumps({"check": name.replace("_", " "), "problem": problem}), flush=True)


def eventually(condition: Callable[[], Any], *, patience_s: float = PATIENCE_S) -> Any:
    """The first true value of `condition`."""
    deadline = time.monotonic() + patience_s
    while not (value := condition()):
        assert time.monotonic() < deadline, f"waited {patience_s} s in vain"
        time.sleep(0.05)
    return value
