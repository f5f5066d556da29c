"""One server with authentication for all foreign clients, and their sessions, played side by side."""

from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor

import pytest

from tests.compat import environments
from tests.compat.foreign import CLIENTS, Session, play
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
