"""`holdfast aws`: the AWS CLI, talking to this server."""

import os
import shutil
from typing import Annotated

import typer

from holdfast.cli import connect, env

PASS_ON = {"allow_extra_args": True, "ignore_unknown_options": True}  # they are for the AWS CLI


def aws(
    arguments: Annotated[list[str] | None, typer.Argument(metavar="[--] ARGUMENTS...", help="For the AWS CLI.")] = None,
    *,
    data: connect.Data = None,
    endpoint: connect.Endpoint = None,
) -> None:
    """Run the AWS CLI with the endpoint, region and key of this server.

    Example: holdfast aws -- sqs list-queues
    """
    with connect.explained():
        target = connect.find(data, endpoint)
        program = shutil.which("aws")
        if program is None:
            raise connect.Mistake("the AWS CLI (aws) is not installed. Install it, for example: pipx install awscli")
    variables = {name: value for name, value in os.environ.items() if name not in env.UNSET} | target.variables()
    os.execve(program, [program, "--endpoint-url", target.endpoint, *(arguments or [])], variables)
