"""core/ and protocol/ decide and do nothing else. This reads their source and looks for ways out: imports
that are not on the list, async, builtins that do I/O or depend on the process, `global`, and places where
the order of a set, which differs between processes, could get into a decision.

What counts as a set: displays, comprehensions, set() and frozenset(), operators and methods that make one
of these, and names and attributes that this file annotates as one or assigns one to. A set that arrives
from elsewhere without an annotation is not seen; simulation under two hash seeds is the net below this.
"""

import ast
from pathlib import Path

import pytest

SOURCE = Path(__file__).parent.parent / "src" / "holdfast"

LIBRARIES = frozenset(
    "__future__ array base64 binascii bisect collections collections.abc dataclasses enum functools "
    "google_crc32c hashlib heapq hmac ipaddress itertools json librt.base64 librt.strings math msgspec operator re "
    "struct typing zlib".split()
)
MAY_IMPORT = {"core": ("holdfast.core",), "protocol": ("holdfast.core", "holdfast.protocol")}
BUILTINS = frozenset("__import__ breakpoint compile eval exec globals hash id input open print".split())
ASYNC = (ast.AsyncFunctionDef, ast.AsyncFor, ast.AsyncWith, ast.Await)

SET_TYPES = frozenset("set frozenset Set FrozenSet AbstractSet MutableSet".split())
TYPE_WRAPPERS = frozenset("Annotated ClassVar Final Optional Union".split())
SET_METHODS = frozenset("copy difference intersection symmetric_difference union".split())
SET_OPERATORS = (ast.BitOr, ast.BitAnd, ast.BitXor, ast.Sub)
# What turns the order of its argument into the order of a result.
ORDERED_BY = frozenset("array bytes deque dict enumerate filter fromkeys iter join list map reduce tuple zip".split())


def name_of(node: ast.expr | None) -> str:
    """The last part of a dotted name: `set`, `typing.Set` and `self.held` give set, Set and held."""
    match node:
        case ast.Name(id=name) | ast.Attribute(attr=name):
            return name
    return ""


def is_set_type(note: ast.expr | None) -> bool:
    match note:
        case ast.Constant(value=str(text)):
            return text.partition("[")[0].rpartition(".")[2].strip() in SET_TYPES
        case ast.BinOp(left=left, right=right):
            return is_set_type(left) or is_set_type(right)
        case ast.Subscript(value=outer, slice=inner):
            parts = inner.elts if isinstance(inner, ast.Tuple) else [inner]
            return is_set_type(outer) or (name_of(outer) in TYPE_WRAPPERS and any(map(is_set_type, parts)))
    return name_of(note) in SET_TYPES


