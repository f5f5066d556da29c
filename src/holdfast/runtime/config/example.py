"""The configuration as text: an example file that shows every setting, and what is in force with its origin."""

import json
from collections.abc import Iterator
from typing import Any

from holdfast.core.admission.bucket import Rate
from holdfast.runtime.config.declared import SECTION, Pairs
from holdfast.runtime.config.kinds import Address
from holdfast.runtime.config.loading import Loaded
from holdfast.runtime.config.settings import EXPLANATIONS, Setting, settings

_QUEUES = """\
# Queues that are made at the start when they are missing, dead-letter queues first. Only a file can declare them. One
# that is there and set to something else is an error that names the attribute, unless apply = "update".
#
# [queues.orders-dead]
#
# [queues.orders]
# dead_letter_queue = "orders-dead"
# max_receive_count = 5
# attributes = { VisibilityTimeout = 60, "Holdfast.MaxMessages" = 100000 }
# tags = { team = "shop" }
# apply = "check"
""".splitlines()


def example() -> str:
    """A file that sets every setting to its default, with what it does."""
    lines: list[str] = []
    section = ""
    for each in settings():
        if each.is_hidden:
            continue
        if each.section != section:
            section = each.section
            lines += ["", f"# {EXPLANATIONS[section]}", f"[{section}]"]
        lines += _explained(each)
    lines += ["", *_QUEUES]
    return "\n".join(lines).lstrip() + "\n"


def _explained(setting: Setting) -> Iterator[str]:
    flag = f" Flag: {setting.flag}" if setting.flag else ""
    yield f"# {setting.explanation}{flag}"
    yield f"#   Allowed: {setting.kind.allowed}."
    yield f"{setting.key} = {as_toml(setting.default)}"


def rows(loaded: Loaded) -> Iterator[tuple[str, str, str]]:
    """Name, value as TOML, origin; of all that is in force."""
    for each in settings():
        value = getattr(getattr(loaded.config, each.section), each.key)
        yield each.name, as_toml(value), loaded.origins[each.name]
    for queue in loaded.config.queues:
        yield f"{SECTION}.{queue.name}", as_toml(queue.attributes), loaded.origins[SECTION]


def as_toml(value: Any) -> str:
    match value:
        case bool():
            return "true" if value else "false"
        case int():
            return str(value)
        case Pairs():
            members = ", ".join(f"{json.dumps(name)} = {json.dumps(text)}" for name, text in value)
            return f"{{ {members} }}" if members else "{}"
        case tuple() if not isinstance(value, Address):
            return f"[{', '.join(map(as_toml, value))}]"
        case _:
            return json.dumps(as_text(value), ensure_ascii=False)


def as_text(value: Any) -> str:
    """As a flag or variable would say it."""
    match value:
        case None:
            return ""
        case Rate(per_second=per_second, burst=burst):
            return f"{per_second}:{burst}"
        case _:
            return str(value)
