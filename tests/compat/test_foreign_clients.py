"""Clients that others wrote, unchanged, each in its own environment, against a server that checks signatures."""

from concurrent.futures import Future

import pytest

from tests.compat import environments
from tests.compat.foreign import CLIENTS, Session

CHECKS = [(name, check) for name, client in CLIENTS.items() for check in client.checks]


@pytest.mark.parametrize(("name", "check"), CHECKS, ids=[f"{name}: {check}" for name, check in CHECKS])
def test_a_foreign_client_works_unchanged(sessions: dict[str, Future[Session]], name: str, check: str) -> None:
    try:
        session = sessions[name].result()
    except environments.Missing as problem:
        pytest.skip(f"{CLIENTS[name].title.upper()} IS NOT TESTED HERE: {problem}")
    assert check in session.problems, f"never ran\n{session.rest}"
    assert not session.problems[check], f"{session.problems[check]}\n{session.rest}"
