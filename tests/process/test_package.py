"""The wheel, installed where nothing else is, serves. The commands are those of deploy/Dockerfile, which no container
engine has run: paths and ports are put in their place, the rest is as it stands there.
"""

import json
import os
import re
import signal
import subprocess
import sys
import time
import venv
import zipfile
from pathlib import Path

import boto3
import pytest

ROOT = Path(__file__).parent.parent.parent
DOCKERFILE = (ROOT / "deploy" / "Dockerfile").read_text(encoding="utf-8")
START_S = 20.0
INSTALL_S = 300
SPARK = ("pyspark_holdfast_table", "pyspark_holdfast_usage")  # where Spark looks for data sources


def words(pattern: str) -> list[str]:
    """The JSON list behind an instruction of the Dockerfile; exactly one."""
    (found,) = re.findall(pattern + r" (\[.*\])$", DOCKERFILE, re.MULTILINE)
    listed: list[str] = json.loads(found)
    return listed


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("dist")
    command = [sys.executable, "-m", "hatchling", "build", "--target", "wheel", "--directory", str(folder)]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True)
    (built,) = folder.glob("*.whl")
    return built


def test_the_wheel_has_holdfast_and_nothing_else(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        folders = {name.partition("/")[0] for name in archive.namelist()}
    assert {each for each in folders if not each.endswith(".dist-info")} == {"holdfast", *SPARK}
    assert len(folders) == 1 + len(SPARK) + 1, folders


def test_what_the_image_runs_works_in_a_fresh_environment(wheel: Path, tmp_path: Path) -> None:
    home, data, ready = tmp_path / "opt", tmp_path / "data", tmp_path / "ready"
    install(wheel, home)
    variables = {"PATH": f"{home / 'bin'}{os.pathsep}/usr/bin:/bin", "HOME": str(tmp_path)}
    given = {"HOLDFAST_ACCESS_KEY_ID": "AKIAEXAMPLEEXAMPLE00", "HOLDFAST_SECRET_ACCESS_KEY": "x" * 40}
    start = [str(data) if each == "/data" else each for each in words("^ENTRYPOINT") + words("^CMD")]
    assert start[-2:] == ["--listen", "0.0.0.0:9324"]
    start[0] = str(home / "bin" / start[0])
    server = subprocess.Popen(
        [*start[:-1], "127.0.0.1:0", "--ready-file", str(ready)], env=variables | given, cwd=tmp_path
    )
    try:
        deadline = time.monotonic() + START_S
        while not ready.exists():
            assert server.poll() is None
            assert time.monotonic() < deadline
            time.sleep(0.05)
        endpoint = ready.read_text(encoding="utf-8").split()[0]
        is_well = [each.replace("http://127.0.0.1:9324", endpoint) for each in words("^    CMD")]
        assert is_well != words("^    CMD")
        is_well[0] = str(home / "bin" / is_well[0])
        assert subprocess.run(is_well, env=variables, check=False).returncode == 0
        send_and_receive(endpoint, *given.values())
        server.send_signal(signal.SIGTERM)
        assert server.wait(20) == 0
        assert subprocess.run(is_well, env=variables, check=False, capture_output=True).returncode != 0
    finally:
        server.kill()
        server.wait()


def install(wheel: Path, home: Path) -> None:
    """As the image does: only what the server needs, in the versions of the lock."""
    venv.create(home)
    pip = [sys.executable, "-m", "pip", "--python", str(home / "bin" / "python")]
    command = [*pip, "install", "--quiet", "--no-compile", "--disable-pip-version-check"]
    variables = {**os.environ, "PIP_CONSTRAINT": str(ROOT / "requirements.lock")}
    variables.pop("PYTHONPATH", None)
    done = subprocess.run(
        [*command, str(wheel)], env=variables, capture_output=True, text=True, check=False, timeout=INSTALL_S
    )
    if done.returncode and re.search("connection|timed out|resolve host|name resolution", done.stderr, re.IGNORECASE):
        pytest.skip(f"THE WHEEL IS NOT TESTED HERE: no package registry can be reached: {done.stderr[-300:]}")
    assert done.returncode == 0, done.stderr


def send_and_receive(endpoint: str, key: str, secret: str) -> None:
    sqs = boto3.client(
        "sqs", endpoint_url=endpoint, region_name="us-east-1", aws_access_key_id=key, aws_secret_access_key=secret
    )
    url = sqs.create_queue(QueueName="jobs")["QueueUrl"]
    sqs.send_message(QueueUrl=url, MessageBody="hello")
    assert [each["Body"] for each in sqs.receive_message(QueueUrl=url)["Messages"]] == ["hello"]
    sqs.close()
