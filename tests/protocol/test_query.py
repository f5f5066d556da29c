"""The Query dialect: forms in, XML out, and the same requests and replies in between."""

import hashlib
import json
import math
import re
from pathlib import Path
from typing import Any
from urllib.parse import urlencode
from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.core.errors import (
    HoldfastError,
    InvalidMessageContents,
    InvalidParameterValue,
    MissingParameter,
    QueueDoesNotExist,
    RequestError,
    SqsError,
)
from holdfast.protocol import actions, messages, query, xml
from holdfast.protocol.actions import AttributeValue, InvalidAction, UnknownOperation
from holdfast.protocol.xml import Wording

FACTS = json.loads((Path(__file__).parent / "query_model.json").read_text(encoding="utf-8"))
OPERATIONS: dict[str, dict[str, dict[str, str]]] = FACTS["operations"]
SAMPLES = {"string": "some text", "integer": "7", "long": "7", "blob": "aGVsbG8=", "boolean": "true"}
NEWER = {"MessageSystemAttributeNames"}  # than the last model of this dialect
ANSWERED = [action.__name__ for action in actions.ACTIONS]
SPACE = f"{{{xml.NAMESPACE}}}"

# What XML 1.0 can carry, which is what a message may contain.
carried = st.text(
    st.characters(exclude_categories=["Cs"], exclude_characters="\ufffe\uffff").filter(
        lambda each: each in "\t\n\r" or each >= " "
    )
)


def decode(form: dict[str, str], target: str = "/") -> Any:
    return query.decode(target.encode(), urlencode(form).encode())


def tree(text: bytes) -> Any:
    """XML as nested lists of pairs, without the namespace."""

    def node(element: ElementTree.Element) -> Any:
        if len(element):
            return [(child.tag.removeprefix(SPACE), node(child)) for child in element]
        return element.text or ""

    root = ElementTree.fromstring(text)
    assert root.tag.startswith(SPACE)
    return root.tag.removeprefix(SPACE), node(root)


def result(action: str, reply: object) -> Any:
    """The members of a result."""
    name, members = tree(Wording(action).success(json.dumps(reply).encode(), "id-1"))
    assert name == action + "Response"
    assert members[-1] == ("ResponseMetadata", [("RequestId", "id-1")])
    return members[:-1]


# the tables, against the last model that spoke this dialect


def numbered(path: str, number: str) -> str:
    """With a number for each N."""
    return re.sub(r"\.N\b", number, path)


def in_full(action: str) -> dict[str, str]:
    """A form with every parameter that the model knows, all lists and maps of length two."""
    form: dict[str, str] = {"Action": action}
    for path, kind in OPERATIONS[action]["input"].items():
        for first in ("1", "2"):
            name = numbered(path, "." + first)
            form[name] = "name " + first if name.endswith((".Name", ".Key")) else SAMPLES[kind]
    return form


def given_members(value: Any) -> Any:
    """Whether each member that a request could hold was filled, by JSON name."""
    match value:
        case actions.Request() | AttributeValue():
            return {
                name: given_members(getattr(value, field))
                for field, name in zip(value.__struct_fields__, value.__struct_encode_fields__, strict=True)
                if name not in NEWER
            }
        case list():
            return [given_members(each) for each in value]
        case dict():
            return {name: given_members(each) for name, each in value.items()}
    return value


def holds_none(value: Any) -> bool:
    if isinstance(value, dict | list):
        return not value or any(map(holds_none, value.values() if isinstance(value, dict) else value))
    return value is None


@pytest.mark.parametrize("action", ANSWERED)
def test_every_parameter_of_the_model_fills_its_member(action: str) -> None:
    members = given_members(decode(in_full(action)))
    assert not holds_none(members), members


def test_results_are_absent_where_the_model_has_none() -> None:
    assert {name for name, each in OPERATIONS.items() if "output" not in each} == xml.WITHOUT_RESULT
    assert FACTS["xmlNamespace"] == xml.NAMESPACE


