"""Rules switched off, one at a time. The search has to find what each of them prevents.

The bounds of each are the smallest that are known to show it, so that all of them together take seconds. Most are
judged by loss alone: a record that was answered to a client, and is sealed away or missing at the primary. Two
lose nothing by themselves while the other rules hold, and are judged by the invariant that they serve.
"""

from typing import NamedTuple

from tests.model.invariants import loss, violation
from tests.model.search import Judge
from tests.model.state import Bounds, Rules

SMALL = Bounds(epochs=2, lsns=1, crashes=0, wipes=0, requests=1)
PAIR = SMALL._replace(hosts=2)


class Weakening(NamedTuple):
    says: str
    rules: Rules
    bounds: Bounds
    judge: Judge = loss


# In the order of the protocol's own list.
LISTED: dict[str, Weakening] = {
    "acknowledge-before-fsync": Weakening(
        "a member acknowledges what it has not synced",
        Rules(ack_after_fsync=False),
        PAIR._replace(crashes=1),
    ),
    "no-fencing": Weakening(
        "a member takes frames of an epoch below its promise",
        Rules(fences=False),
        SMALL,
    ),
    "promise-not-persisted": Weakening(
        "a power cut makes a host forget its promise",
        Rules(promise_survives=False),
        SMALL._replace(crashes=1),
    ),
    "identity-ignored": Weakening(
        "a host with a new disk counts as the old one",
        Rules(life_counts=False),
        PAIR._replace(wipes=1),
    ),
    "majority-commits": Weakening(
        "a majority commits, one member alone recovers",
        Rules(all_members_commit=False),
        SMALL,
    ),
    "cut-by-high-water-mark": Weakening(
        "a restarted host cuts its log at the last committed lsn it heard of",
        Rules(cuts_only_conflicts=False),
        PAIR._replace(crashes=1),
    ),
    "learner-joins-early": Weakening(
        "a learner becomes a member before it is level, and a candidate does not look whether it reaches the seal",
        Rules(learner_is_level=False, start_is_checked=False),
        SMALL._replace(outside=1, epochs=3),
    ),
    "outcome-assumed": Weakening(
        "a configuration counts as written as soon as it is asked for",
        Rules(awaits_outcome=False),
        SMALL._replace(requests=2),
    ),
    "acks-past-the-seal": Weakening(
        "a primary makes and answers frames while its configuration is being changed",
        Rules(stops_for_change=False),
        SMALL,
    ),
    "snapshot-past-commit": Weakening(
        "a snapshot takes in what is not committed",
        Rules(snapshots_committed=False),
        PAIR._replace(epochs=3, has_snapshots=True),
    ),
}

# What the search added to the protocol (decision 0013), and rules that the list leaves out.
FURTHER: dict[str, Weakening] = {
    "unchanged-means-failed": Weakening(
        "an unchanged record is taken to say that a request failed",
        Rules(unchanged_is_unknown=False),
        SMALL,
    ),
    "candidate-grows": Weakening(
        "a candidate takes a longer log after it has sent its own",
        Rules(candidate_is_frozen=False),
        SMALL,
    ),
    "candidate-twice": Weakening(
        "a restarted candidate goes on in the same epoch",
        Rules(candidate_once=False),
        SMALL._replace(crashes=1, requests=2),
    ),
    "candidate-trusts-the-manager": Weakening(
        "a candidate does not look at its own life",
        Rules(candidate_knows_itself=False),
        PAIR._replace(wipes=1),
    ),
    "candidate-from-outside": Weakening(
        "a candidate need not be of the last configuration",
        Rules(candidate_is_member=False),
        SMALL._replace(outside=1),
    ),
    "late-copy-cuts": Weakening(
        "a log that comes late cuts what was added since",
        Rules(cuts_only_older=False),
        PAIR,
    ),
    "damage-sealed-alone": Weakening(
        "a candidate with a damaged tail asks nobody",
        Rules(damage_asks=False),
        PAIR._replace(rots=1),
    ),
    "damage-forgotten": Weakening(
        "a damaged tail is cut, and looks merely absent after a restart",
        Rules(damage_is_remembered=False),
        PAIR._replace(rots=1, crashes=1),
    ),
    "last-one-goes-on": Weakening(
        "a configuration may have fewer than min_members",
        Rules(enough_members=False),
        SMALL,
        violation,
    ),
    "stale-disk-written": Weakening(
        "a configuration is written though a member's disk was replaced meanwhile",
        Rules(change_guards_lives=False),
        SMALL._replace(wipes=1),
        violation,
    ),
}
