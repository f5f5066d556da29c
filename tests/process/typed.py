"""Commands as a user types them, in the folder above a server's data."""

import json
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tests.process.guarded import Guarded
from tests.process.server import command, environment

PATIENCE_S = 60
Variables = Mapping[str, str]
NONE: Variables = {}


class Typed:
    """`run` is for the server of `data`; what goes wrong shows the command's own words."""

    def __init__(self, data: Path) -> None:
        self.data = data

    def run(self, *arguments: str, given: str = "", status: int = 0, variables: Variables = NONE) -> str:
        """What it prints; what it complains of when `status` is not 0."""
        done = self.start(*arguments, given=given, variables=variables)
        assert done.returncode == status, done.stdout + done.stderr
        return done.stderr if status else done.stdout

    def start(self, *arguments: str, given: str = "", variables: Variables = NONE) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            command(*arguments),
            cwd=self.data.parent,
            env={**_without_aws(), **variables},
            input=given,
            capture_output=True,
            text=True,
            timeout=PATIENCE_S,
            check=False,
        )

    def json(self, *arguments: str) -> Any:
        return json.loads(self.run(*arguments, "--json"))


def _without_aws() -> dict[str, str]:
    return {name: value for name, value in environment().items() if not name.startswith("AWS_")}


def typed(server: Guarded) -> Typed:
    assert server.data.name == "data", "commands find the folder `data` where they are run"
    return Typed(server.data)
