"""Who asks, as the verified key says."""

from collections.abc import Sequence
from typing import Final

from holdfast.core.admission.policy import Policy


class Caller:
    """Whom a key speaks for. Compared by identity: a caller whose policies change is another one."""

    __slots__ = ("account", "arn", "policies", "sender", "user_id")

    def __init__(self, account: str, arn: str, user_id: str, policies: Sequence[Policy] = ()) -> None:
        self.account = account
        self.arn = arn
        self.user_id = user_id
        self.sender = user_id.encode()  # SenderId of what this caller sends
        self.policies = tuple(policies)


NOBODY: Final = Caller("", "", "")  # of a request whose signature is not verified
