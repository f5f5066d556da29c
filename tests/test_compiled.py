"""The modules that are compiled, for the wheel or for the simulator, keep to what mypyc can do and mean the same."""

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_args

import msgspec
import pytest
from msgspec import inspect

from hatch_build import modules as of_wheel
from holdfast.core.queue.command import Answer
from holdfast.core.queue.state import ShardState
from holdfast.core.replication.replica_message import Envelope
from holdfast.runtime.frames import COMMANDS, Frame
from scripts.compile_sim import modules as of_simulator

ROOT = Path(__file__).resolve().parent.parent
SOURCE = ROOT / "src"
MODULES = sorted({*of_wheel(), *of_simulator()})


def text_of(module: str) -> str:
    return ((ROOT if module.startswith("tests/") else SOURCE) / module).read_text()


PARSED = {module: ast.parse(text_of(module)) for module in MODULES}


def classes(tree: ast.Module) -> list[ast.ClassDef]:
    return [node for node in ast.walk(tree) if isinstance(node, ast.ClassDef)]


@pytest.mark.parametrize("module", MODULES)
def test_no_class_relies_on_keywords_that_would_be_dropped(module: str) -> None:
    """`frozen` is there for type checkers; the base has it as well (core/values.py)."""
    keywords = {
        f"{node.name}({keyword.arg})"
        for node in classes(PARSED[module])
        for keyword in node.keywords
        if not (keyword.arg == "frozen" and ast.unparse(node.bases[0]) in {"Value", "Fact"})
    }
    assert not keywords


@pytest.mark.parametrize("module", MODULES)
def test_no_struct_is_made_here_without_a_base_that_hands_its_options_on(module: str) -> None:
    bases = {ast.unparse(base) for node in classes(PARSED[module]) for base in node.bases}
    assert "msgspec.Struct" not in bases


@pytest.mark.parametrize("module", MODULES)
def test_no_generator_has_a_finally(module: str) -> None:
    """When nobody asks a generator for more, Python runs it; mypyc does not."""
    for node in ast.walk(PARSED[module]):
        if not isinstance(node, ast.FunctionDef):
            continue
        parts = list(ast.walk(node))
        is_generator = any(isinstance(each, ast.Yield | ast.YieldFrom) for each in parts)
        assert not is_generator or not any(isinstance(each, ast.Try) and each.finalbody for each in parts), node.name


def test_what_takes_long_in_a_thread_is_not_compiled() -> None:
    """Compiled code keeps the interpreter's lock until it is done: the loop would stand still for as long."""
    assert SOURCE.joinpath("holdfast/core/log/index_file.py").exists()
    assert "holdfast/core/log/index_file.py" not in of_wheel()


def test_the_compiled_simulator_has_limits_that_can_be_made_smaller() -> None:
    assert "holdfast/core/limits.py" not in of_simulator()


WHEEL = [str(path.relative_to(SOURCE)) for path in sorted(SOURCE.rglob("*.py"))]
CORE = [module for module in WHEEL if module.startswith("holdfast/core/")]
SIMULATOR = [str(path.relative_to(ROOT)) for path in sorted((ROOT / "tests" / "sim").rglob("*.py"))]


@pytest.mark.parametrize(("modules", "among"), [(of_wheel(), WHEEL), (of_simulator(), [*CORE, *SIMULATOR])])
def test_a_compiled_class_has_no_subclass_that_is_not(modules: list[str], among: list[str]) -> None:
    compiled = {node.name: module for module in modules for node in classes(PARSED[module])}
    for module in among:
        if module in modules:
            continue
        text = text_of(module)
        for node in classes(ast.parse(text)):
            for base in node.bases:
                home = compiled.get(ast.unparse(base).partition("[")[0].rpartition(".")[2])
                name = ast.unparse(base).partition("[")[0].rpartition(".")[2]
                is_same = home is not None and f"from {home[:-3].replace('/', '.')} import" in text and name in text
                assert not is_same, f"{module}: {node.name} is a subclass of {home}'s {name}, which is compiled"


def structs_of(kind: Any, seen: set[type]) -> Iterator[type]:
    """All that msgspec makes when it decodes this."""
    if isinstance(kind, inspect.StructType):
        if kind.cls in seen:
            return
        seen.add(kind.cls)
        yield kind.cls
        kind = tuple(field.type for field in kind.fields)
    parts = kind if isinstance(kind, tuple) else msgspec.structs.astuple(kind)
    for part in parts:
        if isinstance(part, inspect.Type | tuple):
            yield from structs_of(part, seen)


@pytest.mark.parametrize("kind", [ShardState, Frame, Envelope, *COMMANDS, *get_args(Answer)])
def test_a_struct_that_is_decoded_is_not_compiled(kind: Any) -> None:
    """mypyc keeps only the simplest of its annotations, and msgspec would refuse what it wrote itself."""
    decoded = {f"{each.__module__.replace('.', '/')}.py" for each in structs_of(inspect.type_info(kind), set())}
    assert decoded
    assert not decoded & set(MODULES)
