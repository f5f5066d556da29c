"""Clients that take too much of a real server without being anybody: time, memory, connections. Nobody signs here."""

import contextlib
import os
import random
import socket
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from holdfast.frontend import bounds
from tests.fuzz import http
from tests.process.guarded import guarded
from tests.process.server import Running, running

HEAD = b"POST / HTTP/1.1\r\nHost: queue\r\n"
LATE_S = 10  # what a busy machine may add to a time-out


@contextlib.contextmanager
def connected(server: Running, *, receive_buffer: int = 0) -> Iterator[socket.socket]:
    address = urlsplit(server.endpoint)
    with socket.socket() as client:
        if receive_buffer:
            client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
        client.settimeout(60)
        client.connect((address.hostname, address.port))
        yield client


def read_all(client: socket.socket) -> bytes:
    """Until the server ends the connection, one way or the other."""
    found = b""
    with contextlib.suppress(ConnectionError):
        while piece := client.recv(65_536):
            found += piece
    return found


def drip(client: socket.socket, begin: bytes, more: bytes) -> bytes:
    """Sends a little every half second until an answer comes or the connection ends."""
    client.sendall(begin)
    client.settimeout(0.5)
    end = time.monotonic() + bounds.HEAD_TIMEOUT_S + bounds.BODY_GRACE_S + LATE_S
    while time.monotonic() < end:
        try:
            return client.recv(65_536)
        except TimeoutError:
            client.sendall(more)
    return b"the server waits for ever"


def drip_target(server: Running) -> bytes:
    with connected(server) as client:
        return drip(client, b"POST /", b"a")


def drip_headers(server: Running) -> bytes:
    with connected(server) as client:
        return drip(client, HEAD, b"x: y\r\n")


def drip_body(server: Running) -> bytes:
    with connected(server) as client:
        return drip(client, HEAD + b"Content-Length: 100000\r\n\r\n", b"x")


def drip_chunks(server: Running) -> bytes:
    with connected(server) as client:
        return drip(client, HEAD + b"Transfer-Encoding: chunked\r\n\r\n", b"1\r\nx\r\n")


def read_nothing(server: Running) -> bytes:
    """Asks for more than the sockets' buffers hold, and reads it only when it must have been cut."""
    with connected(server, receive_buffer=4096) as client:
        client.sendall(
            HEAD + b"X-Amz-Target: AmazonSQS.ReceiveMessage\r\nContent-Length: 44\r\n\r\n"
            b'{"QueueUrl":"large","MaxNumberOfMessages":10'
            b"}"
        )
        time.sleep(bounds.UNREAD_TIMEOUT_S + 3)
        return b"whole" if read_all(client).endswith(b"}]}") else b"cut"


SLOW: dict[Callable[[Running], bytes], bytes] = {
    drip_target: b"HTTP/1.1 408 ",
    drip_headers: b"HTTP/1.1 408 ",
    drip_body: b"HTTP/1.1 408 ",
    drip_chunks: b"HTTP/1.1 408 ",
    read_nothing: b"cut",
}


def test_slow_clients_are_given_up_and_others_are_served_meanwhile(tmp_path: Path) -> None:
    with running(tmp_path / "data") as server, server.client() as sqs:
        url = sqs.create_queue(QueueName="large")["QueueUrl"]
        for _ in range(8):
            sqs.send_message(QueueUrl=url, MessageBody="x" * 1_000_000)
        answers: dict[Callable[[Running], bytes], bytes] = {}
        threads = [threading.Thread(target=lambda slow=slow: answers.__setitem__(slow, slow(server))) for slow in SLOW]
        for thread in threads:
            thread.start()
        while any(thread.is_alive() for thread in threads):
            assert sqs.list_queues()["QueueUrls"] == [url]
            time.sleep(0.5)
        assert {slow.__name__: answers[slow][: len(expected)] for slow, expected in SLOW.items()} == {
            slow.__name__: expected for slow, expected in SLOW.items()
        }


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    with guarded(tmp_path_factory.mktemp("abuse") / "data", "--connections-per-address", "5") as server:
        yield server


