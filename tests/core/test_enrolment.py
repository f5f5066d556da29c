"""Identity at a start: who is known again, who is not, and what a store that answers badly may do to it."""

from random import Random
from typing import Any

import google_crc32c
import pytest

from holdfast.core.coordination.asking import Fetch, Fetched, Outcome, Transact
from holdfast.core.coordination.cluster import CLUSTER_KEY, DiskId, HostId, decode_disk, disk_key, host_key
from holdfast.core.coordination.store import Put, State, Transaction
from holdfast.core.errors import CorruptLog
from holdfast.core.replication.enrolment import (
    Enrolled,
    Enrolling,
    ForeignStore,
    SetAside,
    StoreRestored,
    decode_identity,
    enrol,
)
from tests.sim.disk import Disk

HOST = HostId("h1")
ROOT = "host"


class Machine:
    """A disk beside a store; `outcomes` are what the next transactions seem to end in."""

    def __init__(self) -> None:
        self.disk = Disk(Random(1), [ROOT])
        self.store = State()
        self.outcomes: list[str] = []
        self.names = 0
        self.late: list[Transact] = []
        self.asides: list[int] = []

    def boot(self, host: HostId = HOST, cluster: str = "c") -> Enrolled:
        return self.finish(self.begin(host, cluster))

    def begin(self, host: HostId = HOST, cluster: str = "c") -> Enrolling:
        self.names += 1
        return enrol(host, cluster=cluster, fresh=DiskId(f"disk-{self.names}"))

    def finish(self, work: Enrolling, answer: Any = None) -> Enrolled:
        while True:
            try:
                answer = self.do(work.send(answer))
            except StopIteration as end:
                enrolled: Enrolled = end.value
                return enrolled

    def do(self, step: Any) -> Any:
        match step:
            case Fetch():
                return Fetched(step.token, self.store.get(step.key), self.store.revision)
            case Transact():
                return self.transact(step)
            case SetAside():
                self.asides.append(len(self.disk.solid_names[f"{ROOT}/"]))
                return None
            case _:
                return self.disk.execute(ROOT, step)

    def transact(self, step: Transact) -> Outcome:
        way = self.outcomes.pop(0) if self.outcomes else "answered"
        if way == "request lost":
            return Outcome.UNKNOWN
        if way == "late":
            self.late.append(step)
            return Outcome.UNKNOWN
        is_done = self.store.transact(step.transaction)
        if way == "reply lost":
            return Outcome.UNKNOWN
        return Outcome.DONE if is_done else Outcome.REFUSED

    def copy(self) -> bytes:
        return bytes(self.disk.file(ROOT, "identity").solid)

    def put_back(self, data: bytes) -> None:
        file = self.disk.file(ROOT, "identity")
        file.solid[:] = data
        file.forget_cache()


def test_an_empty_disk_is_registered_and_its_life_is_the_revision_that_made_its_record() -> None:
    machine = Machine()
    enrolled = machine.boot()
    record = machine.store.get(disk_key(enrolled.identity.disk))
    assert record is not None
    assert enrolled.is_new
    assert enrolled.identity.life == record.created
    assert decode_identity(machine.copy()) == enrolled.identity


def test_a_restart_keeps_disk_and_life_and_raises_the_boot() -> None:
    machine = Machine()
    first, second = machine.boot(), machine.boot()
    assert not second.is_new
    assert (second.identity.disk, second.identity.life) == (first.identity.disk, first.identity.life)
    assert second.identity.boot == first.identity.boot + 1


def test_a_host_with_a_new_disk_is_gone_as_who_it_was() -> None:
    machine = Machine()
    machine.boot()
    machine.store.transact(Transaction((), (Put(host_key(HOST), b"as it was"),)))
    machine.boot()
    assert machine.store.get(host_key(HOST)) is not None
    machine.disk = Disk(Random(2), [ROOT])
    machine.boot()
    assert machine.store.get(host_key(HOST)) is None


@pytest.mark.parametrize("steps", range(1, 14))
def test_a_start_that_is_cut_short_anywhere_leaves_the_same_disk(steps: int) -> None:
    machine = Machine()
    first = machine.boot()
    work, answer = machine.begin(), None
    for _ in range(steps):
        try:
            answer = machine.do(work.send(answer))
        except StopIteration:
            break
    machine.disk.cut_power()
    again = machine.boot()
    assert not again.is_new
    assert again.identity.life == first.identity.life
    assert again.identity.boot > first.identity.boot


