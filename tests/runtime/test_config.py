"""Where values come from, who wins, and what is said about wrong ones."""

import re
from pathlib import Path
from typing import Any

import pytest

from holdfast.core.admission.bucket import Rate
from holdfast.runtime.config import example
from holdfast.runtime.config.kinds import Address
from holdfast.runtime.config.loading import (
    ConfigError,
    Layer,
    from_environment,
    from_file,
    from_flags,
    from_tables,
    load,
)
from holdfast.runtime.config.settings import Config, settings

REFERENCE = Path(__file__).parent.parent.parent / "docs" / "CONFIGURATION.md"


def file(**sections: Any) -> Layer:
    return from_tables(sections, "holdfast.toml")


def problems(*layers: Layer) -> str:
    with pytest.raises(ConfigError) as raised:
        load(*layers)
    return str(raised.value)


def test_without_anything_the_defaults_are_in_force() -> None:
    loaded = load()
    assert loaded.config == Config()
    assert set(loaded.origins.values()) == {"default"}


def test_flags_win_over_the_environment_over_the_file_over_defaults() -> None:
    in_file = file(server={"region": "file", "account": "000000000001", "listen": "127.0.0.1:1"})
    variables = from_environment({"HOLDFAST__SERVER__REGION": "env", "HOLDFAST__SERVER__LISTEN": "127.0.0.1:2"})
    flags = from_flags({"server.region": "flag", "server.ready_file": None})
    config, origins = load(in_file, variables, flags)
    assert (config.server.region, config.server.listen, config.server.account) == (
        "flag",
        Address("127.0.0.1", 2),
        "000000000001",
    )
    names = ("server.region", "server.listen", "server.account", "server.data")
    assert [origins[name] for name in names] == ["--region", "HOLDFAST__SERVER__LISTEN", "holdfast.toml", "default"]


@pytest.mark.parametrize(
    ("layer", "said"),
    [
        (file(server={"lisen": "x"}), "holdfast.toml: server.lisen is no setting. Did you mean server.listen?"),
        (file(sever={"listen": "x"}), "holdfast.toml: [sever] is no section. Did you mean server?"),
        (file(region="x"), "holdfast.toml: [region] is no section. There is server.region."),
        (file(server="x"), "server must be a table: write [server]"),
        (file(auth={"region": "x"}), "auth.region is no setting. There is server.region."),
        (
            from_environment({"HOLDFAST__SERVER__LISTN": "x"}),
            "HOLDFAST__SERVER__LISTN is no setting. Did you mean HOLDFAST__SERVER__LISTEN?",
        ),
        (file(nonsense={}), "holdfast.toml: [nonsense] is no section."),
    ],
)
def test_an_unknown_name_is_refused_with_the_nearest_known_one(layer: Layer, said: str) -> None:
    assert said in problems(layer)


@pytest.mark.parametrize(
    ("name", "value", "allowed"),
    [
        ("server.listen", "nonsense", "HOST:PORT"),
        ("server.listen", "127.0.0.1:70000", "HOST:PORT"),
        ("server.account", 0, "12 digits"),
        ("server.region", "US East", "lower-case"),
        ("server.relaxed", "perhaps", "true or false"),
        ("server.shards", 0, "from 1 to 64"),
        ("server.shards", True, "from 1 to 64"),
        ("server.data", "", "a path"),
        ("proxy.advertised_url", "https://queues.example/prefix", "without a path"),
        ("proxy.advertised_url", "queues.example", "http:// or https://"),
        ("proxy.trusted", ["10.0.0.1/8"], "addresses or networks"),
        ("limits.account", "fast", "PER_SECOND"),
        ("limits.queue", 0, "PER_SECOND"),
    ],
)
def test_a_wrong_value_is_refused_with_its_name_its_origin_and_what_is_allowed(
    name: str, value: object, allowed: str
) -> None:
    section, key = name.split(".")
    said = problems(file(**{section: {key: value}}))
    assert said.startswith(f"{name} = {value!r} (holdfast.toml) is not allowed. It must be ")
    assert allowed in said


