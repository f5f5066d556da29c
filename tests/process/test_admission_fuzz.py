"""Changed requests against the front-end itself, from bytes to commands: the HTTP parser, the dialects and admission.

Requests that botocore signed are changed in two ways. Changes to what a signature covers must be refused, every one.
Changes anywhere, also where they may mean nothing, must be refused or do exactly what was signed.

HOLDFAST_FUZZ=100000 tries more; HOLDFAST_FUZZ_SEED another sequence.
"""

import asyncio
import os
import random
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any
from urllib.parse import urlsplit

import pytest
from botocore.auth import SigV4Auth, SigV4QueryAuth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials

from holdfast.core.coordination.catalogue import QueueRow
from holdfast.core.coordination.identity import ROOT
from holdfast.core.queue.columns import Columns
from holdfast.core.queue.command import Command
from holdfast.core.types import LaneId, QueueName, ShardId, WallMs
from holdfast.frontend.admit import Signatures
from holdfast.frontend.companions import Companions
from holdfast.frontend.connection import Connection
from holdfast.frontend.keyring import Keyring
from holdfast.frontend.locate import Directory
from holdfast.frontend.server import Server
from holdfast.frontend.service import Service
from holdfast.metadata.identities import Identities
from holdfast.metadata.service import Metadata
from holdfast.protocol.names import Site
from holdfast.runtime.crypto import MasterKey, ReceiptKey
from holdfast.runtime.rpc import Call
from holdfast.stores.memory import MemoryStore

TRIES = int(os.environ.get("HOLDFAST_FUZZ", "20000"))
SEED = os.environ.get("HOLDFAST_FUZZ_SEED", "holdfast")
PATIENCE_S = 20.0  # unless more was asked for
HOST = "localhost:9324"
JSON = {"X-Amz-Target": "AmazonSQS.SendMessage", "Content-Type": "application/x-amz-json-1.0"}
FORM = {"Content-Type": "application/x-www-form-urlencoded; charset=utf-8"}
HEX = b"0123456789abcdef"


class Wire(asyncio.Transport):
    def __init__(self) -> None:
        super().__init__()
        self.written = b""

    def write(self, data: bytes | bytearray | memoryview) -> None:
        self.written += data

    def can_write_eof(self) -> bool:
        return True

    def nothing(self, *_: Any, **__: Any) -> None:
        pass

    write_eof = close = abort = pause_reading = resume_reading = set_write_buffer_limits = nothing


class Commands:
    """A back-end that notes what it is told and never answers."""

    def __init__(self) -> None:
        self.taken: list[Command] = []

    def submit(self, _shard: ShardId, command: Command, _call: Call, _wait_s: int = 0) -> None:
        self.taken.append(command)

    def submit_all(self, _shard: ShardId, commands: Sequence[Command], _call: Call) -> None:
        self.taken.extend(commands)

    def submit_plain(self, _shard: ShardId, batch: Columns, _call: Call) -> None:
        self.taken.extend(batch.apart())

    def cancel(self, _shard: ShardId, _call: Call) -> bool:
        return False


class FrontEnd:
    def __init__(self) -> None:
        self.backend = Commands()
        self.identities = Identities(Metadata(MemoryStore()), MasterKey(bytes(32)))
        self.identities.add_account("000000000000")
        made = self.identities.add_key(self.identities.user("000000000000", ROOT))
        self.credentials = Credentials(made.id, made.secret)
        directory = Directory(Site(), receipt_key=ReceiptKey(bytes(32)))
        for number, name in enumerate(("q", "r"), 1):
            directory.put(
                QueueRow(QueueName("000000000000", name), LaneId(number), ShardId(1), {}, {}, WallMs(0), WallMs(0))
            )
        gate = Signatures(directory, Keyring(self.identities, lambda _key, _day: None))
        service = Service(directory, self.backend, gate, receipt_key=ReceiptKey(bytes(32)), others={})
        sqs = Companions(gate, service.serve, service.prepare)
        self._server = Server(sqs.serve, sqs.prepare, boot="boot-", soon=lambda work: work())

    def outcome(self, data: bytes) -> tuple[list[Command], bytes]:
        """What the back-end is told, and what is answered, if anything."""
        self.backend.taken = []
        wire, connection = Wire(), Connection(self._server)
        connection.connection_made(wire)
        connection.data_received(data)
        connection.connection_lost(None)
        return self.backend.taken, wire.written


@pytest.fixture
def front_end() -> FrontEnd:
    return FrontEnd()


def sign(method: str, target: str, credentials: Credentials, *, is_presigned: bool = False, **parts: Any) -> bytes:
    request = AWSRequest(method, f"http://{HOST}{target}", **parts)
    if is_presigned:
        SigV4QueryAuth(credentials, "sqs", "us-east-1", expires=3600).add_auth(request)
    else:
        SigV4Auth(credentials, "sqs", "us-east-1").add_auth(request)
    prepared = request.prepare()
    url, body = urlsplit(prepared.url), prepared.body or b""
    headers = {"Host": HOST, **dict(prepared.headers), "Content-Length": str(len(body))}
    lines = [f"{method} {url.path}{'?' * bool(url.query)}{url.query} HTTP/1.1"]
    lines += [f"{name}: {_text(value)}" for name, value in headers.items()]
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + body


def _text(value: str | bytes) -> str:
    return value if isinstance(value, str) else value.decode()


