"""Declarations of queues: their form, and what is said about wrong ones."""

import tomllib

import pytest

from holdfast.cli.declarations import problems
from holdfast.runtime.config import example
from holdfast.runtime.config.declared import DeclaredQueue, Pairs
from holdfast.runtime.config.loading import ConfigError, Loaded, from_environment, from_tables, load


def loaded(text: str) -> Loaded:
    return load(from_tables(tomllib.loads(text), "holdfast.toml"))


def said(text: str) -> str:
    try:
        return "\n".join(problems(loaded(text).config))
    except ConfigError as error:
        return str(error)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('[queues."bad name"]', "queues.bad name: Can only include alphanumeric"),
        ("[queues.q]\nattributes = { VisibilityTimeot = 1 }", "queues.q: Unknown Attribute VisibilityTimeot."),
        ("[queues.q]\nattributes = { VisibilityTimeout = 99999 }", "queues.q: Invalid value for the parameter Visib"),
        ("[queues.q]\natributes = {}", "holdfast.toml: queues.q.atributes is no setting. Did you mean queues.q.attri"),
        ('[queues.q]\ndead_letter_queue = "d"', "belong together"),
        ("[queues.q]\nmax_receive_count = 0\ndead_letter_queue = 'd'", "from 1 to 1000"),
        ('[queues.q]\napply = "sometimes"', "must be check or update"),
        ("[queues.q]\nattributes = 1", "must be a table"),
        ("[queues.q]\nattributes = { a = 1.5 }", "must be a table of names and values"),
        ("[queues.q]\ntags = { 'aws:x' = '1' }", "queues.q: "),
        ("queues = 1", "write [queues.NAME]"),
        ("[queues]\nq = 1", "write [queues.q]"),
        (
            '[queues]\na = { dead_letter_queue = "b", max_receive_count = 1 }\n'
            'b = { dead_letter_queue = "a", max_receive_count = 1 }',
            "the dead-letter queues of a, b form a circle",
        ),
        ("[auto_create]\nattributes = { Nonsense = 1 }", "auto_create.attributes: Unknown Attribute Nonsense."),
        ("[auto_create]\nfifo_attributes = { DeduplicationScope = 'x' }", "auto_create.fifo_attributes: "),
        ('[auto_create]\nqueues = ["a b"]', "names of queues, * for any characters"),
    ],
)
def test_a_wrong_declaration_is_refused_with_its_place(text: str, expected: str) -> None:
    assert expected in said(text)


def test_numbers_truth_values_and_tables_become_what_sqs_has_for_them() -> None:
    text = "[queues.'q.fifo']\nattributes = { VisibilityTimeout = 1, FifoQueue = true, Policy = { Version = 'x' } }"
    (queue,) = loaded(text).config.queues
    pairs = Pairs((("VisibilityTimeout", "1"), ("FifoQueue", "true"), ("Policy", '{"Version": "x"}')))
    assert queue == DeclaredQueue("q.fifo", pairs, Pairs())


def test_a_template_can_come_from_the_environment() -> None:
    variables = {
        "HOLDFAST__AUTO_CREATE__QUEUES": "orders-*,*.fifo",
        "HOLDFAST__AUTO_CREATE__ATTRIBUTES": "{ VisibilityTimeout = 60 }",
    }
    auto = load(from_environment(variables)).config.auto_create
    assert (auto.queues, dict(auto.attributes)) == (("orders-*", "*.fifo"), {"VisibilityTimeout": "60"})


def test_the_declarations_of_the_example_are_right_when_they_are_uncommented() -> None:
    text = example.example()
    sample = text[text.index("# [queues.orders-dead]") :].replace("# ", "").replace("#\n", "\n")
    assert said(sample) == ""
    assert [queue.name for queue in loaded(sample).config.queues] == ["orders-dead", "orders"]
    assert ("queues.orders", "holdfast.toml") in [(row[0], row[2]) for row in example.rows(loaded(sample))]
