"""Work that the admin port starts."""

import asyncio
import sys
from pathlib import Path

import pytest

from holdfast.console.chores import Chores
from holdfast.console.facts import FAILED, NEVER, RUNNING


def test_work_that_cannot_be_started_says_so_and_can_be_asked_for_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "executable", str(tmp_path / "missing"))
    chores = Chores(tmp_path, None)
    assert chores.scrub.told.state == NEVER
    for _ in range(2):
        asyncio.run(chores.scrub.start())
        assert chores.scrub.told.state == FAILED
        assert "could not be started" in chores.scrub.told.problem
    asyncio.run(chores.stop())


def test_work_that_ends_well_and_says_something_unreadable_has_failed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = tmp_path / "program"
    program.write_text("#!/bin/sh\necho half of an answ\n", encoding="utf-8")
    program.chmod(0o700)
    monkeypatch.setattr(sys, "executable", str(program))
    chores = Chores(tmp_path, None)

    async def scrub() -> None:
        await chores.scrub.start()
        while chores.scrub.told.state == RUNNING:  # noqa: ASYNC110 - nobody tells when it has ended
            await asyncio.sleep(0.01)
        await chores.stop()

    asyncio.run(asyncio.wait_for(scrub(), 20))
    assert chores.scrub.told.state == FAILED
    assert "cannot be read" in chores.scrub.told.problem
    assert "half of an answ" in chores.scrub.told.problem
