"""The error tree against two sources that Amazon publishes: botocore's service model, which names the
shapes, and the JavaScript SDK, which still carries their Query codes and statuses (sqs_errors.json says
where). A shape without these traits has Smithy's default for a client error: its own name and 400."""

import inspect
import json
from pathlib import Path

import pytest
from botocore.loaders import Loader

from holdfast.core import errors
from holdfast.core.errors import HoldfastError, SqsError
from tests.compatibility.claims import proves

TRAITS: dict[str, tuple[str, int] | None] = json.loads(
    Path(__file__).with_name("sqs_errors.json").read_text(encoding="utf-8")
)["errors"]

# Answered by AWS although the model has no shape for them: class, JSON name, Query code, status.
UNMODELLED = {
    "InvalidParameterValue": ("InvalidParameterValueException", "InvalidParameterValue", 400),
    "MissingParameter": ("MissingRequiredParameterException", "MissingParameter", 400),
}

# Ours: said by a host about itself, and always its own fault.
OURS = {"ServiceUnavailable": 503, "Overloaded": 503, "NoRoom": 503, "NotPrimary": 503}
OURS |= {"LaneDraining": 503, "Unsure": 503, "OutcomeUnknown": 500, "CorruptLog": 500}

ABSTRACT = {"HoldfastError", "SqsError", "RequestError"}


def tree() -> dict[str, type[HoldfastError]]:
    classes = inspect.getmembers(errors, inspect.isclass)
    return {name: cls for name, cls in classes if issubclass(cls, HoldfastError)}


def modelled_shapes() -> set[str]:
    model = Loader().load_service_model("sqs", "service-2")
    return {name for name, shape in model["shapes"].items() if shape.get("exception")}


def test_every_modelled_error_has_exactly_one_class_and_no_class_is_invented() -> None:
    codes = [cls.code for cls in tree().values() if issubclass(cls, SqsError) and cls is not SqsError]
    assert sorted(codes) == sorted(modelled_shapes())


def test_both_published_sources_name_the_same_errors() -> None:
    assert set(TRAITS) == modelled_shapes()
    assert len(TRAITS) == 28


def test_every_class_is_modelled_or_named_here() -> None:
    known = modelled_shapes() | set(UNMODELLED) | set(OURS) | ABSTRACT
    assert set(tree()) == known


@proves("errors-in-both-dialects")
@pytest.mark.parametrize("name", sorted(TRAITS))
def test_a_modelled_error_has_the_published_query_code_and_status(name: str) -> None:
    query_code, status = TRAITS[name] or (name, 400)
    cls = tree()[name]
    assert (cls.code, cls.query_code, cls.status, cls.fault) == (name, query_code, status, "Sender")


@pytest.mark.parametrize("name", sorted(UNMODELLED))
def test_an_unmodelled_error_has_the_names_that_clients_see_from_aws(name: str) -> None:
    cls = tree()[name]
    assert (cls.code, cls.query_code, cls.status) == UNMODELLED[name]
    assert cls.fault == "Sender"


@pytest.mark.parametrize("name", sorted(OURS))
def test_our_own_errors_blame_the_server(name: str) -> None:
    cls = tree()[name]
    assert (cls.status, cls.fault) == (OURS[name], "Receiver")


def test_a_message_replaces_the_usual_text() -> None:
    assert errors.QueueDoesNotExist().message == "The specified queue does not exist."
    assert errors.QueueDoesNotExist("gone").message == str(errors.QueueDoesNotExist("gone")) == "gone"
