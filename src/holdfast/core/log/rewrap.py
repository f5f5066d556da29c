"""A shard's data keys under another master key: which files change, in which order.

Each key file is replaced as a whole, so after a power cut each is wrapped by the old master key or by the new one, and
doing it all again finishes the work. Spares are left out: the next start removes them.
"""

from collections.abc import Callable

from holdfast.core.log.files import List, Read, Size, Work, replace


def rewrap_keys(rewrap: Callable[[str, bytes], bytes]) -> Work[int]:
    """`rewrap`: what becomes of a wrapped key, which the first argument names; the same if it is done already. Answers
    how many there are."""
    count = 0
    for name in (yield List("keys")):
        if not name.endswith(".key") or name.startswith("spare-"):
            continue
        path = f"keys/{name}"
        wrapped = yield Read(path, 0, (yield Size(path)))
        changed = rewrap(path, wrapped)
        if changed != wrapped:
            yield from replace(path, changed)
        count += 1
    return count
