"""Admission: who signed this request, and may they do what it asks?

    serve ──▶ admit: signature, caller ──▶ decode ──▶ authorize: policies, rates ──▶ handle

Laws
- Nothing is done with a request before its signature is verified.
- Account and principal come from the verified key, never from the request.
- Every action has a rule in frontend/rights.py, or names its queue by QueueUrl. What has neither is refused.
- A decision is remembered with the objects that it was made from: the caller and the queue. Both are replaced when
  anything about them changes, so a remembered decision cannot outlive its reasons.
- A change of keys, users or policies made by another process is seen within a second.
"""

from functools import lru_cache
from typing import Any, Final, Protocol

from holdfast.core.admission import policy
from holdfast.core.admission.access import Access
from holdfast.core.admission.bucket import Buckets, Poured, Rate
from holdfast.core.admission.denials import AccessDenied
from holdfast.core.admission.policy_text import parse_queue_policy
from holdfast.core.admission.signature import Signed, Verifier
from holdfast.core.coordination.identity import DAY_S
from holdfast.core.errors import QueueDoesNotExist
from holdfast.core.types import LaneId, QueueName
from holdfast.frontend.caller import Caller
from holdfast.frontend.exchange import Exchange
from holdfast.frontend.keyring import Keyring
from holdfast.frontend.locate import Directory, Queue
from holdfast.frontend.reach import Reach
from holdfast.frontend.rights import DEMANDS, named
from holdfast.protocol import actions
from holdfast.runtime import clock

DECISIONS_MAX: Final = 100_000  # remembered: caller, action, queue
POLICIES_MAX: Final = 10_000  # parsed documents of queues

# As SQS answers GetQueueUrl for a queue of another account, whether it is there or not.
NOT_YOURS: Final = "The specified queue does not exist or you do not have access to it."

_EXTENSIONS: Final = frozenset(action.__name__ for action in actions.EXTENSIONS)  # as policies call them: holdfast:…
_read_queue_policy: Final = lru_cache(POLICIES_MAX)(parse_queue_policy)


class Rates:
    """How fast accounts, queues and the actions of an account may be used; None: as fast as they like.

    `is_shared`: other processes admit, too. `pour` is told what they did, `take_untold` says what was done here."""

    def __init__(
        self,
        account: Rate | None = None,
        queue: Rate | None = None,
        action: Rate | None = None,
        *,
        is_shared: bool = False,
    ) -> None:
        self._rates = (account, queue, action)
        self._buckets = Buckets(is_shared=is_shared)
        self.is_limited = any(self._rates)

    def take_untold(self) -> Poured:
        return self._buckets.take_untold()

    def pour(self, poured: Poured) -> None:
        account, queue, action = self._rates
        rates = {"account": account, "queue": queue, "action": action}
        for name, cost in poured:
            rate = rates[name[0]]
            assert rate is not None, "all processes have the same configuration"
            self._buckets.pour((name, rate), clock.elapsed_us(), cost=cost)

    def admit(self, caller: Caller, action: str, name: QueueName | None) -> None:
        account, queue, per_action = self._rates
        claims: list[tuple[tuple[str, ...], Rate]] = []
        if account:
            claims.append((("account", caller.account), account))
        if queue and name and name.name:
            claims.append((("queue", *name), queue))
        if per_action:
            claims.append((("action", caller.account, action), per_action))
        self._buckets.admit(claims, clock.elapsed_us())


class Gate(Protocol):
    def admit(self, exchange: Exchange, *, service: bytes = b"sqs") -> Caller:
        """Who asks, or a Denial."""
        ...

    def authorize(self, request: Any, exchange: Exchange) -> None:
        """Returns if the exchange's caller may do what the request asks; else a Denial."""
        ...


