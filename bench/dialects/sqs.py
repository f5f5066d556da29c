"""SQS, the JSON protocol. Every request is signed, also for servers that do not look.

Sends are signed ahead, as a pool of different bodies: the same bytes twice in a row could be answered from some cache.
Deletes and FIFO sends carry what is only known at the moment, and are signed then.
"""

import itertools
import json
import time

from bench.dialects.dialect import MODES, Tally, body
from bench.dialects.http import HttpFraming, body_of, checked
from bench.load import Connection, Conversation, Framing, PeerError
from bench.signing import Signer

POOL = 512  # different requests; with ten bodies each that is 5 MB
POOL_AGE_MAX_S = 60.0  # servers take a signature for minutes
VISIBILITY_S = 600
EMPTY_MAX = 3  # so many empty receives in a row end a drain
BATCH = 10


class Sqs:
    modes: tuple[str, ...] = MODES
    framing: Framing = HttpFraming()

    def __init__(self, endpoint: str, *, key: str = "bench", secret: str = "bench") -> None:
        self.authority = endpoint.removeprefix("http://").rstrip("/")
        host, _, port = self.authority.rpartition(":")
        self.address = (host, int(port))
        self.signer = Signer(self.authority, key=key, secret=secret)
        self.urls: dict[str, str] = {}
        self._pools: dict[tuple[str, str], tuple[float, list[bytes]]] = {}
        self._unique = itertools.count(time.time_ns())

    # --- queues

    def create(self, connection: Connection, queue: str) -> None:
        request: dict[str, object] = {"QueueName": queue}
        if queue.endswith(".fifo"):
            request["Attributes"] = {"FifoQueue": "true"}
        self.urls[queue] = str(self.call(connection, "CreateQueue", request)["QueueUrl"])

    def remove(self, connection: Connection, queue: str) -> None:
        self._pools = {key: pool for key, pool in self._pools.items() if key[0] != queue}
        self.call(connection, "DeleteQueue", {"QueueUrl": self.urls.pop(queue)})

    def call(self, connection: Connection, action: str, request: dict[str, object]) -> dict[str, object]:
        """Asks and waits; for what is not measured."""
        reply = checked(connection.ask(self.signer.request(action, json.dumps(request).encode())))
        connection.renew(reply)
        content = body_of(reply)
        answer = json.loads(content) if content else {}
        assert isinstance(answer, dict)
        return answer

    # --- conversations

    def conversation(self, mode: str, queue: str, *, tally: Tally, number: int) -> Conversation:
        match mode:
            case "send":
                return self._sends(queue, tally, number=number)
            case "send ×10":
                return self._sends(queue, tally, number=number, is_batch=True)
            case "cycle":
                return self._cycles(queue, tally, number=number)
            case "cycle ×10":
                return self._cycles(queue, tally, number=number, is_batch=True)
            case "drain":
                return self._drains(queue, tally)
        raise ValueError(mode)

    def _sends(self, queue: str, tally: Tally, *, number: int, is_batch: bool = False) -> Conversation:
        count = BATCH if is_batch else 1
        for turn in itertools.count(number):
            acknowledged((yield self.send(queue, turn, group=number, is_batch=is_batch)), count)
            tally.messages += count

    def _cycles(self, queue: str, tally: Tally, *, number: int, is_batch: bool = False) -> Conversation:
        count = BATCH if is_batch else 1
        for turn in itertools.count(number):
            acknowledged((yield self.send(queue, turn, group=number, is_batch=is_batch)), count)
            receipts = receipts_of((yield self.receive(queue, count)))
            if receipts:
                checked((yield self.delete(queue, receipts, is_batch=is_batch)))
                tally.messages += len(receipts)

    def _drains(self, queue: str, tally: Tally) -> Conversation:
        empty = 0
        while empty < EMPTY_MAX:
            receipts = receipts_of((yield self.receive(queue, BATCH)))
            empty = 0 if receipts else empty + 1
            if receipts:
                checked((yield self.delete(queue, receipts, is_batch=True)))
                tally.messages += len(receipts)

    # --- requests

    def send(self, queue: str, turn: int, *, group: int = 0, is_batch: bool = False) -> bytes:
        action = "SendMessageBatch" if is_batch else "SendMessage"
        if queue.endswith(".fifo"):
            return self.signer.request(action, self._fifo_send(queue, group, is_batch=is_batch))
        made, pool = self._pools.get((queue, action), (float("-inf"), []))
        if (turn % POOL == 0 or not pool) and time.monotonic() - made > POOL_AGE_MAX_S:
            pool = [self.signer.request(action, self._send(queue, each, is_batch)) for each in range(POOL)]
            self._pools[queue, action] = (time.monotonic(), pool)
        return pool[turn % POOL]

    def _send(self, queue: str, turn: int, is_batch: bool) -> bytes:
        url = self.urls[queue].encode()
        if not is_batch:
            return b'{"QueueUrl":"%b","MessageBody":"%b"}' % (url, body(turn))
        entries = [b'{"Id":"%d","MessageBody":"%b"}' % (each, body(turn * BATCH + each)) for each in range(BATCH)]
        return b'{"QueueUrl":"%b","Entries":[%b]}' % (url, b",".join(entries))

    def _fifo_send(self, queue: str, group: int, *, is_batch: bool) -> bytes:
        url = self.urls[queue].encode()
        form = b'"MessageBody":"%b","MessageGroupId":"g%d","MessageDeduplicationId":"%d"'
        if not is_batch:
            unique = next(self._unique)
            return b'{"QueueUrl":"%b",%b}' % (url, form % (body(unique), group, unique))
        entries = [b'{"Id":"%d",%b}' % (each, form % (body(each), group, next(self._unique))) for each in range(BATCH)]
        return b'{"QueueUrl":"%b","Entries":[%b]}' % (url, b",".join(entries))

    def receive(self, queue: str, count: int, *, wait_s: int = 0) -> bytes:
        request = b'{"QueueUrl":"%b","MaxNumberOfMessages":%d,"VisibilityTimeout":%d,"WaitTimeSeconds":%d}'
        values = (self.urls[queue].encode(), count, VISIBILITY_S, wait_s)
        return self.signer.repeated("ReceiveMessage", request % values)

    def delete(self, queue: str, receipts: list[bytes], *, is_batch: bool) -> bytes:
        url = self.urls[queue].encode()
        if not is_batch:
            request = b'{"QueueUrl":"%b","ReceiptHandle":"%b"}' % (url, receipts[0])
            return self.signer.request("DeleteMessage", request)
        entries = [b'{"Id":"%d","ReceiptHandle":"%b"}' % each for each in enumerate(receipts)]
        return self.signer.request(
            "DeleteMessageBatch", b'{"QueueUrl":"%b","Entries":[%b]}' % (url, b",".join(entries))
        )


def acknowledged(reply: bytes, count: int = 1) -> None:
    """A batch may be refused in part, with status 200."""
    checked(reply)
    if reply.count(b'"MessageId"') != count:
        raise PeerError(f"not all of {count} were acknowledged: {reply[:600].decode(errors='replace')}")


def receipts_of(reply: bytes) -> list[bytes]:
    """Bodies are ours and have no quotes in them, so that the handles can be cut out."""
    parts = checked(reply).split(b'"ReceiptHandle"')
    return [part.split(b'"', 2)[1] for part in parts[1:]]
