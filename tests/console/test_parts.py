"""Parts of several workers become a whole: counts are added, and do not fall when one of them is replaced."""

from pathlib import Path

import msgspec

from holdfast.console.facts import Queue
from holdfast.console.parts import Action, Part, Told, counted, together


def part(**changes: object) -> Part:
    made = Part(
        depths=[],
        counts={},
        totals=[0, 0, 0, 0, 0],
        actions={},
        syncs=[1, 0],
        sync_seconds=0.5,
        connections=1,
        long_polls=0,
        is_usage_waiting=False,
        usage_dropped=0,
        process={"process_cpu_seconds_total": 2.0, "process_open_fds": 7.0, "process_start_time_seconds": 100.0},
    )
    return msgspec.structs.replace(made, **changes)


def queue(name: str, visible: int) -> Queue:
    return Queue("000000000000", name, 1, 1, visible, 0, 0, 0, 0)


def test_a_queue_has_the_depth_of_who_leads_it_and_the_counts_of_all() -> None:
    one = part(depths=[queue("a", 3)], counts={"000000000000/a": [1, 0, 0, 0, 5], "000000000000/b": [9, 0, 0, 0, 0]})
    two = part(depths=[queue("b", 4)], counts={"000000000000/a": [2, 1, 0, 0, 6]})
    shown = {each.name: each for each in together([one, two]).queues()}
    assert (shown["a"].visible, shown["a"].sent, shown["a"].received, shown["a"].sent_bytes) == (3, 3, 1, 11)
    assert (shown["b"].visible, shown["b"].sent, shown["b"].received) == (4, 9, 0)


def test_counts_are_added_and_what_describes_a_process_is_told_sensibly() -> None:
    one = part(actions={"SendMessage": Action([1, 2], 10, {200: 3})}, totals=[1, 2, 3, 4, 5], connections=2)
    two = part(
        actions={"SendMessage": Action([0, 1], 5, {200: 1, 400: 1}), "ListQueues": Action([1, 0], 1, {200: 1})},
        totals=[1, 1, 1, 1, 1],
        is_usage_waiting=True,
        usage_dropped=4,
        process={"process_cpu_seconds_total": 1.0, "process_open_fds": 5.0, "process_start_time_seconds": 50.0},
    )
    whole = together([one, two])
    assert whole.actions["SendMessage"] == Action([1, 3], 15, {200: 4, 400: 1})
    assert whole.actions["ListQueues"] == Action([1, 0], 1, {200: 1})
    assert (whole.totals, whole.syncs, whole.sync_seconds) == ([2, 3, 4, 5, 6], [2, 0], 1.0)
    assert (whole.connections, whole.is_usage_waiting, whole.usage_dropped) == (3, True, 4)
    assert whole.process == {
        "process_cpu_seconds_total": 3.0,
        "process_open_fds": 12.0,
        "process_start_time_seconds": 50.0,
    }
    assert one.totals == [1, 2, 3, 4, 5]  # parts stay as they are


def test_what_was_told_is_found_again_and_only_its_counts_go_on(tmp_path: Path) -> None:
    told = Told(tmp_path / "0.told")
    assert told.read() is None
    former = part(depths=[queue("a", 3)], counts={"000000000000/a": [1, 0, 0, 0, 0]}, totals=[1, 0, 0, 0, 0])
    told.write(msgspec.msgpack.encode(former))
    read = told.read()
    assert read == former
    whole = together([part(depths=[queue("a", 2)], connections=5), counted(read)])
    assert (whole.totals[0], whole.connections, len(whole.depths), whole.queues()[0].sent) == (1, 5, 1, 1)
    assert whole.process["process_cpu_seconds_total"] == 4.0
    assert whole.process["process_open_fds"] == 7.0
