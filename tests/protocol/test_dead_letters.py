"""RedrivePolicy and RedriveAllowPolicy: what is accepted and what is said when it is not. And consumers' reasons."""

import json

import msgspec
import pytest

from holdfast.core.errors import HoldfastError, InvalidAttributeValue, InvalidParameterValue
from holdfast.core.types import Kind, LaneConfig
from holdfast.protocol import attributes, content, dead_letters
from holdfast.protocol.dead_letters import failure_reason
from holdfast.protocol.extras import NO_EXTRAS, Extras

ARN = "arn:aws:sqs:us-east-1:000000000000:dead"
SOURCE = "arn:aws:sqs:us-east-1:000000000000:jobs"
NOT_A_MAP = "Invalid value for the parameter RedrivePolicy. Reason: Redrive policy is not a valid JSON map."
BAD_FORMAT = (
    "Invalid value for the parameter RedriveAllowPolicy. "
    "Reason: Amazon SQS can't create the redrive allow policy, as it’s in an unsupported format."
)


def redrive(**members: object) -> str:
    return json.dumps({"deadLetterTargetArn": ARN, "maxReceiveCount": 5} | members)


def refusal(name: str, value: str) -> HoldfastError:
    with pytest.raises(HoldfastError) as caught:
        attributes.check({name: value}, is_fifo=False)
    return caught.value


@pytest.mark.parametrize("count", [5, "5"])
def test_a_redrive_policy_is_read(count: object) -> None:
    policy = dead_letters.redrive_policy(redrive(maxReceiveCount=count))
    assert (policy.target_arn, policy.receives_max) == (ARN, 5)


@pytest.mark.parametrize("text", ["{", "[]", "5", "null", "[" * 100_000])
def test_a_redrive_policy_is_a_json_map(text: str) -> None:
    error = refusal("RedrivePolicy", text)
    assert (type(error), error.message) == (InvalidAttributeValue, NOT_A_MAP)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("{}", "Redrive policy does not contain mandatory attribute: maxReceiveCount."),
        (
            '{"maxReceiveCount": 3}',
            "Redrive policy does not contain mandatory attribute: deadLetterTargetArn.",
        ),
        (redrive(maxReceiveCount=None), "Redrive policy does not contain mandatory attribute: maxReceiveCount."),
        *(
            (
                redrive(maxReceiveCount=count),
                f"Invalid value for maxReceiveCount: {count}, valid values are from 1 to 1000 both inclusive.",
            )
            for count in (0, 1001, -1, "many", "1001", 1.5, True)
        ),
        (redrive(deadLetterTargetArn="dead"), "Dead-letter target ARN should be fully qualified ARN."),
        (redrive(colour="red"), "Only following attributes are supported: [maxReceiveCount, deadLetterTargetArn]."),
    ],
)
def test_a_redrive_policy_that_makes_no_sense_is_refused(text: str, reason: str) -> None:
    error = refusal("RedrivePolicy", text)
    assert type(error) is InvalidParameterValue
    assert error.message == f"Value {text} for parameter RedrivePolicy is invalid. Reason: {reason}"


@pytest.mark.parametrize(
    "text", ["{", "[]", "{}", '{"redrivePermission":"some"}', '{"redrivePermission":["allowAll"]}']
)
def test_an_allow_policy_in_no_known_format_is_refused(text: str) -> None:
    error = refusal("RedriveAllowPolicy", text)
    assert (type(error), error.message) == (InvalidAttributeValue, BAD_FORMAT)


def allow(permission: str, sources: object = None) -> str:
    policy = {"redrivePermission": permission}
    return json.dumps(policy if sources is None else policy | {"sourceQueueArns": sources})


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (
            allow("allowAll", [SOURCE]),
            "To specify one or more source queue ARNs, you must set redrivePermission to byQueue.",
        ),
        (
            allow("byQueue"),
            "When you specify the byQueue permission type, you must also specify one or more sourceQueueArns values.",
        ),
        (
            allow("byQueue", []),
            "When you specify the byQueue permission type, you must also specify one or more sourceQueueArns values.",
        ),
        (allow("byQueue", [SOURCE] * 11), "The maximum number of source queue ARNs you can specify is 10."),
    ],
)
def test_an_allow_policy_that_contradicts_itself_is_refused(text: str, reason: str) -> None:
    error = refusal("RedriveAllowPolicy", text)
    assert type(error) is InvalidParameterValue
    assert error.message == (
        f"Value {text} for parameter RedriveAllowPolicy is invalid. "
        f"Reason: Amazon SQS can't create the redrive allow policy. {reason}"
    )


