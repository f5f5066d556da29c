"""What a batch of plain messages is stored and answered as, by columns. Nearly all batches are plain, so this is in the
path of nearly every message: where it was built, _texts.c writes the same bytes in one go. It also looks for brackets,
which the bodies of a batch make dear.
"""

from typing import Any, Final

from holdfast.protocol import content

_MD5_DIGITS: Final = 32


def _find_c() -> Any:
    try:
        from holdfast.protocol import _texts  # noqa: PLC0415 - where it was compiled
    except ImportError:
        return None
    return _texts


_c: Final = _find_c()


def packed(bodies: list[bytes], sums: list[bytes], sender: bytes) -> list[bytes]:
    """As `content.pack` of each, without extras."""
    found: list[bytes] = _c.packed(bodies, sums, sender) if _c is not None else pack_each(bodies, sums, sender)
    return found


def accepted(names: list[str], ids: list[str], sums: list[bytes]) -> bytes:
    """The answer to a batch whose entries, with these names, were all accepted by a standard queue."""
    reply: bytes = _c.accepted(names, ids, sums) if _c is not None else accept_each(names, ids, sums)
    return reply


def shown(id_start: bytes, ids: bytes, handle_start: bytes, handles: bytes, contents: list[bytes]) -> bytes:
    """The answer to a receive that asks for no attributes. Each MessageId and each handle is its start and its end;
    ends have one length and stand in order, nothing between them."""
    reply: bytes | None = None
    if _c is not None:
        reply = _c.shown(id_start, ids, handle_start, handles, contents)
    return reply if reply is not None else show_each(id_start, ids, handle_start, handles, contents)


def brackets(text: bytes, most: int) -> int:
    """How many of JSON's open in it, also within strings; counted up to one more than `most`."""
    count: int = _c.brackets(text, most) if _c is not None else count_each(text, most)
    return count


def pack_each(bodies: list[bytes], sums: list[bytes], sender: bytes) -> list[bytes]:
    """`packed` without C; the same holds of those that follow."""
    found: list[bytes] = []
    start, length = b"", -1
    for body, body_md5 in zip(bodies, sums, strict=True):
        if len(body) != length:  # mostly it is that of the one before
            length = len(body)
            start = content.start(sender, length)
        found.append(b"".join((start, body_md5, sender, body)))
    return found


def accept_each(names: list[str], ids: list[str], sums: list[bytes]) -> bytes:
    digits, at = b"".join(sums).hex(), 0
    parts = ['{"Successful":[{"Id":"']
    for name, message_id in zip(names, ids, strict=True):
        parts += (name, '","MessageId":"', message_id, '","MD5OfMessageBody":"', digits[at : at + _MD5_DIGITS])
        parts.append('"},{"Id":"')
        at += _MD5_DIGITS
    parts[-1] = '"}]}'
    return "".join(parts).encode()


def show_each(id_start: bytes, ids: bytes, handle_start: bytes, handles: bytes, contents: list[bytes]) -> bytes:
    sums, bodies = content.bodies_of(contents)
    return messages(id_start, ids, handle_start, handles, sums=sums, ends=[body + b'"}' for body in bodies])


def messages(
    id_start: bytes, ids: bytes, handle_start: bytes, handles: bytes, *, sums: list[bytes], ends: list[bytes]
) -> bytes:
    """`ends`: what follows the quote before each body, up to the brace behind the message."""
    handle_text = b'","ReceiptHandle":"' + handle_start
    parts = [b',{"MessageId":"' + id_start, b"", handle_text, b"", b'","MD5OfBody":"', b"", b'","Body":"', b""]
    parts *= len(ends)
    parts[1::8], parts[3::8] = cut(ids, len(ends)), cut(handles, len(ends))
    parts[5::8], parts[7::8] = sums, ends
    parts[0] = b'{"Messages":[{"MessageId":"' + id_start
    parts.append(b"]}")
    return b"".join(parts)


def cut(text: bytes, count: int) -> list[bytes]:
    """Into so many pieces of one length."""
    width = len(text) // count
    return [text[at * width : (at + 1) * width] for at in range(count)]


def count_each(text: bytes, most: int) -> int:
    """To take out so many is ten times as fast as to count all."""
    count, at = len(text) - len(text.replace(b"{", b"", most + 1)), text.find(b"[")
    while at >= 0 and count <= most:  # these are few
        count += 1
        at = text.find(b"[", at + 1)
    return count
