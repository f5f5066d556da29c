"""Who manages the cluster: one record in the store, won and lost by comparing its revision.

    standby ── office empty, or its holder silent to half of the hosts ──▶ CAS ──▶ holder
       ▲                                                                             │
       └──── somebody else's name in the record, or resigned because it is cut off ◀─┘

Laws
- The term is the revision of the record. All that a holder writes checks it, so at most one holder can write at a time,
  whatever leases say and however late its writes arrive.
- An office is not taken from somebody for what only one host has noticed.
"""

from holdfast.core.cluster.suspicion import Hearing, is_cut_off
from holdfast.core.coordination.asking import Desk
from holdfast.core.coordination.cluster import MANAGER_KEY, HostId, ManagerRecord, encode
from holdfast.core.coordination.cluster_view import ClusterView
from holdfast.core.coordination.store import Check, Delete, LeaseId, Put, Transaction
from holdfast.core.limits import RESIGN_AFTER, STAND_STEP, SUSPECT_AFTER


class Office:
    def __init__(self, host: HostId, boot: int, *, view: ClusterView, hearing: Hearing, desk: Desk) -> None:
        self._host = host
        self._record = ManagerRecord(host, boot)
        self._view = view
        self._hearing = hearing
        self._desk = desk
        self.lease = LeaseId(0)  # under which the record is written; 0: this host may not stand yet
        self.term = 0  # 0: not held
        self._vacant_since: int | None = None
        self._cut_off_since: int | None = None

    @property
    def is_held(self) -> bool:
        return self.term != 0

    def look(self) -> bool:
        """Reads the record; whether that changed whose office it is."""
        was_held = self.is_held
        self.term = self._view.revision_of(MANAGER_KEY) if self._view.manager == self._record else 0
        return self.is_held != was_held

    def stand(self, now: int) -> None:
        """Tries to get it, if it is to be had. Hosts stand one after the other, in the order of their names; one that
        is cut off does not stand, since it could do nothing with the office."""
        if is_cut_off(self._host, self._view, self._hearing, now=now) or not self._is_vacant(now):
            self._vacant_since = None
            return
        self._vacant_since = now if self._vacant_since is None else self._vacant_since
        heard = [each for each in self._view.hosts if self._hearing.is_heard(each, now)]
        rank = sum(each < self._host for each in heard if each != self._holder())
        if now - self._vacant_since < rank * STAND_STEP or not self._desk.is_free(MANAGER_KEY) or not self.lease:
            return
        put = Put(MANAGER_KEY, encode(self._record), self.lease)
        check = Check(MANAGER_KEY, self._view.revision_of(MANAGER_KEY))
        self._desk.write(MANAGER_KEY, Transaction((check,), (put,)), now)

    def _holder(self) -> HostId | None:
        return self._view.manager.host if self._view.manager else None

    def _is_vacant(self, now: int) -> bool:
        """Nobody's, or that of somebody whom neither this host nor half of those it hears have heard lately."""
        holder = self._holder()
        if holder is None or holder == self._host:
            return True
        if not self._hearing.is_silent(holder, now):
            return False
        others = [each for each in self._view.hosts if each not in (holder, self._host)]
        heard = [each for each in others if self._hearing.is_heard(each, now)]
        return 2 * sum(map(self._finds_holder_silent, heard)) >= len(heard)

    def _finds_holder_silent(self, host: HostId) -> bool:
        beat = self._hearing.beat_of(host)
        return beat is not None and beat.manager_silence_us >= SUSPECT_AFTER

    def may_act(self, now: int) -> bool:
        """False: held, but cut off. After a while it is left to others, if the store can be reached."""
        if not is_cut_off(self._host, self._view, self._hearing, now=now):
            self._cut_off_since = None
            return True
        self._cut_off_since = now if self._cut_off_since is None else self._cut_off_since
        if now - self._cut_off_since >= RESIGN_AFTER and self._desk.is_free(MANAGER_KEY):
            resign = Transaction((Check(MANAGER_KEY, self.term),), (Delete(MANAGER_KEY),))
            self._desk.write(MANAGER_KEY, resign, now)
        return False
