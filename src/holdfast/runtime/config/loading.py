"""From what was given, and where, to one Config.

    defaults ◀── file ◀── environment ◀── flags          the rightmost that says something wins

Laws
- A name that is no setting is a problem, with the nearest name that is one.
- A value that is not allowed is a problem, which says where it came from and what would be allowed.
- All problems are told at once, not one per attempt.
"""

import difflib
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from holdfast.runtime.config import declared
from holdfast.runtime.config.kinds import NotAllowed
from holdfast.runtime.config.settings import SECTIONS, Config, Setting, settings

PREFIX = "HOLDFAST__"
DEFAULT = "default"


class ConfigError(Exception):
    """What is wrong with the configuration, one sentence each."""

    def __init__(self, problems: Sequence[str]) -> None:
        super().__init__("\n".join(problems))
        self.problems = list(problems)


class Given(NamedTuple):
    value: object
    origin: str  # as a person would look for it: a file, a variable, a flag


class Layer(NamedTuple):
    """What one source says, by name of the setting, and what is wrong with the source itself."""

    given: dict[str, Given]
    problems: list[str]


class Loaded(NamedTuple):
    config: Config
    origins: dict[str, str]  # by name of the setting


# sources


def from_file(path: Path) -> Layer:
    try:
        tables = tomllib.loads(path.read_text(encoding="utf-8"))
    except tomllib.TOMLDecodeError as problem:
        return Layer({}, [f"{path} is not TOML: {problem}."])
    except UnicodeDecodeError:
        return Layer({}, [f"{path} is not UTF-8 text."])
    except OSError as problem:
        return Layer({}, [f"{path} cannot be read: {problem.strerror}."])
    return from_tables(tables, str(path))


def from_tables(tables: Mapping[str, Any], origin: str) -> Layer:
    names = _names()
    sections = {each.section for each in names.values()}
    layer = Layer({}, [])
    for section, content in tables.items():
        if section == declared.SECTION:
            layer.given[section] = Given(content, origin)
        elif section not in sections:
            layer.problems.append(
                f"{origin}: [{section}] is no section.{_homes(section)}{_near(section, {*sections, declared.SECTION})}"
            )
        elif not isinstance(content, dict):
            layer.problems.append(f"{origin}: {section} must be a table: write [{section}] and its keys below.")
        else:
            _take(layer, content, section=section, origin=origin)
    return layer


def _take(layer: Layer, content: Mapping[str, Any], *, section: str, origin: str) -> None:
    names = _names()
    for key, value in content.items():
        name = f"{section}.{key}"
        if name in names:
            layer.given[name] = Given(value, origin)
        else:
            layer.problems.append(f"{origin}: {name} is no setting.{_homes(key)}{_near(name, names)}")


def from_environment(environ: Mapping[str, str]) -> Layer:
    variables = {each.variable: each.name for each in _names().values()}
    layer = Layer({}, [])
    for variable, value in environ.items():
        if not variable.startswith(PREFIX):
            continue
        if variable in variables:
            layer.given[variables[variable]] = Given(value, variable)
        else:
            layer.problems.append(f"{variable} is no setting.{_near(variable, variables)}")
    return layer


def from_flags(given: Mapping[str, object]) -> Layer:
    """By name of the setting; None: the flag was not there."""
    flags = {each.name: each.flag.partition("/")[0] for each in _names().values()}
    return Layer({name: Given(value, flags[name]) for name, value in given.items() if value is not None}, [])


def _names() -> dict[str, Setting]:
    return {each.name: each for each in settings()}


def _near(name: str, known: Any) -> str:
    found = difflib.get_close_matches(name, sorted(known), n=1, cutoff=0.6)
    return f" Did you mean {found[0]}?" if found else ""


def _homes(key: str) -> str:
    """For a key that stands in the wrong section, or in none."""
    homes = [each.name for each in settings() if each.key == key]
    return f" There is {' and '.join(homes)}." if homes else ""


# values


def load(*layers: Layer) -> Loaded:
    """Later layers win. Raises ConfigError."""
    problems = [problem for layer in layers for problem in layer.problems]
    merged = {name: given for layer in layers for name, given in layer.given.items()}
    values: dict[str, dict[str, Any]] = {}
    origins: dict[str, str] = {}
    for setting in settings():
        given = merged.get(setting.name, Given(setting.default, DEFAULT))
        origins[setting.name] = given.origin
        try:
            value = setting.default if given.origin is DEFAULT else setting.kind.read(given.value)
        except NotAllowed:
            problems.append(_refusal(setting, given))
        else:
            values.setdefault(setting.section, {})[setting.key] = value
    queues = merged.get(declared.SECTION, Given({}, DEFAULT))
    origins[declared.SECTION] = queues.origin
    made = declared.read_queues(queues.value, problems, origin=queues.origin)
    if problems:
        raise ConfigError(problems)
    _imply(values, origins)
    sections = {section: kind(**values[section]) for section, kind in SECTIONS.items()}
    config = Config(**sections, queues=made)
    if contradictions := list(_contradictions(config, origins)):
        raise ConfigError(contradictions)
    return Loaded(config, origins)


def _refusal(setting: Setting, given: Given) -> str:
    return f"{setting.name} = {given.value!r} ({given.origin}) is not allowed. It must be {setting.kind.allowed}."


def _imply(values: dict[str, dict[str, Any]], origins: dict[str, str]) -> None:
    """Settings that stand for others, unless those were given."""
    if values["server"]["ephemeral"] and origins["server.relaxed"] == DEFAULT:
        values["server"]["relaxed"] = True
        origins["server.relaxed"] = f"implied by {origins['server.ephemeral']}"


def _contradictions(config: Config, origins: dict[str, str]) -> Iterator[str]:
    server, auth = config.server, config.auth
    if server.ephemeral and origins["server.data"] == "--data":
        yield "--data names a folder to keep, and --ephemeral removes what it wrote. Use one of them."
    if (config.tls.certificate is None) != (config.tls.key is None):
        yield "tls.certificate and tls.key belong together: set both or none."
    if auth.enabled or auth.open_anywhere:
        return
    for listen in (server.listen, config.admin_listen):
        if listen.is_loopback:
            continue
        yield (
            f"--no-auth accepts requests from anybody, and {listen.host} can be reached from other machines. "
            "Listen on 127.0.0.1 or ::1, or add --no-auth-anywhere if that is what you want."
        )
