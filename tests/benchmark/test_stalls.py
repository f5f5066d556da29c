"""What the machine's own stalls make of a latency."""

import os

import pytest

from bench.stalls import wait_ns, watch

MS = 1_000_000


def test_without_stalls_nobody_waits() -> None:
    assert wait_ns([], 99, seconds=1) == 0


def test_stalls_that_hit_fewer_than_one_in_a_hundred_do_not_show_in_the_99th_percentile() -> None:
    assert wait_ns([9 * MS], 99, seconds=1) == 0
    assert wait_ns([9 * MS], 99.9, seconds=1) == 8 * MS  # the first millisecond of the gap waits longer than that


def test_long_waits_are_the_beginnings_of_long_stalls() -> None:
    # 40 ms in all; the 10 ms of instants that wait longest: 10 of 30 would wait 20 ms or more, none of the others
    assert wait_ns([30 * MS, 5 * MS, 5 * MS], 99, seconds=1) == 20 * MS


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="NOT TESTED: this system cannot pin programs to cores")
def test_watching_ends_and_sees_no_gap_longer_than_it_lasted() -> None:
    gaps = watch(0.05)
    assert all(gap > 0 for gap in gaps)
    assert wait_ns(gaps, 100, seconds=0.05) == max(gaps, default=0)