REPLIES: dict[str, Any] = {
    "SendMessage": dict.fromkeys(
        "MD5OfMessageAttributes MD5OfMessageBody MD5OfMessageSystemAttributes MessageId SequenceNumber".split(), "x"
    ),
    "ReceiveMessage": {
        "Messages": [
            {
                "MessageId": "x",
                "ReceiptHandle": "x",
                "MD5OfBody": "x",
                "Body": "x",
                "Attributes": {"SenderId": "x"},
                "MD5OfMessageAttributes": "x",
                "MessageAttributes": {
                    "n": {
                        "DataType": "String",
                        "StringValue": "x",
                        "BinaryValue": "eA==",
                        "StringListValues": ["x"],
                        "BinaryListValues": ["eA=="],
                    }
                },
            }
        ]
    },
    "GetQueueAttributes": {"Attributes": {"DelaySeconds": "0"}},
    "GetQueueUrl": {"QueueUrl": "x"},
    "CreateQueue": {"QueueUrl": "x"},
    "ListQueues": {"QueueUrls": ["x"], "NextToken": "x"},
    "ListDeadLetterSourceQueues": {"queueUrls": ["x"], "NextToken": "x"},
    "ListQueueTags": {"Tags": {"k": "v"}},
    "StartMessageMoveTask": {"TaskHandle": "x"},
    "CancelMessageMoveTask": {"ApproximateNumberOfMessagesMoved": 5},
    "ListMessageMoveTasks": {
        "Results": [
            {
                "ApproximateNumberOfMessagesMoved": 5,
                "ApproximateNumberOfMessagesToMove": 6,
                "DestinationArn": "x",
                "FailureReason": "x",
                "MaxNumberOfMessagesPerSecond": 7,
                "SourceArn": "x",
                "StartedTimestamp": 8,
                "Status": "x",
                "TaskHandle": "x",
            }
        ]
    },
}
FAILED = [{"Id": "b", "SenderFault": True, "Code": "x", "Message": "x"}]
for _batch in ("SendMessageBatch", "DeleteMessageBatch", "ChangeMessageVisibilityBatch"):
    _sent = REPLIES["SendMessage"] if _batch == "SendMessageBatch" else {}
    REPLIES[_batch] = {"Successful": [{"Id": "a", **_sent}], "Failed": FAILED}


def leaves(members: list[tuple[str, Any]], prefix: str = "") -> list[str]:
    found = []
    for name, value in members:
        found += leaves(value, f"{prefix}{name}.") if isinstance(value, list) else [prefix + name]
    return found


@pytest.mark.parametrize("action", [name for name, each in OPERATIONS.items() if "output" in each])
def test_a_reply_has_the_elements_of_the_model(action: str) -> None:
    ((name, members),) = result(action, REPLIES[action])
    assert name == action + "Result"
    assert sorted(leaves(members)) == sorted(numbered(path, "") for path in OPERATIONS[action]["output"])


# requests


def test_a_send_with_everything() -> None:
    request = decode(in_full("SendMessage") | {"MessageBody": "a+b & c=d\r\n\u00e9\U0001f41f", "Version": "2012-11-05"})
    assert isinstance(request, actions.SendMessage)
    assert request.message_body == "a+b & c=d\r\n\u00e9\U0001f41f"
    assert request.delay_seconds == 7
    assert request.message_attributes is not None
    assert list(request.message_attributes) == ["name 1", "name 2"]
    assert request.message_attributes["name 1"].binary_value == b"hello"


def test_a_plus_is_a_space_and_an_escaped_plus_is_not() -> None:
    request: Any = query.decode(b"/", b"Action=SendMessage&MessageBody=a+b%2Bc%3d%26d==&&")
    assert request.message_body == "a b+c=&d=="


def test_numbers_order_lists_and_gaps_are_fine() -> None:
    form = {"Action": "ReceiveMessage", "AttributeName.10": "c", "AttributeName.9": "b", "AttributeName.2": "a"}
    assert decode(form | {"AttributeName.99999999999": "d"}).attribute_names == ["a", "b", "c", "d"]


def test_a_list_or_map_of_one_needs_no_number() -> None:
    assert decode({"Action": "GetQueueAttributes", "AttributeName": "All"}).attribute_names == ["All"]
    form = {"Action": "CreateQueue", "Attribute.Name": "DelaySeconds", "Attribute.Value": "5"}
    assert decode(form).attributes == {"DelaySeconds": "5"}
    assert decode({"Action": "GetQueueAttributes", "AttributeName": ""}).attribute_names == []
    assert decode({"Action": "CreateQueue", "Attribute": ""}).attributes == {}


def test_attribute_name_hides_the_newer_list() -> None:
    form = {"Action": "ReceiveMessage", "MessageSystemAttributeName.1": "SenderId"}
    assert decode(form).message_system_attribute_names == ["SenderId"]
    assert decode(form | {"AttributeName.1": "All"}).message_system_attribute_names is None


def test_the_path_names_the_queue_unless_the_request_does() -> None:
    target = "/000000000000/orders/?Action=PurgeQueue"
    assert decode({}, target).queue_url == "/000000000000/orders/"
    assert decode({"QueueUrl": "other"}, target).queue_url == "other"
    assert decode({"Action": "PurgeQueue"}, "/").queue_url is None
    assert decode({"Action": "GetQueueUrl", "QueueName": "x"}, "/000000000000/orders").queue_name == "x"


