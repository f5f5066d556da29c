"""What a process has to say about itself, on standard error: for people on a terminal, elsewhere one JSON object per
line.

    log.info("shard recovered", shard=1, records=17)

Laws
- No bodies, no secrets. A field is a number or a text that we chose; whatever else is handed in becomes the name of its
  type. Of an exception the type and the places are logged, not its text, which may quote a request.
- Nothing is logged per request: a busy server would do little else. Counters are for that (the admin port's /metrics).
"""

import logging
import sys
import traceback
from collections.abc import MutableMapping
from typing import Any, TextIO

import msgspec
import structlog
from structlog.typing import FilteringBoundLogger, Processor, WrappedLogger

Event = MutableMapping[str, Any]

log: FilteringBoundLogger = structlog.get_logger()


def configure(style: str, level: str, *, to: TextIO | None = None) -> None:
    """Once per process. `style` is pretty, json, or auto: pretty on a terminal."""
    stream = sys.stderr if to is None else to
    is_terminal = stream.isatty()
    is_pretty = style == "pretty" or (style == "auto" and is_terminal)
    structlog.configure(
        processors=[_places, _plain, structlog.processors.add_log_level, *_rendering(is_pretty, is_terminal)],
        wrapper_class=structlog.make_filtering_bound_logger(getattr(logging, level.upper())),
        logger_factory=structlog.WriteLoggerFactory(stream),
        cache_logger_on_first_use=False,
    )
    logging.basicConfig(handlers=[_Foreign()], level=logging.WARNING, force=True)


def _rendering(is_pretty: bool, is_terminal: bool) -> list[Processor]:
    if is_pretty:
        clock = structlog.processors.TimeStamper(fmt="%H:%M:%S", utc=False)
        return [clock, structlog.dev.ConsoleRenderer(colors=is_terminal, pad_event_to=0)]
    return [structlog.processors.TimeStamper(fmt="iso", utc=True, key="time"), _as_json]


def _as_json(_: WrappedLogger, __: str, event: Event) -> str:
    first = {name: event.pop(name) for name in ("time", "level", "event")}
    return msgspec.json.encode({**first, **event}).decode()


def _places(_: WrappedLogger, __: str, event: Event) -> Event:
    """What went wrong and where, innermost last."""
    problem = event.pop("problem", None)
    if isinstance(problem, BaseException):
        frames = traceback.extract_tb(problem.__traceback__)
        event["problem"] = type(problem).__name__
        event["at"] = " > ".join(f"{frame.filename}:{frame.lineno} {frame.name}" for frame in frames)
    return event


def _plain(_: WrappedLogger, __: str, event: Event) -> Event:
    for name, value in event.items():
        if not isinstance(value, str | int | float | bool | None):
            event[name] = type(value).__name__
    return event


class _Foreign(logging.Handler):
    """What libraries log becomes a line like ours."""

    def emit(self, record: logging.LogRecord) -> None:
        problem = record.exc_info[1] if record.exc_info else None
        fields = {"problem": problem} if problem is not None else {}
        log.log(record.levelno, record.getMessage(), logger=record.name, **fields)