class Impurities(ast.NodeVisitor):
    """Collects `found`. Names are looked up in the function they stand in and those around it; attributes
    have one table for the whole file, whatever object they belong to."""

    def __init__(self, package: str) -> None:
        self.package = package
        self.found: list[str] = []
        self.set_names: list[set[str]] = [set()]
        self.set_attributes: set[str] = set()

    def report(self, node: ast.AST, what: str) -> None:
        self.found.append(f"{getattr(node, 'lineno', 0)}: {what}")

    def visit(self, node: ast.AST) -> None:
        if isinstance(node, ASYNC) or (isinstance(node, ast.comprehension) and node.is_async):
            self.report(node, "async")
        super().visit(node)

    # imports and names

    def check_import(self, node: ast.AST, module: str) -> None:
        inside = any(module == own or module.startswith(own + ".") for own in MAY_IMPORT[self.package])
        if not inside and module not in LIBRARIES:
            self.report(node, f"import of {module}")

    def visit_Import(self, node: ast.Import) -> None:
        for alias in node.names:
            self.check_import(node, alias.name)

    def visit_ImportFrom(self, node: ast.ImportFrom) -> None:
        self.check_import(node, "." * node.level + (node.module or ""))

    def visit_Name(self, node: ast.Name) -> None:
        if node.id in BUILTINS and isinstance(node.ctx, ast.Load):
            self.report(node, f"use of {node.id}")

    def visit_Global(self, node: ast.Global) -> None:
        self.report(node, "global")

    # what is a set

    def remember(self, target: ast.expr) -> None:
        if isinstance(target, ast.Name):
            self.set_names[-1].add(target.id)
        elif isinstance(target, ast.Attribute):
            self.set_attributes.add(target.attr)

    def is_set(self, node: ast.expr) -> bool:
        match node:
            case ast.Set() | ast.SetComp():
                return True
            case ast.Name(id=name):
                return any(name in names for names in self.set_names)
            case ast.Attribute(attr=name):
                return name in self.set_attributes
            case ast.Call(func=ast.Name(id="set" | "frozenset")):
                return True
            case ast.Call(func=ast.Attribute(value=owner, attr=method)):
                return method in SET_METHODS and self.is_set(owner)
            case ast.BinOp(left=left, op=operator, right=right):
                return isinstance(operator, SET_OPERATORS) and (self.is_set(left) or self.is_set(right))
            case ast.IfExp(body=first, orelse=second):
                return self.is_set(first) or self.is_set(second)
            case ast.BoolOp(values=values):
                return any(map(self.is_set, values))
            case ast.NamedExpr(value=value):
                return self.is_set(value)
        return False

    def visit_AnnAssign(self, node: ast.AnnAssign) -> None:
        if is_set_type(node.annotation):
            self.remember(node.target)
        self.generic_visit(node)

    def visit_Assign(self, node: ast.Assign) -> None:
        if self.is_set(node.value):
            for target in node.targets:
                self.remember(target)
        self.generic_visit(node)

    def visit_NamedExpr(self, node: ast.NamedExpr) -> None:
        if self.is_set(node.value):
            self.remember(node.target)
        self.generic_visit(node)

    def visit_ClassDef(self, node: ast.ClassDef) -> None:
        """Fields are attributes; those assigned in methods are learned before any method is read."""
        for part in ast.walk(node):
            match part:
                case ast.AnnAssign(target=ast.Attribute() as target, annotation=note) if is_set_type(note):
                    self.remember(target)
                case ast.Assign(targets=[ast.Attribute() as target], value=value) if self.is_set(value):
                    self.remember(target)
        for part in node.body:
            match part:
                case ast.AnnAssign(target=ast.Name(id=field), annotation=note) if is_set_type(note):
                    self.set_attributes.add(field)
        self.generic_visit(node)

    def visit_FunctionDef(self, node: ast.FunctionDef) -> None:
        arguments = [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]
        self.set_names.append({each.arg for each in arguments if is_set_type(each.annotation)})
        self.generic_visit(node)
        self.set_names.pop()

    # where the order of a set would show

    def check_order(self, node: ast.expr) -> None:
        if self.is_set(node):
            self.report(node, "order of a set")

    def visit_For(self, node: ast.For) -> None:
        self.check_order(node.iter)
        self.generic_visit(node)

    def visit_comprehension(self, node: ast.comprehension) -> None:
        self.check_order(node.iter)
        self.generic_visit(node)

    def visit_Starred(self, node: ast.Starred) -> None:
        self.check_order(node.value)
        self.generic_visit(node)

    def visit_YieldFrom(self, node: ast.YieldFrom) -> None:
        self.check_order(node.value)
        self.generic_visit(node)

    def visit_Call(self, node: ast.Call) -> None:
        match node:
            case ast.Call(func=ast.Attribute(value=owner, attr="pop"), args=[]):
                self.check_order(owner)
            case ast.Call(func=function, args=arguments) if name_of(function) in ORDERED_BY:
                for argument in arguments:
                    self.check_order(argument)
        self.generic_visit(node)


def impurities(source: str, package: str) -> list[str]:
    reader = Impurities(package)
    reader.visit(ast.parse(source))
    return reader.found


def pure_files() -> list[tuple[str, Path]]:
    return [(each, path) for each in MAY_IMPORT for path in sorted((SOURCE / each).rglob("*.py"))]


