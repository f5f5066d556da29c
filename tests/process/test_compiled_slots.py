"""What compiled code remembers of types and modules (scripts/slots.h) is forgotten when they change.

A small module is compiled as the hot ones are, and asked again and again while what it reads is changed under it.
"""

import importlib.util
import subprocess
import sys
import types
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

import hatch_build

SOURCE = """
from typing import Any

import other


def field(value: Any) -> Any:
    return value.field


def method(value: Any) -> Any:
    return value.method(1)


def name() -> Any:
    return other_name()


def other_name() -> Any:
    return other.VALUE


def imported() -> Any:
    return THING


from other import THING  # as a name of this module that is not its own


class Native:
    def __init__(self, field: int) -> None:
        self.field = field

    def method(self, number: int) -> int:
        return self.field + number
"""
TIMES = 3  # the first time is slow, the second remembered, the third would show that it is


@pytest.fixture(scope="module")
def compiled(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    root = Path(hatch_build.__file__).parent
    can = subprocess.run([sys.executable, str(root / "scripts" / "can_compile.py")], capture_output=True, check=False)
    if can.returncode:
        pytest.skip("NOT TESTED: what compiled code remembers; there is no C compiler, or no headers of Python")
    folder = tmp_path_factory.mktemp("slots")
    (folder / "other.py").write_text("VALUE: object = 1\nTHING: object = 1\n")
    (folder / "probe.py").write_text(SOURCE)
    (folder / "setup.py").write_text(hatch_build.SETUP)
    command = [sys.executable, "setup.py", str(hatch_build.SLOTS), "probe.py"]
    subprocess.run(command, cwd=folder, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    sys.path.insert(0, str(folder))
    try:
        probe = importlib.import_module("probe")
        assert str(probe.__file__).endswith(".so"), "this tests the compiled one"
        yield probe
    finally:
        sys.path.remove(str(folder))


class Struct(msgspec.Struct):
    field: int


def asked(function: Any, *arguments: Any) -> Any:
    (answer,) = {function(*arguments) for _ in range(TIMES)}
    return answer


def test_a_field_of_a_struct_is_that_of_the_object_that_is_asked(compiled: Any) -> None:
    assert [asked(compiled.field, Struct(number)) for number in (1, 2)] == [1, 2]


def test_many_types_at_one_place_do_not_disturb_each_other(compiled: Any) -> None:
    kinds = [msgspec.defstruct(f"Kind{number}", [("first", int, 0), ("field", int, number)]) for number in range(50)]
    for _ in range(TIMES):
        assert [compiled.field(kind()) for kind in kinds] == list(range(50))
        assert compiled.field(Struct(7)) == 7


def test_a_slot_that_is_replaced_in_its_type_is_not_read_any_more(compiled: Any) -> None:
    changing: Any = type("Changing", (), {"__slots__": ("field",)})
    value = changing()
    value.field = 1
    assert asked(compiled.field, value) == 1
    changing.field = property(lambda _: 2)
    assert asked(compiled.field, value) == 2
    del changing.field
    with pytest.raises(AttributeError, match="field"):
        compiled.field(value)


def test_an_empty_slot_is_told_as_ever(compiled: Any) -> None:
    slotted: Any = type("Slotted", (), {"__slots__": ("field",)})
    value = slotted()
    value.field = 1
    assert asked(compiled.field, value) == 1
    del value.field
    for _ in range(TIMES):
        with pytest.raises(AttributeError, match="field"):
            compiled.field(value)


def test_a_class_that_finds_its_attributes_in_its_own_way_is_asked_each_time(compiled: Any) -> None:
    class Asked:
        __slots__ = ("count", "field")

        def __init__(self) -> None:
            self.count, self.field = 0, 0

        def __getattribute__(self, name: str) -> Any:
            if name == "field":
                self.count += 1
                return object.__getattribute__(self, "count")
            return object.__getattribute__(self, name)

    value = Asked()
    assert [compiled.field(value) for _ in range(TIMES)] == [1, 2, 3]


def test_a_field_of_a_compiled_class_is_found(compiled: Any) -> None:
    assert asked(compiled.field, compiled.Native(5)) == 5
    assert asked(compiled.method, compiled.Native(5)) == 6


def test_a_method_that_is_replaced_is_not_called_any_more(compiled: Any) -> None:
    class Callee:
        __slots__ = ()

        def method(self, number: int) -> int:
            return number

    assert asked(compiled.method, Callee()) == 1
    Callee.method = lambda _, number: number + 1  # type: ignore[method-assign,assignment]
    assert asked(compiled.method, Callee()) == 2
    Callee.method = staticmethod(lambda number: number + 2)  # type: ignore[method-assign,assignment]
    assert asked(compiled.method, Callee()) == 3


def test_a_method_that_an_object_hides_is_not_called(compiled: Any) -> None:
    class Hiding:
        def method(self, number: int) -> int:
            return number

    value = Hiding()
    assert asked(compiled.method, value) == 1
    value.method = lambda number: number + 5  # type: ignore[method-assign]
    assert asked(compiled.method, value) == 6
    assert asked(compiled.method, Hiding()) == 1


def test_types_that_come_and_go_are_told_apart(compiled: Any) -> None:
    for number in range(2000):  # their addresses are used again
        kind = type("Passing", (), {"__slots__": ("field",), "method": lambda _, given, add=number: given + add})
        value: Any = kind()
        value.field = number
        assert compiled.field(value) == number
        assert compiled.method(value) == number + 1


def test_names_of_modules_are_those_of_now(compiled: Any) -> None:
    other: types.ModuleType = sys.modules["other"]
    for number in range(5):
        other.VALUE = number  # type: ignore[attr-defined]
        compiled.THING = number
        assert asked(compiled.name) == number
        assert asked(compiled.imported) == number
    del compiled.THING
    with pytest.raises((NameError, KeyError)):
        compiled.imported()
