"""The table of wrong requests: each is refused as it says, in both dialects, and afterwards nothing has changed."""

from collections.abc import Iterator

import pytest

from holdfast.protocol import actions
from tests.compatibility.claims import proves
from tests.process import wrong_requests
from tests.process.server import Running, running
from tests.process.wrong_requests import DIALECTS, EXTENSIONS, NAMING_A_QUEUE, Row

ACTIONS = sorted(each.__name__ for each in (*actions.ACTIONS, *actions.EXTENSIONS))
ROWS = wrong_requests.rows()


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    with running(tmp_path_factory.mktemp("refusals") / "data", "--log-level", "debug") as server:
        yield server


@pytest.fixture(scope="module")
def known(server: Running) -> dict[str, str]:
    """What the table only names."""
    return wrong_requests.furnish(server)


def rows_of(action: str) -> list[Row]:
    return [row for row in ROWS if row.action == action or (row.action == "*" and action in NAMING_A_QUEUE)]


def expected(row: Row, dialect: str, known: dict[str, str]) -> str:
    """Empty: the dialect cannot say what is wrong."""
    answer = row.answers[dialect]
    if answer == "-":
        return ""
    if dialect == "query" and answer == row.answers["json"]:
        code, status, text = answer.split(" ", 2)
        answer = f"{wrong_requests.in_query(code)} {status} {wrong_requests.worded(text)}"
    return wrong_requests.fill(answer, known)


def test_every_action_has_its_wrong_requests() -> None:
    assert {row.action for row in ROWS} <= {*ACTIONS, "*"}
    for action in ACTIONS:
        assert len(rows_of(action)) >= 5, action


@proves("errors-in-both-dialects")
@pytest.mark.parametrize("action", ACTIONS)
def test_wrong_requests_are_refused_and_change_nothing(server: Running, known: dict[str, str], action: str) -> None:
    before = wrong_requests.state(server)
    for dialect in DIALECTS if action not in EXTENSIONS else ("json",):
        for row in rows_of(action):
            wanted = expected(row, dialect, known)
            if wanted:
                said = wrong_requests.refusal(server, action, row.parameters(known), dialect=dialect)
                assert str(said) == wanted, (dialect, row.text)
    assert wrong_requests.state(server) == before


def test_extensions_are_unknown_to_the_older_dialect(server: Running) -> None:
    for action in EXTENSIONS:
        said = wrong_requests.refusal(server, action, {"QueueUrl": "jobs"}, dialect="query")
        assert str(said) == f"InvalidAction 400 The action {action} is not valid for this endpoint."


def test_nothing_of_requests_and_messages_is_in_the_log(server: Running, known: dict[str, str]) -> None:
    """Comes last."""
    log = server.output()
    assert "Traceback" not in log
    for text in (*known.values(), "stays", "in flight", "a" * 60, "garbage", "nowhere", "Colour", "bell"):
        assert text not in log
