"""One empty table for all: a lane that never needed its own does not pay for it.

A hundred thousand idle lanes with a handful of empty dictionaries each would be tens of megabytes. Whoever writes
replaces it first (`own`); writing into it is a mistake and fails.
"""

from typing import Any, NoReturn, TypeVar

Key = TypeVar("Key")
Value = TypeVar("Value")


class _Untouched(dict[Any, Any]):
    def __setitem__(self, key: Any, value: Any) -> NoReturn:
        raise TypeError("this table is shared; call own() before writing")

    setdefault = update = __ior__ = __setitem__  # type: ignore[assignment]


UNTOUCHED: dict[Any, Any] = _Untouched()


def own(table: dict[Key, Value]) -> dict[Key, Value]:
    """The same table, or a new one in place of the shared one."""
    return {} if table is UNTOUCHED else table
