"""The mutants of replication. Each function changes the core in this process for good; its first line says how."""

from collections.abc import Callable
from typing import Final

WEAKENINGS: Final[dict[str, Callable[[], None]]] = {}