@pytest.mark.parametrize("action", ["CreateQueue", "ListQueues"])
def test_a_queue_is_no_endpoint_for_actions_about_all_queues(action: str) -> None:
    with pytest.raises(InvalidAction, match=f"The action {action} is not valid for this endpoint"):
        decode({"Action": action, "QueueName": "x"}, "/000000000000/orders")


def test_unknown_actions() -> None:
    with pytest.raises(InvalidAction, match="The action Fly is not valid for this endpoint"):
        decode({"Action": "Fly"})
    for form in ({}, {"Action": ""}, {"action": "SendMessage"}):
        with pytest.raises(UnknownOperation):
            decode(form)


@pytest.mark.parametrize(
    ("form", "error", "text"),
    [
        ({"MaxNumberOfMessages": "ten"}, InvalidParameterValue, "Value ten for parameter MaxNumberOfMessages is inv"),
        ({"MaxNumberOfMessages": ""}, InvalidParameterValue, "Must be an integer"),
        ({"MaxNumberOfMessages": "\u0663"}, InvalidParameterValue, "Must be an integer"),
        ({"MaxNumberOfMessages": "9" * 5000}, InvalidParameterValue, "Must be an integer"),
    ],
)
def test_bad_numbers(form: dict[str, str], error: type[HoldfastError], text: str) -> None:
    with pytest.raises(error, match=text):
        decode({"Action": "ReceiveMessage", **form})


def test_maps_need_both_halves_and_each_name_once() -> None:
    base = {"Action": "CreateQueue", "QueueName": "x"}
    with pytest.raises(MissingParameter, match=r"the parameter Attribute\.1\.Name\."):
        decode(base | {"Attribute.1.Value": "5"})
    with pytest.raises(MissingParameter, match=r"the parameter Attribute\.3\.Value\."):
        decode(base | {"Attribute.3.Name": "DelaySeconds"})
    twice = {"Attribute.1.Name": "a", "Attribute.1.Value": "1", "Attribute.2.Name": "a", "Attribute.2.Value": "2"}
    with pytest.raises(InvalidParameterValue, match="a is given more than once in Attribute"):
        decode(base | twice)


def test_binary_values_are_base64() -> None:
    form = {"Action": "SendMessage", "MessageAttribute.1.Name": "x"}
    for text in ("\u00e9", "a", "?"):
        with pytest.raises(InvalidParameterValue, match="base64"):
            decode(form | {"MessageAttribute.1.Value.BinaryValue": text})


@pytest.mark.parametrize("form", [b"Action=%", b"Action=%f", b"Action=%zz", b"Action=%ff", b"A%80=1", b"a=1&" * 10_000])
def test_what_cannot_be_read_is_refused(form: bytes) -> None:
    with pytest.raises(query.MalformedInput):
        query.decode(b"/", form)


def test_control_characters_are_read_and_then_refused() -> None:
    request = decode({"Action": "SendMessage", "MessageBody": "\x02"})
    with pytest.raises(InvalidMessageContents):
        messages.check_characters(request.message_body)


def request_or_refusal(target: bytes, form: bytes) -> None:
    try:
        request = query.decode(target, form)
    except (RequestError, SqsError):
        return
    assert isinstance(request, actions.Request)


words = st.sampled_from(sorted({"Action", *ANSWERED, *"1 2 007 Name Key Value DataType Id".split()}))
names_like = st.sampled_from(sorted({path for each in OPERATIONS.values() for path in each["input"]}))
pieces = st.one_of(words, names_like.map(lambda name: numbered(name, ".1")), st.text(max_size=5))


@given(st.dictionaries(st.lists(pieces, min_size=1, max_size=4).map(".".join), pieces), st.sampled_from(ANSWERED))
def test_any_form_is_a_request_or_a_refusal(form: dict[str, str], action: str) -> None:
    request_or_refusal(b"/", urlencode({"Action": action} | form).encode())


@given(st.binary(), st.binary())
def test_any_bytes_are_a_request_or_a_refusal(target: bytes, form: bytes) -> None:
    request_or_refusal(target, b"Action=SendMessage&" + form)


@given(st.text(st.characters(exclude_categories=["Cs"])))
def test_text_arrives_as_it_was_sent(text: str) -> None:
    assert decode({"Action": "SendMessage", "MessageBody": text}).message_body == text


# replies


def test_a_reply_to_the_letter() -> None:
    assert Wording("SendMessage").success(b'{"MessageId":"7","MD5OfMessageBody":"0"}', "id-1") == (
        b'<?xml version="1.0"?><SendMessageResponse xmlns="http://queue.amazonaws.com/doc/2012-11-05/">'
        b"<SendMessageResult><MessageId>7</MessageId><MD5OfMessageBody>0</MD5OfMessageBody></SendMessageResult>"
        b"<ResponseMetadata><RequestId>id-1</RequestId></ResponseMetadata></SendMessageResponse>"
    )


