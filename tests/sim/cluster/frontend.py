"""A front-end: knows by a late watch who leads which shard, asks there, asks again, gives up.

Refused means never decided, so it is asked again as if for the first time. Where no answer came in time the outcome is
unknown: sends and receives are asked again under the same request id, so that they are not carried out twice; of other
requests the client is told that nobody knows. Every attempt is a request of its own in the account, about the same
letter; whatever hosts still do with those that were given up is in the account, too.
"""

from typing import TYPE_CHECKING, Final

import msgspec

from holdfast.core import command as commands
from holdfast.core.cluster import decode_shard
from holdfast.core.command import Receive, Send
from holdfast.core.errors import NotPrimary, OutcomeUnknown, ServiceUnavailable
from holdfast.core.store import Event
from tests.sim.cluster.store import StoreClient, Watch
from tests.sim.request import ANSWERED, OPEN, REFUSED, UNKNOWN, Request
from tests.sim.world import MS, SECOND

if TYPE_CHECKING:
    from tests.sim.cluster.cluster import Cluster

PATIENCE: Final = 6 * SECOND  # for an outcome that is known
ANSWER: Final = 2 * SECOND  # for one answer, beyond the time a long poll waits by itself


class Case:
    """What a client asked, and the attempt that is on its way."""

    __slots__ = ("attempt", "begun", "id", "is_repeated", "request", "sent_to")

    def __init__(self, request: Request, begun: int, name: bytes) -> None:
        self.request = request
        self.begun = begun
        self.id = name
        self.attempt: Request | None = None
        self.sent_to = ""
        self.is_repeated = False  # an attempt of unknown outcome may have done it


class Frontend:
    """Clients ask it as they ask a host."""

    def __init__(self, name: str, cluster: "Cluster") -> None:
        self.name = name
        self.cluster = cluster
        self.world = cluster.world
        self.table: dict[int, tuple[str, int]] = {}  # shard -> primary, epoch
        self._cases: dict[Request, Case] = {}
        self._attempts: dict[Request, Case] = {}
        client = StoreClient(name, cluster.store, self.world.after)
        Watch(client, "shards/", on_event=self._changed, on_revision=lambda _: None)

    @property
    def is_healed(self) -> bool:
        return self.cluster.is_healed

    def _changed(self, event: Event) -> None:
        if event.record is not None:
            record = decode_shard(event.record.value)
            self._learn(int(event.key.partition("/")[2]), record.primary, record.epoch)

    def _learn(self, shard: int, primary: str, epoch: int) -> None:
        if primary and epoch >= self.table.get(shard, ("", 0))[1]:
            self.table[shard] = (primary, epoch)

    # Requests

    def request(self, request: Request) -> None:
        case = Case(request, self.world.now, self.world.rng.randbytes(16))
        self._cases[request] = case
        self.world.after(self.world.between(50, 300), self._try, case)

    def _try(self, case: Case) -> None:
        if case.request not in self._cases:
            return
        asked = case.request
        primary, _ = self.table.get(asked.shard, ("", 0))
        if not primary:
            self._later(case)
            return
        attempt = Request(asked.asker, asked.shard, self._command(case), about=asked.about, wait_s=asked.wait_s)
        case.attempt, case.sent_to = attempt, primary
        self._attempts[attempt] = case
        self.cluster.asked_by[attempt] = self
        self.cluster.wire.stream(self.name, primary, self.cluster.node(primary).arrive, attempt)
        self.world.after(ANSWER + asked.wait_s * SECOND, self._overdue, attempt)

    def _command(self, case: Case) -> commands.Command:
        command = case.request.command
        if not isinstance(command, Send | Receive):
            return command
        age = max(1, self.world.now - case.begun) if case.is_repeated else 0
        return msgspec.structs.replace(command, request=commands.Request(case.id, age))

    def _overdue(self, attempt: Request) -> None:
        self.replied(attempt, UNKNOWN)

    def replied(self, attempt: Request, fate: str) -> None:
        case = self._attempts.pop(attempt, None)
        if case is None or case.request not in self._cases:
            return
        answer = attempt.answer
        is_refused = fate == REFUSED or (fate == ANSWERED and isinstance(answer, ServiceUnavailable))
        if isinstance(answer, NotPrimary):
            self._learn(attempt.shard, answer.host, answer.epoch)
        if is_refused:
            self._later(case)
        elif fate == ANSWERED and not isinstance(answer, OutcomeUnknown):
            case.request.answer, case.request.contents = answer, attempt.contents
            self._close(case, ANSWERED)
        elif isinstance(case.request.command, Send | Receive) and not isinstance(answer, OutcomeUnknown):
            case.is_repeated = True
            self._later(case)
        else:
            self._close(case, UNKNOWN)

    def _later(self, case: Case) -> None:
        if self.world.now - case.begun > PATIENCE + case.request.wait_s * SECOND:
            self._close(case, UNKNOWN if case.is_repeated else REFUSED)
        else:
            self.world.after(self.world.between(10 * MS, 60 * MS), self._try, case)

    def _close(self, case: Case, fate: str) -> None:
        del self._cases[case.request]
        case.request.fate = fate
        case.request.asker.told(case.request, fate)

    def cancel(self, request: Request) -> None:
        """The client's connection broke. Whoever works for it is told."""
        case = self._cases.pop(request, None)
        if case is not None and case.attempt is not None and case.attempt.fate == OPEN:
            node = self.cluster.node(case.sent_to)
            self.cluster.wire.stream(self.name, case.sent_to, node.cancel, case.attempt)

    def waiting(self) -> list[str]:
        return [f"{request.command}" for request in self._cases]
