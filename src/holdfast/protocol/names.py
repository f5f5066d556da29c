"""How a queue is called: its name, URL and ARN. A queue is found by the path of its URL alone."""

import re

import msgspec

from holdfast.core.errors import InvalidParameterValue, QueueDoesNotExist

_NAME = re.compile(r"[A-Za-z0-9_-]{1,80}").fullmatch
_FIFO_NAME = re.compile(r"[A-Za-z0-9_-]{1,75}\.fifo").fullmatch


class Site(msgspec.Struct, frozen=True):
    """What URLs and ARNs say besides the queue's name."""

    account: str = "000000000000"
    region: str = "us-east-1"


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


def queue_url(base: str, site: Site, name: str) -> str:
    """`base` is the scheme and host under which the client reached us."""
    return f"{base}/{site.account}/{name}"


def queue_arn(site: Site, name: str) -> str:
    return f"arn:aws:sqs:{site.region}:{site.account}:{name}"


def queue_name(reference: str, site: Site) -> str:
    """The name in a queue's URL, ARN, or the bare name. An account that is not ours has no queues here."""
    if reference.startswith("arn:"):
        account, _, name = reference.rpartition(":")
        account = account.rpartition(":")[2]
    elif "/" in reference:
        path, _, name = reference.rstrip("/").rpartition("/")
        account = path.rpartition("/")[2]
    else:
        return reference
    if account != site.account:
        raise QueueDoesNotExist
    return name