@pytest.mark.parametrize(
    ("policy", "is_allowed"),
    [
        ("", True),
        (allow("allowAll"), True),
        (allow("denyAll"), False),
        (allow("byQueue", [SOURCE]), True),
        (allow("byQueue", [ARN]), False),
        (allow("byQueue", [f"{SOURCE}{number}" for number in range(9)] + [SOURCE]), True),
    ],
)
def test_whose_dead_letters_a_queue_takes(policy: str, is_allowed: bool) -> None:
    assert dead_letters.is_allowed(policy, SOURCE) is is_allowed


@pytest.mark.parametrize(
    ("text", "target", "reason"),
    [
        (redrive(), None, "Dead letter target does not exist."),
        (redrive(), LaneConfig(kind=Kind.FIFO), "Dead-letter queue must be same type of queue as the source."),
        (
            redrive(deadLetterTargetArn="arn:aws:sqs:us-east-1:123456789012:dead"),
            LaneConfig(),
            "Dead-letter target owner should be same as the source.",
        ),
    ],
)
def test_a_dead_letter_queue_exists_and_fits(text: str, target: LaneConfig | None, reason: str) -> None:
    with pytest.raises(InvalidParameterValue) as caught:
        dead_letters.check_target(text, source_arn=SOURCE, is_fifo=False, target=target, allow="")
    assert caught.value.message.endswith("Reason: " + reason)


def test_a_dead_letter_queue_must_allow_its_source() -> None:
    dead_letters.check_target(redrive(), source_arn=SOURCE, is_fifo=False, target=LaneConfig(), allow="")
    with pytest.raises(InvalidParameterValue, match="does not permit this source queue"):
        dead_letters.check_target(
            redrive(), source_arn=SOURCE, is_fifo=False, target=LaneConfig(), allow=allow("denyAll")
        )


def test_an_empty_text_takes_a_policy_away() -> None:
    for name in ("RedrivePolicy", "RedriveAllowPolicy", "Policy"):
        assert attributes.merge({name: "{}"}, attributes.check({name: ""}, is_fifo=False)) == {}


def test_a_consumers_reason_is_one_line_of_bounded_length() -> None:
    assert failure_reason(b"timeout after 30 s, 100% sure + certain") == "timeout after 30 s, 100% sure + certain"
    assert failure_reason("naïve".encode()) == failure_reason(b"na%C3%AFve") == "naïve"
    assert failure_reason(b"first%0A second\tthird%00") == "first second third?"
    assert failure_reason(b"%FF") == "\ufffd"
    assert failure_reason(b"x" * 5000) == "x" * 1024
    assert failure_reason(b" ") == ""


def test_content_keeps_everything_when_a_reason_is_added() -> None:
    extras = Extras("group", "id", "trace", "md5", b"{}")
    for given in (NO_EXTRAS, extras):
        stored = content.pack(b"body", bytes(16), sender=b"ann", extras=given)
        held = content.unpack(content.with_reason(content.with_reason(stored, "first"), "second"))
        assert held == msgspec.structs.replace(
            content.unpack(stored), extras=msgspec.structs.replace(given, reason="second")
        )
    old = msgspec.msgpack.encode(["group", "id", "trace", "md5", b"{}"])
    assert content.unpack(content.pack(b"b", bytes(16), sender=b"") + old).extras == extras


def test_the_body_is_shown_as_it_was_sent() -> None:
    for body in ("plain", 'say "no"\n', "\\"):
        stored = content.pack(msgspec.json.encode(body)[1:-1], bytes(16), sender=b"")
        assert content.text(content.unpack(stored)) == body.encode()
