"""Policy documents, from JSON to what core/admission/policy.py evaluates.

Law: what is not understood is refused when it is written, so that no policy means less, or more, than it says. That
includes elements, operators and keys that IAM knows and Holdfast does not (NotPrincipal, policy variables, set
operators, aws:PrincipalOrgID), JSON members that come twice, and queue policies for actions that do not exist.
"""

import json
from typing import Any

from holdfast.core.admission.access import KNOWN, SERVICE
from holdfast.core.admission.condition import Condition, NotUnderstood, read_condition
from holdfast.core.admission.policy import Policy, Principals, Statement
from holdfast.core.admission.wildcard import Patterns, glob, is_wild, patterns
from holdfast.core.errors import InvalidAttributeValue
from holdfast.core.limits import (
    IDENTITY_POLICY_BYTES_MAX,
    POLICY_BYTES_MAX,
    POLICY_CONDITIONS_MAX,
    POLICY_PRINCIPALS_MAX,
    POLICY_STATEMENTS_MAX,
)

_VERSIONS = ("2008-10-17", "2012-10-17")
_DOCUMENT = frozenset("Version Id Statement".split())
_STATEMENT = frozenset("Sid Effect Principal Action NotAction Resource NotResource Condition".split())
_PRINCIPAL_TYPES = "user role assumed-role federated-user".split()


def parse_queue_policy(text: str) -> Policy:
    """The attribute Policy of a queue, or InvalidAttributeValue."""
    return _parse(text, bytes_max=POLICY_BYTES_MAX, is_queue=True)


def parse_identity_policy(text: str) -> Policy:
    """A policy of a user: without principals, and with actions of any service."""
    return _parse(text, bytes_max=IDENTITY_POLICY_BYTES_MAX, is_queue=False)


def load_document(text: str, *, bytes_max: int = POLICY_BYTES_MAX) -> dict[str, Any]:
    """The JSON object, each member at most once."""
    if len(text.encode(errors="surrogatepass")) > bytes_max:
        raise NotUnderstood(f"The policy is longer than {bytes_max} bytes.")
    try:
        document = json.loads(text, object_pairs_hook=_once, parse_constant=_no_constant)
    except (ValueError, RecursionError):
        raise NotUnderstood("The policy is not a JSON document.") from None
    return _object(document, "The policy")


def invalid(problem: NotUnderstood) -> InvalidAttributeValue:
    return InvalidAttributeValue(f"Invalid value for the parameter Policy. Reason: {problem}")


def _parse(text: str, *, bytes_max: int, is_queue: bool) -> Policy:
    try:
        return _read_document(load_document(text, bytes_max=bytes_max), is_queue=is_queue)
    except NotUnderstood as problem:
        raise invalid(problem) from None


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    if len(members) != len(pairs):
        raise NotUnderstood("A member of the policy comes twice.")
    return members


def _no_constant(name: str) -> None:
    raise NotUnderstood(f"{name} is not JSON.")


def _read_document(document: dict[str, Any], *, is_queue: bool) -> Policy:
    _check_members(document, _DOCUMENT, "a policy")
    if document.get("Version", _VERSIONS[0]) not in _VERSIONS:
        raise NotUnderstood(f"The Version must be one of {', '.join(_VERSIONS)}.")
    if not isinstance(document.get("Id", ""), str):
        raise NotUnderstood("The Id must be a string.")
    given = _many(document.get("Statement"))
    if not 1 <= len(given) <= POLICY_STATEMENTS_MAX:
        raise NotUnderstood(f"A policy must have 1 to {POLICY_STATEMENTS_MAX} statements.")
    statements = tuple(_read_statement(_object(each, "A Statement"), is_queue=is_queue) for each in given)
    names = [each.sid for each in statements if each.sid]
    if len(set(names)) != len(names):
        raise NotUnderstood("Two statements have the same Sid.")
    reads = frozenset(condition.key for each in statements for condition in each.conditions)
    return Policy(statements, reads)


def _read_statement(given: dict[str, Any], *, is_queue: bool) -> Statement:
    _check_members(given, _STATEMENT, "a statement")
    sid, effect = given.get("Sid", ""), given.get("Effect")
    if not isinstance(sid, str):
        raise NotUnderstood("The Sid must be a string.")
    if effect not in ("Allow", "Deny"):
        raise NotUnderstood("The Effect must be Allow or Deny.")
    if is_queue is not ("Principal" in given):
        raise NotUnderstood(
            "A statement must have a Principal." if is_queue else "A user's policy must not have a Principal."
        )
    return Statement(
        sid=sid,
        is_allow=effect == "Allow",
        principals=_read_principals(given["Principal"]) if is_queue else None,
        actions=_read_actions(_either(given, "Action"), is_queue=is_queue),
        is_not_action="NotAction" in given,
        resources=_read_resources(_either(given, "Resource"), is_queue=is_queue),
        is_not_resource="NotResource" in given,
        conditions=_read_conditions(given.get("Condition", {})),
    )


