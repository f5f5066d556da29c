"""A warm start saves seconds and nothing else: a damaged archive is as if there were none."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.pipeline.on_spark.conftest import MODE

pytestmark = pytest.mark.skipif(MODE != "full", reason="JVMs of their own: make test-spark-full")

SCRIPT = """
import sys
from pathlib import Path
from holdfast.spark import warmth
from holdfast.spark.session import SMALL, session

if sys.argv[1] == "record":
    with warmth.recording() as told:
        session(master="local[1]", settings=SMALL, java_options=told).range(3).count()
else:
    print(session(master="local[1]", settings=SMALL).range(3).count())
"""


def run(cache: Path, *words: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, *words],
        env={"XDG_CACHE_HOME": str(cache), "PATH": "/usr/bin:/bin"},
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout + done.stderr


def test_an_archive_is_made_and_used_and_one_that_is_damaged_is_passed_over(tmp_path: Path) -> None:
    assert run(tmp_path, "record") == ""
    (archive,) = tmp_path.rglob("*.jsa")
    assert run(tmp_path, "use") == "3\n"
    whole = archive.read_bytes()
    archive.chmod(0o600)
    archive.write_bytes(whole[: len(whole) // 2])
    assert run(tmp_path, "use") == "3\n"
