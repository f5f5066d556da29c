"""Lists of queues, page by page: ListQueues and ListDeadLetterSourceQueues."""

import base64
import binascii
from bisect import bisect_right
from collections.abc import Sequence

from holdfast.core.errors import InvalidParameterValue

PAGE_MAX = 1000  # names in one answer


def count_max_of(max_results: int | None) -> int:
    count_max = PAGE_MAX if max_results is None else max_results
    if not 1 <= count_max <= PAGE_MAX:
        raise InvalidParameterValue(
            f"Value {count_max} for parameter MaxResults is invalid. Reason: Must be between 1 and 1000, if provided."
        )
    return count_max


def page_of(names: Sequence[str], token: str | None, max_results: int | None) -> tuple[Sequence[str], str]:
    """The next names of a sorted sequence, and the token for those behind them; empty when there are none, or none
    was asked for by naming MaxResults."""
    count_max = count_max_of(max_results)
    start = bisect_right(names, decode_token(token)) if token else 0
    found = names[start : start + count_max]
    has_more = len(names) > start + count_max and max_results is not None
    return found, encode_token(found[-1]) if has_more else ""


def encode_token(name: str) -> str:
    """The last name of a page."""
    return base64.urlsafe_b64encode(name.encode()).decode()


def decode_token(token: str) -> str:
    try:
        return base64.urlsafe_b64decode(token).decode()
    except (binascii.Error, ValueError):
        raise InvalidParameterValue("Invalid or expired next token.") from None