@pytest.mark.parametrize(
    ("package", "path"), pure_files(), ids=lambda part: part.name if isinstance(part, Path) else part
)
def test_deciding_code_is_pure(package: str, path: Path) -> None:
    assert impurities(path.read_text(encoding="utf-8"), package) == []


# --- the reader itself: what it must refuse, and what it must let through -----------------------------

IMPURE = {
    "import time": "import of time",
    "import os.path": "import of os.path",
    "from random import random": "import of random",
    "from . import limits": "import of .",
    "from holdfast.runtime.clock import now": "import of holdfast.runtime.clock",
    "from holdfast.protocol import json": "import of holdfast.protocol",
    "from holdfast.corella import x": "import of holdfast.corella",
    "def f():\n    import socket": "import of socket",
    "async def f(): pass": "async",
    "f = [x async for x in y]": "async",
    "open('x')": "use of open",
    "print(1)": "use of print",
    "x = hash('a')": "use of hash",
    "x = sorted(y, key=id)": "use of id",
    "x = input()": "use of input",
    "exec('x')": "use of exec",
    "x = eval('1')": "use of eval",
    "def f():\n    global x\n    x = 1": "global",
}

UNORDERED = [
    "for x in {1, 2}: pass",
    "for x in set(y): pass",
    "x = [y for y in frozenset(z)]",
    "x = {y: 1 for y in {z for z in w}}",
    "def f(x: set[int]):\n    for y in x: pass",
    "def f(*, x: 'frozenset[int]' | None):\n    for y in x or (): pass",
    "x: typing.Set[int] = make()\nfor y in x: pass",
    "def f():\n    x = set()\n    for y in x: pass",
    "def f():\n    x = set()\n    def g():\n        return list(x)",
    "class A:\n  held: Final[set[int]]\n  def f(self):\n    for y in self.held: pass",
    "class A:\n  def f(self):\n    return [*self.x]\n  def __init__(self):\n    self.x = set()",
    "class A:\n  def f(self):\n    yield from self.x\n  def g(self):\n    self.x: set[int] = h()",
    "x = set()\ny = x.pop()",
    "x = set()\ny = next(iter(x))",
    "x = set()\nfor y in x | z: pass",
    "x = set()\nfor y in x.union(z): pass",
    "x = ','.join({'a', 'b'})",
    "if (x := set(y)):\n    z = tuple(x)",
]

PURE = [
    "from __future__ import annotations\nimport msgspec\nfrom collections.abc import Iterator",
    "from holdfast.core import limits\nimport holdfast.core.types",
    "x = set()\nx.add(1)\nx.discard(1)\ny = 1 in x and len(x)",
    "x = set(y)\nfor z in sorted(x): pass",
    "x = {1: 2}\nfor y in x: pass\nx.pop(1)",
    "def f():\n    x = set()\ndef g(x: list[int]):\n    for y in x: pass",
    "def f(x: dict[int, set[int]]):\n    for y in x: pass",
    "x = y - z\nfor w in x: pass",
    "x: Annotated[int, 'a set of no kind'] = 1\nfor y in x: pass",
    "message.id, message.open, f(id=3)",
]


@pytest.mark.parametrize("source", IMPURE)
def test_impure_source_is_refused(source: str) -> None:
    assert [each.partition(": ")[2] for each in impurities(source, "core")] == [IMPURE[source]]


@pytest.mark.parametrize("source", UNORDERED)
def test_the_order_of_a_set_is_refused(source: str) -> None:
    assert [each.partition(": ")[2] for each in impurities(source, "core")] == ["order of a set"]


@pytest.mark.parametrize("source", PURE)
def test_pure_source_is_let_through(source: str) -> None:
    assert impurities(source, "core") == []


def test_the_protocol_may_import_itself_and_the_core() -> None:
    source = "from holdfast.protocol import json\nfrom holdfast.core import errors"
    assert impurities(source, "protocol") == []
    assert impurities("import holdfast.backend", "protocol") == ["1: import of holdfast.backend"]


def test_the_reader_finds_the_core() -> None:
    assert "errors.py" in {path.name for package, path in pure_files() if package == "core"}