def test_a_disk_that_was_rolled_back_gets_a_new_id_and_a_new_life() -> None:
    machine = Machine()
    first = machine.boot()
    old = machine.copy()
    machine.boot()
    machine.put_back(old)
    machine.asides.clear()
    rolled = machine.boot()
    assert rolled.is_new
    assert len(machine.asides) == 1
    assert rolled.identity.life > first.identity.life
    assert rolled.identity.disk != first.identity.disk


def test_a_wiped_disk_and_one_of_another_host_are_new() -> None:
    machine = Machine()
    machine.boot()
    assert machine.boot(HostId("h2")).is_new
    machine.disk = Disk(Random(2), [ROOT])
    assert machine.boot(HostId("h2")).is_new


def test_of_two_copies_that_start_at_once_one_is_new() -> None:
    machine = Machine()
    first = machine.boot()
    old = machine.copy()
    one = machine.begin()
    answer = machine.do(one.send(None))
    for _ in range(3):
        answer = machine.do(one.send(answer))  # it has the pending number, and not the last one
    machine.put_back(old)
    assert not machine.boot().is_new
    late = machine.finish(one, answer)
    assert late.is_new
    assert late.identity.life != first.identity.life


@pytest.mark.parametrize("way", ["request lost", "reply lost", "late"])
@pytest.mark.parametrize("place", range(3))
def test_an_unknown_outcome_costs_a_number_and_nothing_else(way: str, place: int) -> None:
    machine = Machine()
    machine.outcomes = ["answered"] * place + [way]
    first = machine.boot()
    for step in machine.late:
        machine.store.transact(step.transaction)
    machine.outcomes = ["answered"] * place + [way]
    second = machine.boot()
    assert not second.is_new
    assert second.identity.life == first.identity.life
    record = machine.store.get(disk_key(second.identity.disk))
    assert record is not None
    assert decode_disk(record.value).last_boot == second.identity.boot > first.identity.boot


def test_a_store_that_is_younger_than_the_disk_remembers_enrols_nobody() -> None:
    machine = Machine()
    machine.boot()
    machine.store = State()
    with pytest.raises(StoreRestored, match="was at"):
        machine.boot()


def test_a_disk_of_another_cluster_and_a_damaged_identity_are_refused() -> None:
    machine = Machine()
    machine.boot()
    with pytest.raises(CorruptLog, match="belongs to the cluster 'c'"):
        machine.boot(cluster="other")
    data = bytearray(machine.copy())
    with pytest.raises(CorruptLog, match="version"):
        decode_identity(_of_another_version(data))
    data[20] ^= 1
    machine.put_back(bytes(data))
    with pytest.raises(CorruptLog, match="damaged"):
        machine.boot()


def _of_another_version(data: bytearray) -> bytes:
    changed = bytearray(data[:-4])
    changed[8] = 9
    crc: int = google_crc32c.value(bytes(changed))
    return bytes(changed) + crc.to_bytes(4, "little")


def test_nobody_enrols_at_the_store_of_another_cluster() -> None:
    ours, theirs = Machine(), Machine()
    ours.boot(cluster="ours")
    theirs.boot(cluster="theirs")
    ours.store = theirs.store
    with pytest.raises(ForeignStore, match="'theirs', and this host of 'ours'"):
        ours.boot(cluster="ours")
    ours.disk = Disk(Random(2), [ROOT])
    with pytest.raises(ForeignStore, match="'theirs'"):
        ours.boot(cluster="ours")
    assert [record.key for record in theirs.store.range("disks/").records] == [disk_key(DiskId("disk-1"))]


def test_a_disk_that_is_of_a_cluster_makes_no_empty_store_that_of_its_cluster() -> None:
    machine = Machine()
    machine.boot()
    machine.store = State()
    for _ in range(20):
        machine.store.transact(Transaction((), (Put("of others", b""),)))
    with pytest.raises(ForeignStore, match="the store is empty"):
        machine.boot()
    assert machine.store.revision == 20


def test_whoever_comes_first_writes_whose_store_it_is_and_others_agree() -> None:
    one, other = Machine(), Machine()
    other.store = one.store
    one.outcomes = ["reply lost"]
    one.boot()
    other.names = 5
    assert other.boot(HostId("h2")).is_new
    record = one.store.get(CLUSTER_KEY)
    assert record is not None
    assert record.value == b"c"
