"""What the machine's own stalls make of a latency."""

import os
import subprocess
import sys

import pytest

from bench.stalls import GAP_NS, wait_ns, watch

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
def test_a_program_that_has_to_share_its_core_is_seen_to_wait() -> None:
    core = min(os.sched_getaffinity(0))
    spin = f"import os; os.sched_setaffinity(0, {{{core}}}); print(flush=True)\nwhile True: pass"
    neighbour = subprocess.Popen([sys.executable, "-c", spin], stdout=subprocess.PIPE)
    try:
        assert neighbour.stdout is not None
        neighbour.stdout.readline()  # it is there
        gaps = watch(0.3, on=[core])
    finally:
        neighbour.kill()
        neighbour.communicate()
    assert sum(gaps) > 50 * MS
    assert wait_ns(gaps, 50, seconds=0.3) <= wait_ns(gaps, 99, seconds=0.3) <= max(gaps)
    assert wait_ns(gaps, 99, seconds=0.3) > GAP_NS
