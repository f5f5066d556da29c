"""Lines about the process: their shape, and what never gets into them."""

import io
import json
import logging
from collections.abc import Iterator

import pytest
import structlog

from holdfast.metadata.identities import Credentials
from holdfast.runtime import logs
from holdfast.runtime.logs import log


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture(autouse=True)
def _restored() -> Iterator[None]:
    yield
    structlog.reset_defaults()
    logging.basicConfig(handlers=[], force=True)


def test_elsewhere_than_on_a_terminal_a_line_is_one_object() -> None:
    stream = io.StringIO()
    logs.configure("auto", "info", to=stream)
    log.info("shard recovered", shard=1)
    log.debug("not at this level")
    (line,) = stream.getvalue().splitlines()
    said = json.loads(line)
    assert list(said) == ["time", "level", "event", "shard"]
    assert (said["level"], said["event"], said["shard"]) == ("info", "shard recovered", 1)


def test_on_a_terminal_a_line_is_for_people() -> None:
    stream = Terminal()
    logs.configure("auto", "info", to=stream)
    log.info("shard recovered", shard=1)
    assert "shard recovered" in stream.getvalue()
    assert not stream.getvalue().startswith("{")


def test_the_style_can_be_chosen() -> None:
    stream = Terminal()
    logs.configure("json", "info", to=stream)
    log.warning("said")
    assert json.loads(stream.getvalue())["level"] == "warning"


def test_of_an_exception_the_places_are_told_and_not_the_text() -> None:
    stream = io.StringIO()
    logs.configure("json", "info", to=stream)
    try:
        raise KeyError("canary-body")
    except KeyError as problem:
        log.error("a request failed", problem=problem)
    said = json.loads(stream.getvalue())
    assert said["problem"] == "KeyError"
    assert said["at"].endswith("test_of_an_exception_the_places_are_told_and_not_the_text")
    assert "canary" not in stream.getvalue()


def test_values_that_may_hold_secrets_become_the_name_of_their_type() -> None:
    stream = io.StringIO()
    logs.configure("json", "info", to=stream)
    log.info("said", key=Credentials("AKIA", "canary-secret"), body=b"canary-body", headers={"a": "canary"})
    said = json.loads(stream.getvalue())
    assert (said["key"], said["body"], said["headers"]) == ("Credentials", "bytes", "dict")


def test_what_libraries_log_becomes_a_line_like_ours() -> None:
    stream = io.StringIO()
    logs.configure("json", "info", to=stream)
    try:
        raise ValueError("canary")
    except ValueError:
        logging.getLogger("asyncio").exception("a task failed")
    said = json.loads(stream.getvalue())
    assert (said["level"], said["event"], said["logger"], said["problem"]) == (
        "error",
        "a task failed",
        "asyncio",
        "ValueError",
    )
    assert "canary" not in stream.getvalue()
