"""Kinds of values: what is allowed, and how it is read. A file gives TOML's types, environment and flags give text, so
every kind reads both.
"""

import ipaddress
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Generic, NamedTuple, TypeVar
from urllib.parse import urlsplit

from holdfast.core.admission.bucket import Rate

T = TypeVar("T")
Network = ipaddress.IPv4Network | ipaddress.IPv6Network

_ACCOUNT = re.compile(r"[0-9]{12}").fullmatch
_REGION = re.compile(r"[a-z0-9][a-z0-9-]{0,31}").fullmatch
_NODE = re.compile(r"[a-z0-9][a-z0-9.-]{0,39}").fullmatch  # room is left for the number of a worker
_PATTERN = re.compile(r"[A-Za-z0-9_*-]+(\.fifo)?").fullmatch
_RATE = re.compile(r"([1-9][0-9]{0,8})(?::([1-9][0-9]{0,8}))?").fullmatch
_YES, _NO = ("true", "yes", "on", "1"), ("false", "no", "off", "0")


class NotAllowed(Exception):
    """The value is none of its kind."""


class Address(NamedTuple):
    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    @property
    def is_loopback(self) -> bool:
        try:
            return self.host == "localhost" or ipaddress.ip_address(self.host).is_loopback
        except ValueError:
            return False


@dataclass(frozen=True, slots=True)
class Kind(Generic[T]):
    """`read` raises NotAllowed; `allowed` completes the sentence "… must be"; `sign` stands for a value in help."""

    allowed: str
    read: Callable[[object], T]
    sign: str


def _text(given: object) -> str:
    if not isinstance(given, str):
        raise NotAllowed
    return given.strip()


def _matched(matches: Callable[[str], object]) -> Callable[[object], str]:
    def read(given: object) -> str:
        text = _text(given)
        if not matches(text):
            raise NotAllowed
        return text

    return read


def _read_flag(given: object) -> bool:
    if isinstance(given, bool):
        return given
    text = _text(given).lower()
    if text not in _YES + _NO:
        raise NotAllowed
    return text in _YES


def _read_path(given: object) -> Path:
    text = str(given) if isinstance(given, Path) else _text(given)
    if not text or "\0" in text:
        raise NotAllowed
    return Path(text).expanduser()


def _read_address(given: object) -> Address:
    host, colon, port = _text(given).rpartition(":")
    if not colon or not (port.isascii() and port.isdigit()) or int(port) > 65_535:
        raise NotAllowed
    return Address(host.strip("[]"), int(port))


def _read_url(given: object) -> str:
    text = _text(given).rstrip("/")
    try:
        parts = urlsplit(text)
        is_usable = parts.scheme in ("http", "https") and parts.hostname and (parts.port is None or parts.port > 0)
    except ValueError:
        raise NotAllowed from None
    if not is_usable or parts.path or parts.query or parts.fragment or "@" in parts.netloc:
        raise NotAllowed
    return text


def _read_networks(given: object) -> tuple[Network, ...]:
    items = given if isinstance(given, list | tuple) else _text(given).split(",")
    try:
        return tuple(ipaddress.ip_network(_text(each)) for each in items if each != "")
    except ValueError:
        raise NotAllowed from None


def _read_rate(given: object) -> Rate:
    is_number = isinstance(given, int) and not isinstance(given, bool)
    found = _RATE(str(given) if is_number else _text(given))
    if found is None:
        raise NotAllowed
    per_second, burst = found.groups()
    return Rate(int(per_second), int(burst or per_second))


def _read_names(given: object) -> tuple[str, ...]:
    items = given if isinstance(given, list | tuple) else _text(given).split(",")
    names = tuple(_text(each) for each in items if each != "")
    if not all(map(_PATTERN, names)):
        raise NotAllowed
    return names


def integer(least: int, most: int) -> Kind[int]:
    def read(given: object) -> int:
        if isinstance(given, str) and given.strip().isascii() and given.strip().isdigit():
            given = int(given)
        if not isinstance(given, int) or isinstance(given, bool) or not least <= given <= most:
            raise NotAllowed
        return given

    return Kind(f"a whole number from {least} to {most}", read, "NUMBER")


def choice(*words: str) -> Kind[str]:
    return Kind("one of " + ", ".join(words), _matched(lambda text: text in words), "|".join(words))


def optional(kind: Kind[T]) -> Kind[T | None]:
    """Empty text means none, since TOML and the environment know no null."""
    return Kind(f'{kind.allowed}, or "" for none', lambda given: None if given == "" else kind.read(given), kind.sign)


FLAG = Kind("true or false", _read_flag, "")
PATH = Kind("a path", _read_path, "PATH")
ADDRESS = Kind("HOST:PORT, for example 127.0.0.1:9324; port 0 lets the system choose", _read_address, "HOST:PORT")
ACCOUNT = Kind('12 digits in quotes, for example "000000000000"', _matched(_ACCOUNT), "DIGITS")
REGION = Kind("lower-case letters, digits and hyphens, for example us-east-1", _matched(_REGION), "REGION")
NODE = Kind("lower-case letters, digits, dots and hyphens, for example eu-1", _matched(_NODE), "NAME")
URL = Kind("http:// or https://, a host and perhaps a port, without a path", _read_url, "URL")
NETWORKS = Kind('addresses or networks, for example ["10.0.0.0/8", "::1"]', _read_networks, "NETWORK")
RATE = Kind("PER_SECOND or PER_SECOND:BURST, for example 5000 or 100:500", _read_rate, "RATE")
PATTERNS = Kind('names of queues, * for any characters, for example ["orders-*", "*.fifo"]', _read_names, "NAMES")
