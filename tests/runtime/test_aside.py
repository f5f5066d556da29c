"""Threads that leave the processor to others."""

import os
import sys
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from holdfast.runtime.aside import NICENESS, step_aside


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere priorities belong to whole processes")
def test_a_thread_steps_aside_and_the_others_do_not() -> None:
    def niceness() -> int:
        return os.getpriority(os.PRIO_PROCESS, threading.get_native_id())

    before = niceness()
    with ThreadPoolExecutor(1, initializer=step_aside) as thread:
        assert thread.submit(niceness).result() == NICENESS
    assert niceness() == before < NICENESS