def test_all_problems_are_told_at_once() -> None:
    both = problems(
        file(server={"listen": "nonsense", "reigon": "x"}), from_environment({"HOLDFAST__AUTH__ENABLED": "2"})
    )
    assert [line.split()[0] for line in both.splitlines()] == ["holdfast.toml:", "server.listen", "auth.enabled"]


@pytest.mark.parametrize(
    ("content", "said"),
    [(b"[server\n", "is not TOML"), (b"\xff", "is not UTF-8"), (None, "cannot be read: No such file")],
)
def test_a_file_that_cannot_be_read_is_a_problem_of_its_own(tmp_path: Path, content: bytes | None, said: str) -> None:
    path = tmp_path / "holdfast.toml"
    if content is not None:
        path.write_bytes(content)
    assert said in problems(from_file(path))


@pytest.mark.parametrize(
    ("name", "text", "value"),
    [
        ("server.relaxed", "Yes", True),
        ("server.relaxed", "0", False),
        ("server.shards", "3", 3),
        ("server.listen", "[::1]:80", Address("::1", 80)),
        ("server.ready_file", "", None),
        ("limits.account", "5000", Rate(5000, 5000)),
        ("limits.queue", "100:500", Rate(100, 500)),
        ("proxy.advertised_url", "https://queues.example/", "https://queues.example"),
    ],
)
def test_text_of_the_environment_is_read_as_what_it_means(name: str, text: str, value: object) -> None:
    section, key = name.split(".")
    config, _ = load(from_environment({f"HOLDFAST__{section}__{key}".upper(): text}))
    assert getattr(getattr(config, section), key) == value


def test_trusted_proxies_are_a_list_in_a_file_and_separated_by_commas_elsewhere() -> None:
    listed, _ = load(file(proxy={"trusted": ["10.0.0.0/8", "::1"]}))
    separated, _ = load(from_environment({"HOLDFAST__PROXY__TRUSTED": "10.0.0.0/8, ::1"}))
    assert list(map(str, listed.proxy.trusted)) == ["10.0.0.0/8", "::1/128"]
    assert separated == listed


def test_ephemeral_is_relaxed_unless_somebody_says_otherwise() -> None:
    config, origins = load(from_flags({"server.ephemeral": True}))
    assert (config.server.relaxed, origins["server.relaxed"]) == (True, "implied by --ephemeral")
    config, _ = load(file(server={"relaxed": False}), from_flags({"server.ephemeral": True}))
    assert not config.server.relaxed


def test_settings_that_contradict_each_other_are_refused() -> None:
    assert "Use one of them" in problems(from_flags({"server.ephemeral": True, "server.data": "kept"}))
    everywhere = file(server={"listen": "0.0.0.0:9324"}, auth={"enabled": False})
    assert "--no-auth-anywhere" in problems(everywhere)
    load(everywhere, from_flags({"auth.open_anywhere": True}))


def test_the_example_file_sets_every_setting_to_its_default(tmp_path: Path) -> None:
    path = tmp_path / "holdfast.toml"
    path.write_text(example.example(), encoding="utf-8")
    config, origins = load(from_file(path))
    assert config == Config()
    assert {name for name, origin in origins.items() if origin == "default"} == {
        "queues",
        *(each.name for each in settings() if each.is_hidden),
    }


def test_what_is_shown_can_be_read_again() -> None:
    loaded = load(file(server={"listen": "[::1]:80"}, limits={"queue": "100:500"}, proxy={"trusted": ["10.0.0.0/8"]}))
    shown = {name: value for name, value, _ in example.rows(loaded)}
    assert (shown["server.listen"], shown["limits.queue"]) == ('"[::1]:80"', '"100:500"')
    assert (shown["proxy.trusted"], shown["limits.account"]) == ('["10.0.0.0/8"]', '""')


def test_the_documentation_shows_the_example_file_as_it_is() -> None:
    shown = re.search(r"```toml\n(.*?)```", REFERENCE.read_text(encoding="utf-8"), re.DOTALL)
    assert shown is not None
    assert shown[1] == example.example(), "put the output of `holdfast config example` into docs/CONFIGURATION.md"
