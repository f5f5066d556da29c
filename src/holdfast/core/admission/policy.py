"""May this principal do this to that queue? Policies of users (identity) and of queues (resource), read as IAM does.

Laws
- An explicit deny on either side wins over everything, also over the account's root.
- The queue's own account: its root may do everything; a user may if its own policies allow it, or if the queue's
  policy allows the user's ARN or everyone. A queue policy that names the account says that the account may delegate, so
  by itself it admits no user of that account.
- Another account: its policies must allow it (root needs none), and the queue's policy must allow it, too. What belongs
  to the owner, like DeleteQueue or SetQueueAttributes, no policy gives to another account.
- A request without a key is admitted by a queue policy for everyone, and by nothing else.
- Otherwise: denied.
- A batch asks for its single action. A deny may also name the batch.

Policies are read by core/admission/policy_text.py, conditions by core/admission/condition.py.
"""

import enum
from collections.abc import Iterable

import msgspec

from holdfast.core.admission.access import BATCHES, OWNER_ONLY, Access, owner_of
from holdfast.core.admission.condition import Condition, Key, holds
from holdfast.core.admission.denials import AccessDenied
from holdfast.core.admission.wildcard import Patterns


class Principals(msgspec.Struct, frozen=True):
    """Whom a statement of a queue's policy speaks of."""

    is_everyone: bool = False
    accounts: frozenset[str] = frozenset()
    arns: frozenset[str] = frozenset()


class Statement(msgspec.Struct, frozen=True, kw_only=True):
    is_allow: bool
    principals: Principals | None = None  # None: of an identity policy, whose principal is whom it is attached to
    actions: Patterns  # in lower case
    is_not_action: bool = False
    resources: Patterns
    is_not_resource: bool = False
    conditions: tuple[Condition, ...] = ()
    sid: str = ""


class Policy(msgspec.Struct, frozen=True):
    statements: tuple[Statement, ...]
    reads: frozenset[Key] = frozenset()  # what its conditions ask about


class Side(enum.StrEnum):
    IDENTITY = "identity-based"
    RESOURCE = "resource-based"


class Verdict(enum.Enum):
    ALLOW = "allow"
    IMPLICIT_DENY = "implicit deny"
    EXPLICIT_DENY = "explicit deny"


class Decision(msgspec.Struct, frozen=True, gc=False):
    verdict: Verdict
    side: Side  # which policies decided, or lacked an allow

    @property
    def is_allowed(self) -> bool:
        return self.verdict is Verdict.ALLOW


class _Grip(enum.IntEnum):
    """How a statement gets hold of a principal."""

    NONE = 0
    ACCOUNT = 1  # by its account
    DIRECT = 2  # by its ARN, or as everyone


class _Opinion(enum.IntEnum):
    """What one side says."""

    NOTHING = 0
    ALLOW_ACCOUNT = 1
    ALLOW = 2
    DENY = 3


def evaluate(access: Access, *, identity: Iterable[Policy], resource: Policy | None) -> Decision:
    """`identity` are the caller's policies, `resource` is the queue's. Cost: statements times patterns."""
    asked = access.action.lower()
    action = BATCHES.get(asked, asked)
    by_identity = max((_opinion(policy, access, action, asked=asked) for policy in identity), default=_Opinion.NOTHING)
    if by_identity is _Opinion.DENY:
        return Decision(Verdict.EXPLICIT_DENY, Side.IDENTITY)
    by_resource = _opinion(resource, access, action, asked=asked) if resource else _Opinion.NOTHING
    if by_resource is _Opinion.DENY:
        return Decision(Verdict.EXPLICIT_DENY, Side.RESOURCE)
    is_admitted = by_identity is _Opinion.ALLOW or access.is_root
    if access.account and access.account == owner_of(access.resource):
        return _within(is_admitted, by_resource)
    if not access.principal:
        return _across(True, by_resource is _Opinion.ALLOW and action not in OWNER_ONLY)
    return _across(is_admitted, by_resource >= _Opinion.ALLOW_ACCOUNT and action not in OWNER_ONLY)


def _within(is_admitted: bool, by_resource: _Opinion) -> Decision:
    """In the queue's own account one side is enough."""
    if is_admitted:
        return Decision(Verdict.ALLOW, Side.IDENTITY)
    if by_resource is _Opinion.ALLOW:
        return Decision(Verdict.ALLOW, Side.RESOURCE)
    return Decision(Verdict.IMPLICIT_DENY, Side.IDENTITY)


def _across(is_admitted: bool, is_invited: bool) -> Decision:
    """Between accounts both sides must allow."""
    if not is_invited:
        return Decision(Verdict.IMPLICIT_DENY, Side.RESOURCE)
    if not is_admitted:
        return Decision(Verdict.IMPLICIT_DENY, Side.IDENTITY)
    return Decision(Verdict.ALLOW, Side.RESOURCE)


def _opinion(policy: Policy, access: Access, action: str, *, asked: str) -> _Opinion:
    opinion = _Opinion.NOTHING
    for statement in policy.statements:
        grip = _grip(statement.principals, access)
        if grip is _Grip.NONE or not _is_about(statement, access, action, asked=asked):
            continue
        if not statement.is_allow:
            return _Opinion.DENY
        opinion = max(opinion, _Opinion.ALLOW if grip is _Grip.DIRECT else _Opinion.ALLOW_ACCOUNT)
    return opinion


def _grip(principals: Principals | None, access: Access) -> _Grip:
    if principals is None or principals.is_everyone or access.principal in principals.arns:
        return _Grip.DIRECT
    return _Grip.ACCOUNT if access.account in principals.accounts else _Grip.NONE


def _is_about(statement: Statement, access: Access, action: str, *, asked: str) -> bool:
    actions = statement.actions
    if statement.is_not_action:
        is_meant = not actions.match(action)
    else:
        is_meant = actions.match(action) or (not statement.is_allow and asked != action and actions.match(asked))
    return (
        is_meant
        and statement.resources.match(access.resource) is not statement.is_not_resource
        and all(holds(condition, access) for condition in statement.conditions)
    )


def refusal(access: Access, decision: Decision) -> AccessDenied:
    """What the caller is told."""
    asked = access.action.lower()
    action = BATCHES.get(asked, asked)
    head = (
        f"User: {access.principal or 'anonymous'} is not authorized to perform: {action} on resource: {access.resource}"
    )
    if decision.verdict is Verdict.EXPLICIT_DENY:
        article = "an" if decision.side is Side.IDENTITY else "a"
        return AccessDenied(f"{head} with an explicit deny in {article} {decision.side} policy")
    return AccessDenied(f"{head} because no {decision.side} policy allows the {action} action")
