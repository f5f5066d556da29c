"""A server that checks signatures, and the keys to it."""

import contextlib
import json
import subprocess
from collections.abc import Iterator
from pathlib import Path

from holdfast.cli import env
from tests.process.server import Running, command, environment

Keys = tuple[str, ...]


class Guarded(Running):
    guard = ()

    @property
    def root(self) -> Keys:
        values = env.variables(self.data)
        return values["AWS_ACCESS_KEY_ID"], values["AWS_SECRET_ACCESS_KEY"]

    def user(self, name: str, *, allow: list[str], on: str = "*") -> Keys:
        """A new user with a key, who may do something to some queues."""
        statement = {"Effect": "Allow", "Action": allow, "Resource": on}
        document = json.dumps({"Version": "2012-10-17", "Statement": statement})
        run(self.data, "user", "create", name)
        run(self.data, "user", "policy", name, "--file", "-", given=document)
        return new_key(self.data, "--user", name)


def run(data: Path, *arguments: str, given: str = "", status: int = 0) -> str:
    """What a command prints, or what it complains of."""
    done = subprocess.run(
        command(*arguments, "--data", str(data)),
        env=environment(),
        input=given,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == status, done.stderr
    return done.stderr if status else done.stdout


def new_account(data: Path, account: str) -> Keys:
    """With the key of its root."""
    return _keys(run(data, "account", "create", account, "--json"))


def new_key(data: Path, *options: str) -> Keys:
    return _keys(run(data, "key", "create", "--json", *options))


def _keys(printed: str) -> Keys:
    made = json.loads(printed)
    return made["AccessKeyId"], made["SecretAccessKey"]


@contextlib.contextmanager
def guarded(data: Path, *options: str) -> Iterator[Guarded]:
    server = Guarded(data, *options)
    try:
        yield server
    finally:
        server.kill()