def test_one_address_may_not_have_all_connections(server: Running) -> None:
    request = b"GET /health HTTP/1.1\r\nHost: queue\r\n\r\n"
    with contextlib.ExitStack() as stack:
        clients = [stack.enter_context(connected(server)) for _ in range(7)]
        answers = []
        for client in clients:
            with contextlib.suppress(ConnectionError):
                client.sendall(request)
            answers.append(client.recv(65_536))
        assert [answer[9:12] for answer in answers] == [b"200"] * 5 + [b"503"] * 2
        assert b"--connections-per-address" in answers[-1]
    end = time.monotonic() + LATE_S
    while time.monotonic() < end:
        with connected(server) as client:
            client.sendall(request)
            if client.recv(65_536).startswith(b"HTTP/1.1 200"):
                return
        time.sleep(0.05)
    pytest.fail("connections that ended still count")


LARGE = {
    "a long target": (b"POST /" + b"a" * 20_000, b"431"),
    "a long header": (HEAD + b"x: " + b"a" * 20_000, b"431"),
    "many headers": (HEAD + b"x: y\r\n" * 64 + b"\r\n", b"431"),
    "a long body": (HEAD + b"Content-Length: 8388609\r\n\r\n", b"413"),
    "a long number": (HEAD + b"Content-Length: " + b"9" * 40 + b"\r\n\r\n", b"400"),
    "two lengths": (HEAD + b"Content-Length: 1\r\nContent-Length: 2\r\n\r\nab", b"400"),
    "a length and chunks": (HEAD + b"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", b"400"),
}


@pytest.mark.parametrize("name", LARGE)
def test_what_is_too_large_is_refused_while_it_arrives(server: Running, name: str) -> None:
    data, status = LARGE[name]
    with connected(server) as client:
        client.sendall(data)
        assert read_all(client)[9:12] == status


def memory_kib(server: Running) -> int:
    lines = Path(f"/proc/{server.process.pid}/status").read_text(encoding="ascii").splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmRSS:"))


@pytest.mark.skipif(not os.path.exists("/proc/self/status"), reason="memory is read from /proc")
def test_bytes_without_end_take_no_memory(server: Running) -> None:
    """Chunk extensions, trailers and refused bodies: sent as long as the server takes them."""
    chunked = HEAD + b"Transfer-Encoding: chunked\r\n\r\n"
    before = memory_kib(server)
    for begin, more in (
        (chunked + b"1;", b"x" * 65_536),
        (chunked + b"0\r\nx: ", b"x" * 65_536),
        (chunked + b"0\r\n", b"x: y\r\n" * 10_000),
        (HEAD + b"Content-Length: 8388609\r\n\r\n", b"x" * 65_536),
        (b"\r\n", b"\r\n" * 32_768),
    ):
        with connected(server) as client, contextlib.suppress(ConnectionError):
            client.sendall(begin)
            for _ in range(500):
                client.sendall(more)
    assert memory_kib(server) - before < 32_768


def test_streams_of_nonsense_leave_a_server_that_serves(server: Running) -> None:
    """Some of what tests/fuzz/http.py makes, on real sockets, where a mistake in the loop would stop the process."""
    chance = random.Random("sockets")
    for number in range(300):
        stream = (http.odd_stream, http.damaged_stream, http.noise)[number % 3](chance)
        with connected(server) as client, contextlib.suppress(ConnectionError):
            client.sendall(stream)
            client.shutdown(socket.SHUT_WR)
            read_all(client)
    with connected(server) as client:
        client.sendall(b"GET /health HTTP/1.1\r\nHost: queue\r\n\r\n")
        assert client.recv(65_536).startswith(b"HTTP/1.1 200")
    assert "Traceback" not in server.output()
