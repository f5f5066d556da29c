"""One server with authentication for all foreign clients, their sessions, played side by side, and boto3."""

import hashlib
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import pytest

from tests.compat import environments
from tests.compat.foreign import CLIENTS, Session, play
from tests.compat.ledger import Ledger
from tests.compatibility.claims import expanded
from tests.compatibility.semantics import SEMANTICS
from tests.process.guarded import Guarded, guarded


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Guarded]:
    with guarded(tmp_path_factory.mktemp("compat") / "data") as server:
        yield server


@pytest.fixture(scope="session")
def sessions(server: Guarded, tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Future[Session]]]:
    """The first test that asks starts all of them."""
    folder = tmp_path_factory.mktemp("clients")
    with ThreadPoolExecutor(environments.AT_ONCE) as threads:
        yield {name: threads.submit(play, client, server, folder / name) for name, client in CLIENTS.items()}


@pytest.fixture
def sqs(server: Guarded, request: pytest.FixtureRequest) -> Iterator[Any]:
    """boto3 1.44. After the test, what it claims to prove has to have been in its requests and replies."""
    with server.client(keys=server.root) as client:
        ledger = Ledger(client)
        yield client
    claims = [claim for mark in request.node.iter_markers("proves") for claim in mark.args]
    claimed = {each for claim in claims for each in expanded(claim)}
    assert claimed - ledger.used - SEMANTICS.keys() == set(), "claimed, but in no request and no reply"


@pytest.fixture
def name(request: pytest.FixtureRequest) -> str:
    return hashlib.sha256(request.node.nodeid.encode()).hexdigest()[:40]


@pytest.fixture
def url(sqs: Any, name: str) -> str:
    made: str = sqs.create_queue(QueueName=name)["QueueUrl"]
    return made
