"""Counts what was checked, and fails the run when a check does not hold."""

from typing import Final

from tests.sim.world import Violation

NAMES: Final = {
    "I1": "every acknowledged message is there, or something accounts for it",
    "I2": "what is received was sent, once, and got there by a way it may take",
    "I3": "one process appends to a shard in one epoch; epochs grow with every change",
    "I4": "no host takes back what it promised",
    "I5": "what is acknowledged is durable on enough disks",
    "I6": "one shard, epoch and lsn: the same bytes on every disk",
    "I7": "nothing is handed out before it is committed; seals do not change and hold",
    "I8": "an active primary holds everything that was acknowledged",
    "I9": "nothing is handed out after an acknowledged delete",
    "I10": "one consumer at a time has a group, and has it from its front",
    "I11": "groups are handed out in order without gaps; sequence numbers rise",
    "I12": "one deduplication id, one message, for the length of the window",
    "I13": "cluster time never goes back; no lease or delay is shorter than asked",
    "I14": "no disk that is not what it was belongs to a configuration",
    "I15": "thirty seconds after the last fault all shards are whole, and drain",
    "I16": "damaged bytes are noticed and never served",
    "I17": "a crash anywhere leaves a shard that starts again",
    "I18": "queues go on while the store is away",
    "I19": "receive counts never fall",
    "I20": "no key is used twice with the same nonce",
    "I21": "the live state is the state that snapshot and log lead to",
    "liveness": "without faults everything is drained",
}

CLUSTER_ONLY: Final = ("I3", "I4", "I5", "I6", "I8", "I14", "I15", "I18")


class Tally:
    def __init__(self) -> None:
        self.counts: dict[str, int] = dict.fromkeys(NAMES, 0)

    def check(self, name: str, is_fine: bool, text: str = "") -> None:
        self.counts[name] += 1
        if not is_fine:
            raise Violation(name, text)