def test_replies_that_say_nothing() -> None:
    assert b"<ReceiveMessageResult/>" in Wording("ReceiveMessage").success(b"{}", "id-1")
    assert result("ListQueues", {}) == [("ListQueuesResult", "")]
    assert result("DeleteMessage", {}) == []


def test_booleans_and_numbers() -> None:
    ((_, members),) = result("DeleteMessageBatch", {"Failed": FAILED})
    assert ("SenderFault", "true") in members[0][1]
    assert result("CancelMessageMoveTask", {"ApproximateNumberOfMessagesMoved": 5})[0][1] == [
        ("ApproximateNumberOfMessagesMoved", "5")
    ]


def received(body: str) -> str:
    ((_, (message,)),) = result("ReceiveMessage", {"Messages": [{"Body": body}]})
    text: str = message[1][0][1]
    return text


def test_a_carriage_return_keeps_its_md5() -> None:
    body = "line\r\nline\rline\n\t<&>\"' ]]> \u00e9\U0001f41f\x85\u2028\ufffd"
    assert hashlib.md5(received(body).encode()).digest() == hashlib.md5(body.encode()).digest()
    assert b"&#xD;" in Wording("ReceiveMessage").success(b'{"Messages":[{"Body":"\\r"}]}', "id-1")


@given(carried)
def test_xml_gives_back_every_text_that_a_message_may_be(text: str) -> None:
    assert received(text) == text


@given(st.text(), st.text())
def test_xml_always_parses(name: str, text: str) -> None:
    assert tree(Wording().refusal(InvalidParameterValue(text or "x"), "id-1"))
    clean = [each.encode("utf-8", "replace").decode() for each in (name, text)]
    ((_, pairs),) = result("ListQueueTags", {"Tags": {clean[0]: clean[1]}})
    assert [part[0] for part in pairs[0][1]] == ["Key", "Value"]


# errors


def test_an_error_to_the_letter() -> None:
    assert Wording("SendMessage").refusal(QueueDoesNotExist(), "id-1") == (
        b'<?xml version="1.0"?><ErrorResponse xmlns="http://queue.amazonaws.com/doc/2012-11-05/"><Error>'
        b"<Type>Sender</Type><Code>AWS.SimpleQueueService.NonExistentQueue</Code>"
        b"<Message>The specified queue does not exist for this wsdl version.</Message><Detail/></Error>"
        b"<RequestId>id-1</RequestId></ErrorResponse>"
    )


def test_without_an_action_there_is_no_error_code() -> None:
    for wording in (Wording(), Wording(is_json=True)):
        assert wording.refusal(UnknownOperation(), "id-1") == b"<UnknownOperationException/>"


# the JSON of this dialect


def as_json(action: str, reply: object) -> Any:
    response = json.loads(Wording(action, is_json=True).success(json.dumps(reply).encode(), "id-1"))
    members = response[action + "Response"]
    assert members.pop("ResponseMetadata") == {"RequestId": "id-1"}
    return members


def test_a_client_that_accepts_json_gets_the_same_tree() -> None:
    reply = {
        "Messages": [{"Body": "x", "Attributes": {"SenderId": "y"}, "MessageAttributes": {"n": {"DataType": "z"}}}]
    }
    assert as_json("ReceiveMessage", reply) == {
        "ReceiveMessageResult": {
            "messages": [
                {
                    "Body": "x",
                    "Attributes": [{"Name": "SenderId", "Value": "y"}],
                    "MessageAttributes": [{"Name": "n", "Value": {"DataType": "z"}}],
                }
            ]
        }
    }
    assert as_json("ListQueues", {}) == {"ListQueuesResult": {"queueUrls": None}}
    assert as_json("DeleteMessage", {}) == {}
    assert json.loads(Wording(is_json=True).refusal(QueueDoesNotExist(), "id-1")) == {
        "Error": {
            "Type": "Sender",
            "Code": "AWS.SimpleQueueService.NonExistentQueue",
            "Message": "The specified queue does not exist for this wsdl version.",
            "Detail": None,
        },
        "RequestId": "id-1",
    }


def test_a_megabyte_of_escapes_is_read_in_a_moment() -> None:
    """A bound on work, counted in bytes: a form is split and decoded once."""
    body = "%E2%82%AC" * (math.ceil(1_048_576 / 3))
    request: Any = query.decode(b"/", b"Action=SendMessage&MessageBody=" + body.encode())
    assert len(request.message_body.encode()) >= 1_048_576
