"""Patterns of policies: * stands for any characters or none, ? for exactly one. Taken apart when a policy is read.

The cost of a match is bounded by pattern length times text length: no pattern makes it explode.
"""

from holdfast.core.values import Value


class Glob(Value, frozen=True):
    """`pieces` are what stands between the stars, so a pattern without a star is one piece."""

    pieces: tuple[str, ...]

    def matches(self, text: str) -> bool:
        first, last = self.pieces[0], self.pieces[-1]
        if len(self.pieces) == 1:
            return len(text) == len(first) and _fits(first, text, 0)
        end = len(text) - len(last)
        at = len(first)
        if at > end or not _fits(first, text, 0) or not _fits(last, text, end):
            return False
        for piece in self.pieces[1:-1]:
            found = _find(piece, text, start=at)
            if found < 0:
                return False
            at = found + len(piece)
        return at <= end


class Patterns(Value, frozen=True):
    """A list in a policy: one match is enough."""

    exact: frozenset[str]
    globs: tuple[Glob, ...] = ()

    def match(self, text: str) -> bool:
        return text in self.exact or any(glob.matches(text) for glob in self.globs)


def glob(pattern: str) -> Glob:
    return Glob(tuple(pattern.split("*")))


def is_wild(pattern: str) -> bool:
    return "*" in pattern or "?" in pattern


def patterns(texts: list[str]) -> Patterns:
    return Patterns(
        frozenset(each for each in texts if not is_wild(each)), tuple(glob(each) for each in texts if is_wild(each))
    )


def _fits(piece: str, text: str, at: int) -> bool:
    """`piece` stands in `text` at this place."""
    if "?" not in piece:
        return text.startswith(piece, at)
    return len(text) - at >= len(piece) and all(
        one in ("?", other) for one, other in zip(piece, text[at : at + len(piece)], strict=True)
    )


def _find(piece: str, text: str, *, start: int) -> int:
    """The first place of `piece`, or -1."""
    if "?" not in piece:
        return text.find(piece, start)
    return next((at for at in range(start, len(text) - len(piece) + 1) if _fits(piece, text, at)), -1)