class Open:
    """Without authentication everybody is the root of one account. Rates are limited all the same."""

    def __init__(self, directory: Directory, *, rates: Rates | None = None) -> None:
        account = directory.site.account
        self._directory = directory
        self._rates = rates or Rates()
        self._caller = Caller(account, f"arn:aws:iam::{account}:root", account)

    def admit(self, _: Exchange, *, service: bytes = b"sqs") -> Caller:  # noqa: ARG002 - the interface
        return self._caller

    def authorize(self, request: Any, exchange: Exchange) -> None:
        if self._rates.is_limited:
            self._rates.admit(exchange.caller, type(request).__name__, self._queue_name(request, exchange))

    def _queue_name(self, request: Any, exchange: Exchange) -> QueueName:
        """The queue that the request is about."""
        rule = DEMANDS.get(type(request).__name__)
        if rule is not None:
            return next(rule(request, exchange, self._directory))[1]
        return named(request.queue_url or exchange.path_reference(), exchange)


class Signatures:
    """The gate that checks."""

    def __init__(
        self,
        directory: Directory,
        keyring: Keyring,
        *,
        rates: Rates | None = None,
        reach: Reach | None = None,
    ) -> None:
        self._directory = directory
        self._keyring = keyring
        self._verifier = Verifier(keyring.secret_of)
        self._rates = rates or Rates()
        self._is_limited = self._rates.is_limited
        self._reach = reach or Reach("")
        self._now_s = 0
        self._day = 0
        self._allowed: dict[tuple[Caller, type, LaneId], Queue] = {}

    def admit(self, exchange: Exchange, *, service: bytes = b"sqs") -> Caller:
        now_s = clock.wall_ms() // 1000
        if now_s != self._now_s:
            self._now_s, self._day = now_s, now_s // DAY_S
        path, _, query = exchange.target.partition(b"?")
        signed = Signed(exchange.method, path, query, exchange.headers, exchange.body)
        signer = self._verifier.verify(signed, now_s, service=service)
        return self._keyring.caller(signer.access_key, self._day)

    def authorize(self, request: Any, exchange: Exchange) -> None:
        action = type(request)
        rule = DEMANDS.get(action.__name__)
        name = None
        if rule is None:
            name = self._authorize_queue(action, request.queue_url, exchange)
        else:
            for right, asked in rule(request, exchange, self._directory):
                exchange.asked = exchange.asked or asked
                self._demand(right, asked, exchange)
                name = name or asked
        if self._is_limited:
            self._rates.admit(exchange.caller, action.__name__, name)

    def _authorize_queue(self, action: type, reference: str | None, exchange: Exchange) -> QueueName:
        """The usual case: one right, to the queue that the request names. Answers the queue's name."""
        if reference is None:
            reference = exchange.path_reference()
        try:
            queue = self._directory.find(reference, exchange.caller.account)
        except QueueDoesNotExist:
            exchange.asked = named(reference, exchange)
            self._check(action.__name__, exchange.asked, exchange)
            raise
        exchange.queue = queue.name
        question = (exchange.caller, action, queue.lane)
        if self._allowed.get(question) is not queue and self._check(action.__name__, queue.name, exchange):
            if len(self._allowed) >= DECISIONS_MAX:
                self._allowed.clear()
            self._allowed[question] = queue
        return queue.name

    def _demand(self, right: str, name: QueueName, exchange: Exchange) -> None:
        try:
            self._check(right, name, exchange)
        except AccessDenied:
            if right == "GetQueueUrl" and name.account != exchange.caller.account:
                raise QueueDoesNotExist(NOT_YOURS) from None
            raise

    def _check(self, action: str, name: QueueName, exchange: Exchange) -> bool:
        """Whether the answer, which is yes, depends on nothing but caller, queue and action. An empty name stands for
        all queues of the account."""
        caller, queue = exchange.caller, self._directory.get(name)
        document = queue.row.attributes.get("Policy") if queue else None
        resource = _read_queue_policy(document) if document else None
        access = Access(
            caller.account,
            caller.arn,
            f"holdfast:{action}" if action in _EXTENSIONS else f"sqs:{action}",
            self._directory.arn_of(name),
            source_ip=self._reach.source_ip(exchange),
            secure_transport=self._reach.secure_transport(exchange),
            now_s=self._now_s,
        )
        decision = policy.evaluate(access, identity=caller.policies, resource=resource)
        if not decision.is_allowed:
            raise policy.refusal(access, decision)
        return not (resource and resource.reads) and not any(each.reads for each in caller.policies)
