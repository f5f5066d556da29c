"""Counts what was checked, and fails the run when a check does not hold."""

from typing import Final

from tests.sim.world import Violation

NAMES: Final = {
    "I1": "every acknowledged message is there, or something accounts for it",
    "I2": "what is received was sent, once, and got there by a way it may take",
    "I7": "nothing is handed out before it is committed",
    "I9": "nothing is handed out after an acknowledged delete",
    "I10": "one consumer at a time has a group, and has it from its front",
    "I11": "groups are handed out in order without gaps; sequence numbers rise",
    "I12": "one deduplication id, one message, for the length of the window",
    "I13": "cluster time never goes back; no lease or delay is shorter than asked",
    "I16": "damaged bytes are noticed and never served",
    "I17": "a crash anywhere leaves a shard that starts again",
    "I19": "receive counts never fall",
    "I20": "no key is used twice with the same nonce",
    "I21": "the live state is the state that snapshot and log lead to",
    "liveness": "without faults everything is drained",
}


class Tally:
    def __init__(self) -> None:
        self.counts: dict[str, int] = dict.fromkeys(NAMES, 0)

    def check(self, name: str, is_fine: bool, text: str = "") -> None:
        self.counts[name] += 1
        if not is_fine:
            raise Violation(name, text)