def signed_requests(credentials: Credentials) -> dict[str, bytes]:
    send = b'{"QueueUrl":"http://localhost:9324/000000000000/q","MessageBody":"hello"}'
    form = b"Action=SendMessage&QueueUrl=http%3A%2F%2Flocalhost%3A9324%2F000000000000%2Fq&MessageBody=hello"
    get = "/000000000000/q?Action=SendMessage&MessageBody=hello&Version=2012-11-05"
    return {
        "json": sign("POST", "/", credentials, headers=JSON, data=send),
        "json by path": sign("POST", "/000000000000/q", credentials, headers=JSON, data=b'{"MessageBody":"hello"}'),
        "form": sign("POST", "/", credentials, headers=FORM, data=form),
        "get": sign("GET", get, credentials),
        "presigned": sign("GET", get, credentials, is_presigned=True),
    }


# --- changes to what is signed: each makes another request of it ----------------------------------------


def changed_hex(request: bytes, mark: bytes, chance: random.Random) -> bytes:
    """Another digit in the signature that follows a mark."""
    at = request.index(mark) + len(mark) + chance.randrange(64)
    digit = chance.choice([each for each in HEX if each != request[at]])
    return request[:at] + bytes([digit]) + request[at + 1 :]


def changed_signature(request: bytes, chance: random.Random) -> bytes:
    return changed_hex(request, b"X-Amz-Signature=" if b"X-Amz-Signature=" in request else b" Signature=", chance)


def changed_letter(request: bytes, chance: random.Random) -> bytes:
    """Another letter in the message, the queue's name, the action, the host or the credential."""
    words = [b"hello", b"000000000000/q", b"000000000000%2Fq", b"SendMessage", b"localhost", b"AKIA", b"us-east-1"]
    word = chance.choice([each for each in words if each in request])
    places = [at for at in range(len(request)) if request.startswith(word, at)]
    at = chance.choice(places) + chance.randrange(len(word))
    letter = chance.choice(
        [each for each in b"abcdefghijklmnopqrstuvwxyz" if bytes([each]).lower() != request[at : at + 1].lower()]
    )
    return request[:at] + bytes([letter]) + request[at + 1 :]


def longer_body(request: bytes, chance: random.Random) -> bytes:
    """More in the body, or a body where there was none; the length says so."""
    head, _, body = request.partition(b"\r\n\r\n")
    more = body + bytes(chance.choices(b" \n&a=}", k=chance.randint(1, 4)))
    old = b"Content-Length: %d" % len(body)
    return head.replace(old, b"Content-Length: %d" % len(more)) + b"\r\n\r\n" + more


def more_amazon_headers(request: bytes, chance: random.Random) -> bytes:
    """An unsigned header that says what to do, or when it was said."""
    extra = chance.choice(
        [b"X-Amz-Target: AmazonSQS.PurgeQueue", b"x-amz-date: 20200101T000000Z", b"X-AMZ-Security-Token: a", b"Host: a"]
    )
    return request.replace(b"\r\n", b"\r\n" + extra + b"\r\n", 1)


def other_parameters(request: bytes, chance: random.Random) -> bytes:
    """More in the query string."""
    line, rest = request.split(b" HTTP/1.1", 1)
    extra = chance.choice([b"Action=PurgeQueue", b"MessageBody=b", b"X-Amz-Expires=604800", b"a", b"X-Amz-Date=1"])
    return line + (b"&" if b"?" in line else b"?") + extra + b" HTTP/1.1" + rest


Change = Callable[[bytes, random.Random], bytes]
CHANGES: list[Change] = [changed_signature, changed_letter, longer_body, more_amazon_headers, other_parameters]


def tries(count: int) -> Iterator[int]:
    """So many, or as many as there is time for."""
    end = time.monotonic() + PATIENCE_S * max(1, TRIES / 20_000)
    for number in range(count):
        if time.monotonic() > end:
            return
        yield number


def test_what_was_signed_is_done(front_end: FrontEnd) -> None:
    for name, request in signed_requests(front_end.credentials).items():
        taken, answer = front_end.outcome(request)
        assert (len(taken), answer) == (1, b""), name


def test_no_change_to_what_is_signed_is_accepted(front_end: FrontEnd) -> None:
    chance = random.Random(SEED)
    requests = list(signed_requests(front_end.credentials).values())
    for _ in tries(TRIES):
        change = chance.choice(CHANGES)
        changed = change(chance.choice(requests), chance)
        taken, answer = front_end.outcome(changed)
        assert not taken, (change.__name__, changed)
        assert answer.startswith(b"HTTP/1.1 4"), (change.__name__, changed, answer)


def test_a_change_anywhere_is_refused_or_means_nothing(front_end: FrontEnd) -> None:
    chance = random.Random(SEED)
    requests = list(signed_requests(front_end.credentials).values())
    meant = [front_end.outcome(each)[0] for each in requests]
    for _ in tries(TRIES // 4):
        which = chance.randrange(len(requests))
        changed = bytearray(requests[which])
        for _ in range(chance.randint(1, 3)):
            changed[chance.randrange(len(changed))] = chance.randrange(256)
        taken, answer = front_end.outcome(bytes(changed))
        assert taken in ([], meant[which]), bytes(changed)
        assert not answer or answer.startswith(b"HTTP/1.1 4"), (bytes(changed), answer)
