"""How commands find their server: where it listens, and which key to sign with.

    --data DIR, or HOLDFAST__SERVER__DATA
                                  the server of that folder: both from there
    --endpoint, or AWS_ENDPOINT_URL_SQS or AWS_ENDPOINT_URL in the environment
                                  that one, with AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY; without these the keys
                                  of ./data
    neither                       the server of ./data

Keys of the environment are used together with an endpoint only: somebody's keys for AWS are no keys of a server on
this machine. Secrets are never taken from arguments, which every user of the machine can read.
"""

import contextlib
import difflib
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated

import msgspec
import typer

from holdfast.cli import env, folder
from holdfast.client.signer import Credentials
from holdfast.client.sqs import ClientError, NoQueue, Refused, Sqs, Unreachable

# What a command's exit code says; docs/CLI.md explains them.
FINDINGS = 1  # done, and there is something to look at
MISTAKE = 2  # the command, or what it was given, is wrong
UNREACHABLE = 3  # no server answered
REFUSED = 4  # the server said no

ENDPOINTS = ("AWS_ENDPOINT_URL_SQS", "AWS_ENDPOINT_URL")
WRONG_KEY = ("UnrecognizedClientException", "InvalidSignatureException", "IncompleteSignatureException")

Data = Annotated[
    Path | None,
    typer.Option(
        "--data",
        metavar="DIR",
        envvar="HOLDFAST__SERVER__DATA",
        help="Data folder of a server on this machine; usually data.",
    ),
]
Endpoint = Annotated[str | None, typer.Option("--endpoint", metavar="URL", help="Server to ask, wherever it is.")]
AsJson = Annotated[bool, typer.Option("--json", help="As JSON, for programs.")]
QueueName = Annotated[str, typer.Argument(metavar="QUEUE", help="Name of the queue.")]


class Mistake(Exception):
    """What was asked for cannot be done; says what to do."""


class Target(msgspec.Struct, frozen=True):
    endpoint: str
    credentials: Credentials
    region: str
    origin: str  # of the key, for messages
    cafile: str = ""

    def client(self) -> Sqs:
        return Sqs(self.endpoint, self.credentials, region=self.region, cafile=self.cafile)

    def variables(self) -> dict[str, str]:
        """For AWS tools."""
        authority = {"AWS_CA_BUNDLE": self.cafile} if self.cafile else {}
        return {
            **authority,
            "AWS_ACCESS_KEY_ID": self.credentials.id,
            "AWS_SECRET_ACCESS_KEY": self.credentials.secret,
            "AWS_REGION": self.region,
            "AWS_DEFAULT_REGION": self.region,
            "AWS_ENDPOINT_URL_SQS": self.endpoint,
        }


def find(data: Path | None, endpoint: str | None, environ: Mapping[str, str] = os.environ) -> Target:
    given = endpoint or ("" if data else next(filter(None, (environ.get(name) for name in ENDPOINTS)), ""))
    region = environ.get("AWS_REGION") or environ.get("AWS_DEFAULT_REGION") or folder.Described().region
    cafile = environ.get("AWS_CA_BUNDLE", "")
    key_id, secret = environ.get("AWS_ACCESS_KEY_ID", ""), environ.get("AWS_SECRET_ACCESS_KEY", "")
    if given and data is None and key_id and secret:
        credentials = Credentials(key_id, secret, environ.get("AWS_SESSION_TOKEN", ""))
        return Target(given, credentials, region, "AWS_ACCESS_KEY_ID", cafile)
    place = data or folder.DEFAULT
    if given and data is None and not place.exists():
        raise Mistake(
            f"no key to sign with for {given}. Set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or name the server's "
            "folder with --data."
        )
    values = env.variables(place)
    credentials = Credentials(values["AWS_ACCESS_KEY_ID"], values["AWS_SECRET_ACCESS_KEY"])
    return Target(
        given or values["AWS_ENDPOINT_URL_SQS"],
        credentials,
        values["AWS_REGION"],
        str(place),
        values.get("AWS_CA_BUNDLE", cafile),
    )


@contextlib.contextmanager
def server(data: Path | None, endpoint: str | None) -> Iterator[Sqs]:
    """A client. What goes wrong becomes one line that names the fix, and an exit code."""
    with explained():
        target = find(data, endpoint)
        client = target.client()
        try:
            yield client
        except NoQueue as missing:
            raise _fail(_no_queue(client, missing.queue), REFUSED) from None
        except Refused as refusal:
            raise _fail(_refused(refusal, target), REFUSED) from None
        except Unreachable as problem:
            raise _fail(_unreachable(problem, target), UNREACHABLE) from None
        finally:
            client.close()


@contextlib.contextmanager
def explained() -> Iterator[None]:
    try:
        with folder.explained():
            yield
    except (Mistake, ClientError) as problem:
        raise _fail(str(problem), MISTAKE) from None


def _fail(text: str, status: int) -> typer.Exit:
    typer.echo(f"holdfast: {text}", err=True)
    return typer.Exit(status)


def _no_queue(client: Sqs, name: str) -> str:
    try:
        names = client.names()
    except ClientError:
        names = []
    if near := near_names(name, names):
        return f"there is no queue {name}. Did you mean {' or '.join(near)}?"
    if not names:
        return f"there is no queue {name}, nor any other. Make it: holdfast queue create {name}"
    return f"there is no queue {name}. `holdfast queue ls` shows those that are there."


def near_names(name: str, names: list[str]) -> list[str]:
    """Names that somebody may have meant, the nearest first."""
    longer = [each for each in names if name.lower() in each.lower()]
    return list(dict.fromkeys([*difflib.get_close_matches(name, names, n=3, cutoff=0.7), *longer]))[:3]


def _refused(refusal: Refused, target: Target) -> str:
    if refusal.code in WRONG_KEY:
        return (
            f"{target.endpoint} does not accept the key {target.credentials.id} (from {target.origin}): {refusal} "
            'Take the key of the server\'s folder: eval "$(holdfast env --data DIR)", or --data DIR.'
        )
    if refusal.code == "AccessDeniedException":
        return f"{refusal} Use a key with more rights, or change the policy: holdfast user policy --help"
    return f"{refusal} ({refusal.code})"


def _unreachable(problem: Unreachable, target: Target) -> str:
    return (
        f"no answer from {target.endpoint}: {problem}. Is the server running? Start it with `holdfast serve`, or name "
        "another one with --endpoint or --data."
    )
