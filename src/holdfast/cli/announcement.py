"""What a server says when it is ready: to a person, to commands on this machine, and to whoever waits for it."""

import shlex
import shutil
import sys
from pathlib import Path

import msgspec

from holdfast.cli import folder
from holdfast.metadata.identities import Credentials
from holdfast.runtime.config.kinds import Address


class Announcement(msgspec.Struct, frozen=True):
    """`listen` and `admin` have the ports that are really open."""

    data: Path
    listen: Address
    admin: Address
    account: str
    region: str
    is_open: bool  # without authentication
    root: Credentials | None
    is_secure: bool
    authority: Path | None = None
    ready_file: Path | None = None

    def make(self) -> None:
        endpoint, admin = self._url(reachable(self.listen)), self._url(reachable(self.admin))
        authority = str(self.authority.absolute()) if self.authority else ""
        folder.describe(self.data, folder.Described(endpoint, self.account, self.region, admin, authority))
        self._tell_person()
        if self.ready_file is not None:
            folder.write_whole(self.ready_file, f"{self._url(self.listen)}\n{self._url(self.admin)}")

    def _url(self, listen: Address) -> str:
        return url(listen, is_secure=self.is_secure)

    def _tell_person(self) -> None:
        """The secret is for somebody at a terminal, not for a log."""
        command = f"{_program()} env --data {shlex.quote(str(self.data))}"
        print(f"Holdfast serves SQS at {self._url(self.listen)}, messages in {self.data}")
        if self.is_open:
            print("Requests are not authenticated: any keys are accepted.")
        elif self.root is not None:
            secret = self.root.secret if sys.stdout.isatty() else f"shown by: {command}"
            print(f"  access key  {self.root.id}\n  secret      {secret}")
        else:
            print("  the root has no active key; make one: holdfast key create")
        print(f"Health and metrics: {self._url(self.admin)}/livez, /readyz, /metrics (for the last: metrics.token)")
        print(f'To use it from a shell, paste:\n  eval "$({command})"', flush=True)


def url(listen: Address, *, is_secure: bool) -> str:
    return f"{'https' if is_secure else 'http'}://{listen}"


def reachable(listen: Address) -> Address:
    """From this machine, when all addresses are listened on."""
    return listen._replace(host={"0.0.0.0": "127.0.0.1", "::": "::1", "": "127.0.0.1"}.get(listen.host, listen.host))


def _program() -> str:
    """How a shell can call us again."""
    if shutil.which("holdfast"):
        return "holdfast"
    called = Path(sys.argv[0]).absolute()
    return f"{shlex.quote(sys.executable)} -m holdfast" if called.suffix == ".py" else shlex.quote(str(called))
