"""Makes docs/COMPATIBILITY.md from the claims that stand on tests, without running anything."""

import ast
from collections import defaultdict
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

from holdfast.core import errors
from tests.compat import test_aws_cli
from tests.compat.foreign import CLIENTS
from tests.compatibility import claims
from tests.compatibility.differences import DIFFERENCES, NEVER_SENT, NOTES
from tests.compatibility.semantics import SEMANTICS
from tests.scenarios.script import read_cases

ROOT = Path(__file__).parent.parent.parent
PAGE = ROOT / "docs" / "COMPATIBILITY.md"

HEAD = """# Compatibility with SQS

Any SQS client works with Holdfast by changing its endpoint. This page says how we know: every action, member,
attribute, error and rule of SQS, with the tests that prove it. `python -m tests.compatibility` writes it from the
tests; a test fails when it is out of date, or when the service model of botocore has something that no test proves.
Tests of `tests/compat` that use boto3 are also held to what they claim: it must have been in their requests or replies.
"""


class Proof(NamedTuple):
    path: str  # below the root
    name: str  # a sentence

    def __str__(self) -> str:
        return f"[{self.name}](../{self.path})"


def proofs() -> dict[str, list[Proof]]:
    """The tests and scenarios behind each claim. Claims are literals in decorators, so nothing has to be imported."""
    found: dict[str, list[Proof]] = defaultdict(list)
    for path in sorted((ROOT / "tests").rglob("test_*.py")):
        for function in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(function, ast.FunctionDef):
                proof = Proof(str(path.relative_to(ROOT)), function.name.removeprefix("test_").replace("_", " "))
                for claim in _claims(function):
                    found[claim].append(proof)
    for slug, rule in SEMANTICS.items():
        found[slug] += map(scenario, rule.scenarios)
    return dict(found)


def _claims(function: ast.FunctionDef) -> Iterator[str]:
    for decorator in function.decorator_list:
        match decorator:
            case ast.Call(func=ast.Name("proves"), args=arguments):
                for literal in (
                    node for each in arguments for node in ast.walk(each) if isinstance(node, ast.Constant)
                ):
                    yield from sorted(claims.expanded(str(literal.value)))


def scenario(reference: str) -> Proof:
    """`file: beginning of its name`; it must be there, once."""
    file, _, start = reference.partition(": ")
    path = ROOT / "tests" / "scenarios" / f"{file}.txt"
    (name,) = (case.name for case in read_cases(path) if case.name.startswith(start))
    return Proof(str(path.relative_to(ROOT)), name.rstrip("."))


def unproven() -> frozenset[str]:
    proven = {claim for claim, tests in proofs().items() if tests}
    return claims.vocabulary() - proven - NEVER_SENT.keys()


def text() -> str:
    found = proofs()
    return "\n".join(
        [HEAD, *_clients(), *_actions(found), *_attributes(found), *_errors(found), *_rules(found), *_rest()]
    )


def _listed(proven: Iterable[Proof]) -> str:
    return " · ".join(str(each) for each in dict.fromkeys(proven))


def _clients() -> Iterator[str]:
    yield "## Clients\n\nEach runs unchanged in its own environment, with signatures checked, in `make test`.\n"
    yield "| client | what it does in the tests |\n|---|---|"
    yield "| boto3 1.44 | everything below |"
    for client in CLIENTS.values():
        link = f"[{client.program}](../tests/compat/clients/{client.program})"
        yield f"| {client.title} | {link}: {'; '.join(client.checks)} |"
    sessions = "; ".join(
        each.removeprefix("test_").replace("_", " ") for each in vars(test_aws_cli) if each[:5] == "test_"
    )
    for version in test_aws_cli.VERSIONS:
        dialect = "JSON" if version.startswith("aws-cli/1") else "Query; Debian's package"
        yield f"| {version.rstrip('.')} ({dialect}) | [test_aws_cli.py](../tests/compat/test_aws_cli.py): {sessions} |"
    yield ""


def _actions(found: dict[str, list[Proof]]) -> Iterator[str]:
    yield "## Actions\n\n| action | request | reply | proven by |\n|---|---|---|---|"
    for name, (requests, replies) in claims.actions().items():
        proven = [proof for claim in (name, *requests, *replies) for proof in found.get(claim, ())]
        columns = (", ".join(each[len(name) + 1 :] for each in side) for side in (requests, replies))
        yield f"| {name} | {' | '.join(columns)} | {_listed(proven)} |"
    yield ""


def _attributes(found: dict[str, list[Proof]]) -> Iterator[str]:
    for title, names in (
        ("Attributes of queues", claims.attributes()),
        ("System attributes of messages", claims.system_attributes()),
    ):
        yield f"## {title}\n\n| attribute | proven by | note |\n|---|---|---|"
        for name in names:
            yield f"| {name.partition('.')[2]} | {_listed(found.get(name, ()))} | {NOTES.get(name, '')} |"
        yield ""


def _errors(found: dict[str, list[Proof]]) -> Iterator[str]:
    yield "## Errors\n\n| error | Query code | HTTP | proven by |\n|---|---|---|---|"
    for claim in claims.errors():
        name = claim.partition(".")[2]
        kind = getattr(errors, name, None)
        is_known = isinstance(kind, type) and issubclass(kind, errors.HoldfastError)
        code, status = (kind.query_code, str(kind.status)) if kind and is_known else (name, "")
        how = f"never sent: {NEVER_SENT[claim]}" if claim in NEVER_SENT else _listed(found.get(claim, ()))
        yield f"| {name} | {code} | {status} | {how} |"
    yield ""


def _rules(found: dict[str, list[Proof]]) -> Iterator[str]:
    yield "## Rules\n\n| rule | proven by |\n|---|---|"
    for slug, rule in SEMANTICS.items():
        yield f"| {rule.says} | {_listed(found.get(slug, ()))} |"
    yield ""


def _rest() -> Iterator[str]:
    yield "## What differs\n"
    yield from (f"- {each}" for each in DIFFERENCES)
    yield "- Extensions that a plain client does not see: [EXTENSIONS](EXTENSIONS.md).\n"
