"""What a test can claim to prove about SQS. The words come from botocore's service model, not from memory.

SendMessage                 an action does what it should
SendMessage.DelaySeconds    a member of a request has its effect;  `SendMessage.*` claims all of them
SendMessage:MessageId       a member of a reply is right;          `SendMessage:*`
Attribute.DelaySeconds      an attribute of a queue
SystemAttribute.SenderId    an attribute that SQS gives a message
Error.OverLimit             an error is answered
fifo-group-lock             a rule of semantics.py
"""

from collections.abc import Iterator
from functools import cache
from typing import Any

import botocore.session
import pytest

from tests.compatibility.semantics import SEMANTICS

# Not in the model, and answered by AWS all the same.
UNMODELLED_ERRORS = (
    "AccessDenied InvalidAction InvalidClientTokenId InvalidParameterValue MissingAuthenticationToken MissingParameter "
    "SignatureDoesNotMatch"
).split()


def proves(*claims: str) -> pytest.MarkDecorator:
    """Put on a test. The page docs/COMPATIBILITY.md is made of these; tests/compat checks that requests and replies
    of the test really had what it claims."""
    return pytest.mark.proves(*claims)


@cache
def model() -> Any:
    return botocore.session.get_session().get_service_model("sqs")


def members(shape: Any, prefix: str = "") -> Iterator[str]:
    """Those of a structure, and of the structures in its lists: Entries, Entries.Id."""
    for name, member in shape.members.items() if shape else ():
        yield prefix + name
        if member.type_name == "list" and member.member.type_name == "structure":
            yield from members(member.member, f"{prefix}{name}.")


@cache
def actions() -> dict[str, tuple[list[str], list[str]]]:
    """The claims about members of requests and of replies, by action."""
    found = {}
    for name in model().operation_names:
        operation = model().operation_model(name)
        requests = [f"{name}.{each}" for each in members(operation.input_shape)]
        replies = [f"{name}:{each}" for each in members(operation.output_shape)]
        found[name] = (requests, replies)
    return found


@cache
def attributes() -> list[str]:
    return [f"Attribute.{each}" for each in model().shape_for("QueueAttributeName").enum]


@cache
def system_attributes() -> list[str]:
    return [f"SystemAttribute.{each}" for each in model().shape_for("MessageSystemAttributeName").enum]


@cache
def errors() -> list[str]:
    names = [each for each in model().shape_names if model().shape_for(each).metadata.get("exception")]
    return [f"Error.{each}" for each in sorted([*names, *UNMODELLED_ERRORS])]


@cache
def vocabulary() -> frozenset[str]:
    about_actions = set(actions()) | {each for both in actions().values() for claims in both for each in claims}
    return frozenset({*about_actions, *attributes(), *system_attributes(), *errors(), *SEMANTICS})


def expanded(claim: str) -> set[str]:
    if claim.endswith("*"):
        return {each for each in vocabulary() if each.startswith(claim[:-1])}
    return {claim}
