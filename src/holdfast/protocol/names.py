"""How a queue is called: its account and name, its URL and ARN. A queue is found by the path of its URL alone."""

import re
from typing import Final

from holdfast.core.errors import InvalidParameterValue, QueueDoesNotExist
from holdfast.core.types import QueueName
from holdfast.core.values import Fact

_ACCOUNT: Final = re.compile(r"[0-9]{12}").fullmatch
_NAME: Final = re.compile(r"[A-Za-z0-9_-]{1,80}").fullmatch
_FIFO_NAME: Final = re.compile(r"[A-Za-z0-9_-]{1,75}\.fifo").fullmatch


class Site(Fact, frozen=True):
    """Where a server says it is."""

    account: str = "000000000000"  # the one made at the first start, and everybody's when nobody has to sign
    region: str = "us-east-1"  # in the ARNs of queues; those of other regions are understood, too


def check_name(name: str, *, is_fifo: bool) -> None:
    if is_fifo and not _FIFO_NAME(name):
        raise InvalidParameterValue(
            "The name of a FIFO queue can only include alphanumeric characters, hyphens, or underscores, "
            "must end with .fifo suffix and be 1 to 80 in length."
        )
    if not is_fifo and not _NAME(name):
        raise InvalidParameterValue(
            "Can only include alphanumeric characters, hyphens, or underscores. 1 to 80 in length."
        )


def queue_url(base: str, queue: QueueName) -> str:
    """`base` is the scheme and host under which the client reached us."""
    return f"{base}/{queue.account}/{queue.name}"


def queue_arn(region: str, queue: QueueName) -> str:
    return f"arn:aws:sqs:{region}:{queue.account}:{queue.name}"


def is_account(text: str) -> bool:
    return _ACCOUNT(text) is not None


def is_bare(reference: str) -> bool:
    """Whether it names no account, so that what it means depends on who says it."""
    return "/" not in reference and not reference.startswith("arn:")


def queue_name(reference: str, account: str) -> QueueName:
    """What a queue's URL or ARN calls it, whatever host or region they name. A bare name is one of `account`."""
    if is_bare(reference):
        return QueueName(account, reference)
    if reference.startswith("arn:"):
        head, _, name = reference.rpartition(":")
        owner = head.rpartition(":")[2]
    else:
        path, _, name = reference.rstrip("/").rpartition("/")
        owner = path.rpartition("/")[2]
    if not is_account(owner):
        raise QueueDoesNotExist
    return QueueName(owner, name)
