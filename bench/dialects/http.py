"""Where an HTTP/1.1 reply ends: Content-Length or chunks. Nothing else of HTTP is needed."""

from bench.load import Framing, PeerError

_LENGTH = b"content-length:"


class HttpFraming(Framing):
    def end(self, data: bytes) -> int:
        head_end = data.find(b"\r\n\r\n")
        if head_end < 0:
            return 0
        body = head_end + 4
        head = data[:head_end].lower()
        at = head.find(_LENGTH)
        if at >= 0:
            end = body + int(head[at + len(_LENGTH) :].split(b"\r\n", 1)[0])
            return end if end <= len(data) else 0
        if b"chunked" in head:
            return _end_of_chunks(data, body)
        raise PeerError(f"a reply without a length: {data[:200]!r}")

    def is_last(self, reply: bytes) -> bool:
        return reply.startswith(b"HTTP/1.0") or b"connection: close" in reply[:400].lower()


def _end_of_chunks(data: bytes, at: int) -> int:
    while True:
        line_end = data.find(b"\r\n", at)
        if line_end < 0:
            return 0
        size = int(data[at:line_end].split(b";")[0], 16)
        at = line_end + 2 + size + 2
        if at > len(data):
            return 0
        if size == 0:
            return at


def body_of(reply: bytes) -> bytes:
    """Of a reply with a Content-Length; chunk sizes are left in."""
    return reply[reply.find(b"\r\n\r\n") + 4 :]


def checked(reply: bytes) -> bytes:
    if reply[9:12] != b"200":
        raise PeerError(f"refused: {reply[:600].decode(errors='replace')}")
    return reply
