"""Sizes that ruff has no rule for: lines of a function and of a file, and depth of nesting.

A function is counted from `def` to its last line, without its docstring. `elif` and `except` stand beside
their first branch, not below it. The first `match` around a block is no level: a table of cases inside a
loop should not cost one of the three. A function inside a function is counted on its own for depth.
"""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
SOURCES = sorted([*(ROOT / "src").rglob("*.py"), *(ROOT / "bench").rglob("*.py")])

FUNCTION_LINES_MAX = 50
FILE_LINES_MAX = 400
DEPTH_MAX = 3

Function = ast.FunctionDef | ast.AsyncFunctionDef
SCOPES = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Lambda)
BLOCKS = (ast.If, ast.For, ast.AsyncFor, ast.While, ast.With, ast.AsyncWith, ast.Try, ast.TryStar)


def functions(tree: ast.Module) -> Iterator[Function]:
    return (node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef))


def lines_of(node: ast.stmt) -> int:
    return (node.end_lineno or node.lineno) - node.lineno + 1


def function_lines(function: Function) -> int:
    has_docstring = ast.get_docstring(function, clean=False) is not None
    return lines_of(function) - (lines_of(function.body[0]) if has_docstring else 0)


def is_elif(parent: ast.AST, child: ast.AST) -> bool:
    """An `else` that holds only an `if` has the same tree; it begins further right."""
    match parent, child:
        case ast.If(orelse=[only]), ast.If():
            return child is only and child.col_offset == parent.col_offset
    return False


def depth(node: ast.AST, *, has_match: bool = False) -> int:
    """Levels of blocks below `node`."""
    deepest = 0
    for child in ast.iter_child_nodes(node):
        if isinstance(child, SCOPES):
            continue
        is_match = isinstance(child, ast.Match)
        is_level = (isinstance(child, BLOCKS) and not is_elif(node, child)) or (is_match and has_match)
        deepest = max(deepest, is_level + depth(child, has_match=has_match or is_match))
    return deepest


def oversizes(source: str) -> Iterator[str]:
    lines = len(source.splitlines())
    if lines > FILE_LINES_MAX:
        yield f"1: file of {lines} lines"
    for function in functions(ast.parse(source)):
        where = f"{function.lineno}: {function.name}"
        if (size := function_lines(function)) > FUNCTION_LINES_MAX:
            yield f"{where} of {size} lines"
        if (levels := depth(function)) > DEPTH_MAX:
            yield f"{where} of depth {levels}"


def name(path: Path) -> str:
    return str(path.relative_to(ROOT))


@pytest.mark.parametrize("path", SOURCES, ids=name)
def test_a_file_and_its_functions_stay_small(path: Path) -> None:
    assert list(oversizes(path.read_text(encoding="utf-8"))) == []


# --- the measure itself -------------------------------------------------------------------------------


def function_of(*body: str) -> str:
    return "\n".join(["def f(x):", *("    " + line for line in body)])


def test_a_function_of_fifty_lines_passes_and_of_fifty_one_does_not() -> None:
    assert list(oversizes(function_of(*["x"] * 49))) == []
    assert list(oversizes(function_of(*["x"] * 50))) == ["1: f of 51 lines"]


def test_a_docstring_is_not_counted() -> None:
    assert list(oversizes(function_of('"""One', "two", 'three."""', *["x"] * 49))) == []


def test_a_method_is_counted_like_a_function() -> None:
    method = ["    " + line for line in function_of(*["x"] * 50).splitlines()]
    assert list(oversizes("\n".join(["class A:", *method]))) == ["2: f of 51 lines"]


def test_a_file_of_four_hundred_lines_passes_and_one_more_does_not() -> None:
    assert list(oversizes("x\n" * 400)) == []
    assert list(oversizes("x\n" * 401)) == ["1: file of 401 lines"]


def test_a_fourth_level_is_refused() -> None:
    three = ["for y in x:", "  with y:", "    if y:"]
    assert list(oversizes(function_of(*three, "      pass"))) == []
    assert list(oversizes(function_of(*three, "      while y: pass"))) == ["1: f of depth 4"]


def test_an_elif_is_no_level_but_an_if_inside_else_is() -> None:
    chain = ["if x: pass", "elif y: pass", "elif z: pass", "elif w: pass", "else: pass"]
    nested = [
        "if x: pass",
        "else:",
        "  if y: pass",
        "  else:",
        "    if z: pass",
        "    else:",
        "      if w: pass",
    ]
    assert depth(ast.parse("\n".join(chain))) == 1
    assert depth(ast.parse("\n".join(nested))) == 4


def test_the_first_match_is_no_level_and_the_second_is() -> None:
    once = "match x:\n  case 1:\n    if y: pass"
    twice = "match x:\n  case 1:\n    match y:\n      case 2: pass"
    assert (depth(ast.parse(once)), depth(ast.parse(twice))) == (1, 1)


def test_a_handler_stands_beside_its_try() -> None:
    assert depth(ast.parse("try:\n  pass\nexcept ValueError:\n  if x: pass")) == 2


def test_a_function_inside_a_function_starts_anew() -> None:
    inner = "if x:\n  if y:\n    if z:\n      def g():\n        if w: pass"
    assert depth(ast.parse(inner)) == 3
