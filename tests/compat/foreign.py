"""Which clients are tried, and how one is run: a program in its environment, whose lines say which checks passed.

All of them run side by side against one server, as they would in a company.
"""

import ast
import json
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from holdfast.cli import env
from tests.compat import environments
from tests.process.guarded import Guarded
from tests.process.server import environment

HERE = Path(__file__).parent
ROOT = HERE.parent.parent
SESSION_S = 150


class Client(NamedTuple):
    title: str
    program: str  # below clients/
    start: Callable[[str], environments.Command]

    @property
    def checks(self) -> list[str]:
        """By their names, which are sentences; without running anything."""
        source = (HERE / "clients" / self.program).read_text(encoding="utf-8")
        if not self.program.endswith(".py"):
            return re.findall(r'^\s*(?:Checks\.)?check\("([^"]+)"', source, re.MULTILINE)
        for node in ast.parse(source).body:
            match node:
                case ast.Assign(targets=[ast.Name("CHECKS")], value=ast.Tuple(names)):
                    return [each.id.replace("_", " ") for each in names if isinstance(each, ast.Name)]
        raise AssertionError(f"{self.program} has no CHECKS")


def _in_venv(client: str) -> Callable[[str], environments.Command]:
    def start(program: str) -> environments.Command:
        module = f"tests.compat.clients.{program.removesuffix('.py')}"
        return environments.Command((str(environments.python(client)), "-m", module), {"PYTHONPATH": str(ROOT)})

    return start


def _in_node(program: str) -> environments.Command:
    """Node looks for packages beside the script and above, so the scripts go there."""
    node, folder = environments.node()
    for each in (HERE / "clients").glob("*.mjs"):
        shutil.copy(each, folder)
    return environments.Command((node, str(folder / program)), {})


def _in_java(program: str) -> environments.Command:
    words, variables = environments.java()
    return environments.Command((*words, program.removesuffix(".java")), variables)


def _in_go(_: str) -> environments.Command:
    return environments.go()


CLIENTS = {
    "boto3-query": Client("boto3 1.28.80, botocore 1.31.80 (Query)", "boto3_query.py", _in_venv("boto3-query")),
    "aioboto3": Client("aioboto3 15.5.0", "aioboto3_client.py", _in_venv("aioboto3")),
    "celery": Client("Celery 5.7.0", "celery_client.py", _in_venv("celery")),
    "dramatiq": Client("Dramatiq, dramatiq-sqs 0.4.4", "dramatiq_client.py", _in_venv("dramatiq")),
    "taskiq": Client("taskiq, taskiq-aio-sqs 2.1.1", "taskiq_client.py", _in_venv("taskiq")),
    "aws-sdk-js": Client("@aws-sdk/client-sqs 3.1164 on Node", "aws_sdk.mjs", _in_node),
    "sqs-consumer": Client("sqs-consumer 14.2.8, sqs-producer 8.0.4", "sqs_consumer.mjs", _in_node),
    "aws-sdk-java": Client("AWS SDK for Java 2.54.14", "AwsSdk.java", _in_java),
    "jms": Client("Amazon SQS Java Messaging Library 2.1.4 (JMS)", "Jms.java", _in_java),
    "aws-sdk-go": Client("AWS SDK for Go 2, service/sqs 1.52.8", "aws_sdk.go", _in_go),
}


class Session(NamedTuple):
    """What a client's program said."""

    problems: dict[str, str]  # by check; empty when it passed
    rest: str


def play(client: Client, server: Guarded, folder: Path) -> Session:
    """Runs a client's program with what `holdfast env` prints, as a user would."""
    folder.mkdir()
    words, variables = client.start(client.program)
    surroundings = {name: value for name, value in environment().items() if not name.startswith(("AWS_", "PYTHONPATH"))}
    surroundings |= {**variables, **env.variables(server.data), "COMPAT_FOLDER": str(folder)}
    out, err = folder / "stdout", folder / "stderr"
    with out.open("wb") as stdout, err.open("wb") as stderr:
        process = subprocess.Popen(words, stdout=stdout, stderr=stderr, env=surroundings, cwd=folder)
        try:
            process.wait(SESSION_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
    lines = [json.loads(line) for line in out.read_text(encoding="utf-8").splitlines() if line.startswith('{"check"')]
    return Session({each["check"]: each["problem"] for each in lines}, err.read_text(encoding="utf-8")[-20_000:])


if __name__ == "__main__":
    for each in CLIENTS.values():
        sys.stdout.write(f"{each.title}\n" + "".join(f"  {check}\n" for check in each.checks))