# --- elements -----------------------------------------------------------------------------------------


def _read_principals(given: Any) -> Principals:
    if given == "*":
        return Principals(is_everyone=True)
    kinds = _object(given, "The Principal")
    if not kinds or any(kind not in ("AWS", "Service") for kind in kinds):
        raise NotUnderstood('The Principal must be "*", or name an AWS or Service principal.')
    services = _texts(kinds.get("Service", []), "A Service principal")
    names = _texts(kinds.get("AWS", []), "An AWS principal")
    if not 1 <= len(names) + len(services) <= POLICY_PRINCIPALS_MAX:
        raise NotUnderstood(f"A statement must have 1 to {POLICY_PRINCIPALS_MAX} principals.")
    accounts = [each for each in map(_account_of, names) if each]
    return Principals("*" in names, frozenset(accounts), frozenset(each for each in names if "/" in each))


def _account_of(name: str) -> str:
    """The account that a principal stands for; empty for everyone and for a single user. Refuses anything else."""
    if name == "*":
        return ""
    if _is_account(name):
        return name
    parts = name.split(":", 5)
    if len(parts) == 6 and parts[0] == "arn" and parts[1].startswith("aws") and not is_wild(name):
        _, _, service, region, account, resource = parts
        if service in ("iam", "sts") and not region and _is_account(account):
            kind, slash, rest = resource.partition("/")
            if resource == "root":
                return account
            if kind in _PRINCIPAL_TYPES and slash and rest:
                return ""
    raise NotUnderstood(f"{name} is not an account or the ARN of a principal.")


def _is_account(text: str) -> bool:
    return len(text) == 12 and text.isascii() and text.isdigit()


def _read_actions(given: Any, *, is_queue: bool) -> Patterns:
    texts = [each.lower() for each in _texts(given, "An action")]
    for text in texts:
        service, colon, name = text.partition(":")
        if text != "*" and not (service and colon and name and not is_wild(service)):
            raise NotUnderstood(f"{text} is not an action.")
        if is_queue and not any(glob(text).matches(known) for known in KNOWN):
            is_ours = service in (SERVICE, "holdfast")
            raise NotUnderstood(
                f"There is no action {text}." if is_ours else "Policy statement action out of service scope!"
            )
    return patterns(texts)


def _read_resources(given: Any, *, is_queue: bool) -> Patterns:
    texts = _texts(given, "A resource")
    for text in texts:
        parts = text.split(":", 5)
        is_whole = len(parts) == 6 or (len(parts) >= 3 and text.endswith("*"))
        if text != "*" and not (parts[0] == "arn" and is_whole and (parts[2] == "*" or not is_wild(parts[2]))):
            raise NotUnderstood(f"{text} is not an ARN.")
        if is_queue and text != "*" and parts[2] not in (SERVICE, "*"):
            raise NotUnderstood(f"{text} is not a queue.")
    return patterns(texts)


def _read_conditions(given: Any) -> tuple[Condition, ...]:
    conditions = tuple(
        read_condition(operator, key, given=value)
        for operator, keys in _object(given, "The Condition").items()
        for key, value in _object(keys, "A condition").items()
    )
    if len(conditions) > POLICY_CONDITIONS_MAX:
        raise NotUnderstood(f"A statement must have at most {POLICY_CONDITIONS_MAX} conditions.")
    return conditions


# --- shapes -------------------------------------------------------------------------------------------


def _object(given: Any, what: str) -> dict[str, Any]:
    if not isinstance(given, dict):
        raise NotUnderstood(f"{what} must be a JSON object.")
    return given


def _many(given: Any) -> list[Any]:
    return given if isinstance(given, list) else [] if given is None else [given]


def _texts(given: Any, what: str) -> list[str]:
    texts = _many(given)
    if any(not isinstance(each, str) or not each for each in texts):
        raise NotUnderstood(f"{what} must be a string.")
    if any("${" in each for each in texts):
        raise NotUnderstood("Policy variables are not supported.")
    return texts


def _either(given: dict[str, Any], name: str) -> Any:
    """Of Action and NotAction, or Resource and NotResource, exactly one, and not empty."""
    if (name in given) is (f"Not{name}" in given):
        raise NotUnderstood(f"A statement must have either {name} or Not{name}.")
    value = given.get(name, given.get(f"Not{name}"))
    if not _many(value):
        raise NotUnderstood(f"{name} must not be empty.")
    return value


def _check_members(given: dict[str, Any], known: frozenset[str], what: str) -> None:
    for name in given:
        if name not in known:
            raise NotUnderstood(f"{name} is not a supported element of {what}.")
