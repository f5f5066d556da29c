"""AddPermission and RemovePermission: one statement more or less in the policy of a queue.

The document that AddPermission begins is the one that AWS writes: version 2008-10-17, the Id <arn>/SQSDefaultPolicy,
and a single principal or action as a string, not as a list. Statements that others wrote stay as they are.
"""

import json
from collections.abc import Sequence
from typing import Any

from holdfast.core.admission.access import GRANTABLE, QUEUE_ACTIONS, root_of
from holdfast.core.admission.condition import NotUnderstood
from holdfast.core.admission.policy_text import invalid, load_document, parse_queue_policy
from holdfast.core.errors import InvalidParameterValue, MissingParameter, OverLimit
from holdfast.core.limits import LABEL_CHARS_MAX, PERMISSION_ACTIONS_MAX


def add_permission(policy: str, *, queue_arn: str, label: str, accounts: Sequence[str], actions: Sequence[str]) -> str:
    """The queue's new policy; `policy` is the present one, or empty."""
    _check_label(label)
    _check_actions(actions)
    _check_accounts(accounts)
    document = _load(policy) or {
        "Version": "2008-10-17",
        "Id": f"{queue_arn}/SQSDefaultPolicy",
        "Statement": [],
    }
    statements = _statements(document)
    if any(each.get("Sid") == label for each in statements):
        raise InvalidParameterValue(f"Value {label} for parameter Label is invalid. Reason: Already exists.")
    statement = {
        "Sid": label,
        "Effect": "Allow",
        "Principal": {"AWS": _one_or_many([root_of(each) for each in accounts])},
        "Action": _one_or_many([f"SQS:{each}" for each in actions]),
        "Resource": queue_arn,
    }
    document["Statement"] = [*statements, statement]
    text = _dump(document)
    parse_queue_policy(text)  # what this makes too long is refused as it would be when written directly
    return text


def remove_permission(policy: str, *, label: str) -> str:
    """The queue's new policy; empty when nothing is left, which removes the attribute."""
    document = _load(policy)
    statements = _statements(document)
    left = [each for each in statements if each.get("Sid") != label]
    if len(left) == len(statements) or not label:
        raise InvalidParameterValue(f"Value {label} for parameter Label is invalid. Reason: can't find label.")
    document["Statement"] = left
    return _dump(document) if left else ""


def _load(policy: str) -> dict[str, Any]:
    try:
        return load_document(policy) if policy else {}
    except NotUnderstood as problem:
        raise invalid(problem) from None


def _dump(document: dict[str, Any]) -> str:
    return json.dumps(document, separators=(",", ":"))


def _statements(document: dict[str, Any]) -> list[dict[str, Any]]:
    given = document.get("Statement", [])
    return given if isinstance(given, list) else [given]


def _one_or_many(texts: list[str]) -> str | list[str]:
    return texts[0] if len(texts) == 1 else texts


def _check_label(label: str) -> None:
    if not label:
        raise MissingParameter("The request must contain the parameter Label.")
    is_plain = label.isascii() and label.replace("-", "").replace("_", "").isalnum()
    if len(label) > LABEL_CHARS_MAX or not is_plain:
        raise InvalidParameterValue(
            f"Value {label} for parameter Label is invalid. Reason: Can only include alphanumeric characters, hyphens, "
            f"or underscores. 1 to {LABEL_CHARS_MAX} in length."
        )


def _check_actions(actions: Sequence[str]) -> None:
    if not actions:
        raise MissingParameter("The request must contain the parameter Actions.")
    if len(actions) > PERMISSION_ACTIONS_MAX:
        raise OverLimit(f"{len(actions)} Actions were found, maximum allowed is {PERMISSION_ACTIONS_MAX}.")
    for action in actions:
        if action == "*" or action in GRANTABLE:
            continue
        reason = (
            "Only the queue owner is allowed to invoke this action."
            if action in QUEUE_ACTIONS
            else "Please refer to the appropriate WSDL for a list of valid actions."
        )
        raise InvalidParameterValue(f"Value SQS:{action} for parameter ActionName is invalid. Reason: {reason}")


def _check_accounts(accounts: Sequence[str]) -> None:
    if not accounts or any(len(each) != 12 or not each.isascii() or not each.isdigit() for each in accounts):
        raise InvalidParameterValue(
            f"Value [{', '.join(accounts)}] for parameter PrincipalId is invalid. Reason: Unable to verify."
        )
