"""Every action on messages with every member of its request and reply: boto3 1.44, signed."""

import hashlib
import threading
import time
from typing import Any

from tests.compat.boto import ARN, attributes, bodies, make, receive, redrive, refusal, until
from tests.compatibility.claims import proves
from tests.process.guarded import Guarded

TRACE = "Root=1-5759e988-bd862e3fe1be46a994272793;Parent=53995c3f42cd8ad8;Sampled=1"
TRACE_MD5 = "5ae4d5d7636402d80f4eb6d213245a88"
SYSTEM = {"AWSTraceHeader": {"DataType": "String", "StringValue": TRACE}}
FLOAT = {"customNumberTypeAttrib": {"DataType": "Number.float", "StringValue": "4563442423554324324264524243.32543234"}}
FLOAT_MD5 = "9fe1b90bbd9965bdf77bac517c7d2495"
FIFO = {"FifoQueue": "true"}


@proves("SendMessage", "SendMessage.*", "SendMessage:*", "md5", "sequence-numbers", "deduplication", "delays")
def test_a_send_with_everything(sqs: Any, name: str, url: str) -> None:
    fifo = make(sqs, name + ".fifo", **FIFO)
    arguments = {"QueueUrl": fifo, "MessageBody": "x", "MessageGroupId": "g", "MessageDeduplicationId": "1"}
    sent = sqs.send_message(**arguments, MessageAttributes=FLOAT, MessageSystemAttributes=SYSTEM)
    assert sent["MD5OfMessageBody"] == hashlib.md5(b"x").hexdigest()
    assert sent["MD5OfMessageAttributes"] == FLOAT_MD5
    assert sent["MD5OfMessageSystemAttributes"] == TRACE_MD5
    assert len(sent["SequenceNumber"]) == 20
    assert sqs.send_message(**arguments)["MessageId"] == sent["MessageId"]
    assert len(receive(sqs, fifo)) == 1
    begun = time.monotonic()
    sqs.send_message(QueueUrl=url, MessageBody="later", DelaySeconds=1)
    assert receive(sqs, url) == []
    assert bodies(receive(sqs, url, WaitTimeSeconds=10)) == ["later"]
    assert time.monotonic() - begun >= 0.9


@proves("SendMessageBatch", "SendMessageBatch.*", "SendMessageBatch:*", "batches")
def test_a_batch_with_everything(sqs: Any, name: str, url: str) -> None:
    fifo = make(sqs, name + ".fifo", **FIFO)
    entry = {"MessageAttributes": FLOAT, "MessageSystemAttributes": SYSTEM, "MessageGroupId": "g"}
    entries = [{"Id": each, "MessageBody": each, "MessageDeduplicationId": each, **entry} for each in ("a", "b", "c")]
    entries[1]["MessageBody"] = "\x02"
    sent = sqs.send_message_batch(QueueUrl=fifo, Entries=entries)
    assert [each["Id"] for each in sent["Successful"]] == ["a", "c"]
    for each in sent["Successful"]:
        assert each["MD5OfMessageBody"] == hashlib.md5(each["Id"].encode()).hexdigest()
        assert (each["MD5OfMessageAttributes"], each["MD5OfMessageSystemAttributes"]) == (FLOAT_MD5, TRACE_MD5)
    (failed,) = sent["Failed"]
    assert (failed["Id"], failed["Code"], failed["SenderFault"]) == ("b", "InvalidMessageContents", True)
    assert failed["Message"]
    received = receive(sqs, fifo, MessageSystemAttributeNames=["SequenceNumber"])
    assert [each["MessageId"] for each in received] == [each["MessageId"] for each in sent["Successful"]]
    numbers = [each["Attributes"]["SequenceNumber"] for each in received]
    assert numbers == [each["SequenceNumber"] for each in sent["Successful"]] == sorted(set(numbers))
    plain = [{"Id": "now", "MessageBody": "now"}, {"Id": "later", "MessageBody": "later", "DelaySeconds": 900}]
    assert "Failed" not in sqs.send_message_batch(QueueUrl=url, Entries=plain)
    assert bodies(receive(sqs, url)) == ["now"]


@proves("ReceiveMessage", "ReceiveMessage.*", "ReceiveMessage:*", "attribute-filters", "receive-attempts")
def test_a_receive_with_everything(sqs: Any, name: str) -> None:
    url = make(sqs, name + ".fifo", **FIFO)
    letters = {each: {"DataType": "String", "StringValue": each} for each in ("one.a", "one.b", "two")}
    for number in ("1", "2"):
        arguments = {"MessageGroupId": "g", "MessageDeduplicationId": number, "MessageAttributes": letters}
        sqs.send_message(QueueUrl=url, MessageBody=number, **arguments)
    options = {
        "AttributeNames": ["MessageGroupId"],
        "MessageSystemAttributeNames": ["ApproximateReceiveCount"],
        "MessageAttributeNames": ["one.*"],
        "VisibilityTimeout": 43200,
        "WaitTimeSeconds": 1,
        "ReceiveRequestAttemptId": "attempt",
    }
    (message,) = receive(sqs, url, MaxNumberOfMessages=1, **options)
    assert message["Body"] == "1"
    assert message["MD5OfBody"] == hashlib.md5(b"1").hexdigest()
    assert message["Attributes"] == {"MessageGroupId": "g", "ApproximateReceiveCount": "1"}
    assert message["MessageAttributes"] == {key: letters[key] for key in ("one.a", "one.b")}
    assert len(message["MD5OfMessageAttributes"]) == 32
    (again,) = receive(sqs, url, MaxNumberOfMessages=1, **options)
    assert (again["MessageId"], again["ReceiptHandle"]) == (message["MessageId"], message["ReceiptHandle"])
    assert receive(sqs, url) == []


@proves(
    *("SystemAttribute.All", "SystemAttribute.SenderId", "SystemAttribute.SentTimestamp"),
    *("SystemAttribute.ApproximateReceiveCount", "SystemAttribute.ApproximateFirstReceiveTimestamp"),
    *("SystemAttribute.SequenceNumber", "SystemAttribute.MessageDeduplicationId", "SystemAttribute.MessageGroupId"),
    *("SystemAttribute.AWSTraceHeader", "SystemAttribute.DeadLetterQueueSourceArn", "dead-letters"),
)
def test_every_system_attribute_of_a_message(sqs: Any, name: str) -> None:
    dead = make(sqs, name + "-dead.fifo", **FIFO)
    url = make(sqs, name + ".fifo", **FIFO, RedrivePolicy=redrive(name + "-dead.fifo"))
    before = time.time() * 1000
    ids = {"MessageGroupId": "g", "MessageDeduplicationId": "d"}
    sent = sqs.send_message(QueueUrl=url, MessageBody="x", MessageSystemAttributes=SYSTEM, **ids)
    everything = {"MessageSystemAttributeNames": ["All"], "VisibilityTimeout": 0}
    shown = receive(sqs, url, **everything)[0]["Attributes"]
    after = time.time() * 1000
    assert before - 1 <= int(shown.pop("SentTimestamp")) <= int(shown.pop("ApproximateFirstReceiveTimestamp")) <= after
    assert shown.pop("SenderId")
    assert shown == {
        **ids,
        "ApproximateReceiveCount": "1",
        "AWSTraceHeader": TRACE,
        "SequenceNumber": sent["SequenceNumber"],
    }
    assert receive(sqs, url, **everything) == []
    (letter,) = until(lambda: receive(sqs, dead, **everything))
    assert letter["MessageId"] == sent["MessageId"]
    assert letter["Attributes"]["DeadLetterQueueSourceArn"] == f"{ARN}{name}.fifo"
    assert letter["Attributes"]["ApproximateReceiveCount"] == "2"


@proves("DeleteMessage", "DeleteMessage.*", "DeleteMessageBatch", "DeleteMessageBatch.*", "DeleteMessageBatch:*")
@proves("receipt-handles", "Error.ReceiptHandleIsInvalid")
def test_messages_are_deleted(sqs: Any, url: str) -> None:
    for body in ("a", "b", "c"):
        sqs.send_message(QueueUrl=url, MessageBody=body)
    handles = [each["ReceiptHandle"] for each in receive(sqs, url)]
    for _ in range(2):
        sqs.delete_message(QueueUrl=url, ReceiptHandle=handles[0])
    assert refusal(sqs.delete_message, QueueUrl=url, ReceiptHandle="garbage")[1:] == ("ReceiptHandleIsInvalid", 404)
    entries = [{"Id": str(n), "ReceiptHandle": each} for n, each in enumerate([*handles[1:], "garbage"])]
    deleted = sqs.delete_message_batch(QueueUrl=url, Entries=entries)
    assert [each["Id"] for each in deleted["Successful"]] == ["0", "1"]
    (failed,) = deleted["Failed"]
    assert (failed["Id"], failed["Code"], failed["SenderFault"]) == ("2", "ReceiptHandleIsInvalid", True)
    assert failed["Message"] == 'The input receipt handle "garbage" is not a valid receipt handle.'
    assert attributes(sqs, url, "ApproximateNumberOfMessagesNotVisible")["ApproximateNumberOfMessagesNotVisible"] == "0"


@proves("ChangeMessageVisibility", "ChangeMessageVisibility.*", "ChangeMessageVisibilityBatch", "visibility")
@proves("ChangeMessageVisibilityBatch.*", "ChangeMessageVisibilityBatch:*")
def test_visibility_is_changed(sqs: Any, url: str) -> None:
    for body in ("a", "b", "c"):
        sqs.send_message(QueueUrl=url, MessageBody=body)
    handles = {each["Body"]: each["ReceiptHandle"] for each in receive(sqs, url)}
    assert receive(sqs, url) == []
    sqs.change_message_visibility(QueueUrl=url, ReceiptHandle=handles["a"], VisibilityTimeout=0)
    assert bodies(receive(sqs, url)) == ["a"]
    entries = [{"Id": each, "ReceiptHandle": handles[each], "VisibilityTimeout": 0} for each in ("b", "c")]
    entries.append({"Id": "long", "ReceiptHandle": handles["a"], "VisibilityTimeout": 43201})
    changed = sqs.change_message_visibility_batch(QueueUrl=url, Entries=entries)
    assert [each["Id"] for each in changed["Successful"]] == ["b", "c"]
    (failed,) = changed["Failed"]
    assert (failed["Id"], failed["Code"], failed["SenderFault"]) == ("long", "InvalidParameterValue", True)
    assert failed["Message"]
    assert bodies(receive(sqs, url)) == ["b", "c"]


@proves("long-polling")
def test_a_long_poll_ends_with_the_first_message(sqs: Any, server: Guarded, url: str) -> None:
    sqs.set_queue_attributes(QueueUrl=url, Attributes={"ReceiveMessageWaitTimeSeconds": "20"})
    assert receive(sqs, url, WaitTimeSeconds=0) == []
    with server.client(keys=server.root) as other:
        timer = threading.Timer(0.3, other.send_message, kwargs={"QueueUrl": url, "MessageBody": "now"})
        timer.start()
        assert bodies(receive(sqs, url)) == ["now"]
        timer.join()


@proves("fifo-group-lock", "fifo-packing", "content-deduplication")
def test_groups_are_handed_out_in_order_and_one_at_a_time(sqs: Any, name: str) -> None:
    url = make(sqs, name + ".fifo", **FIFO, ContentBasedDeduplication="true")
    for body in ("1a", "2a", "1b", "2b", "1c", "1a"):
        sqs.send_message(QueueUrl=url, MessageBody=body, MessageGroupId=body[0])
    first = receive(sqs, url, MaxNumberOfMessages=4)
    assert bodies(first) == ["1a", "1b", "1c", "2a"]
    assert receive(sqs, url) == []
    sqs.delete_message(QueueUrl=url, ReceiptHandle=first[3]["ReceiptHandle"])
    assert bodies(receive(sqs, url)) == ["2b"]
    sqs.change_message_visibility(QueueUrl=url, ReceiptHandle=first[1]["ReceiptHandle"], VisibilityTimeout=0)
    assert receive(sqs, url) == []
    sqs.change_message_visibility(QueueUrl=url, ReceiptHandle=first[0]["ReceiptHandle"], VisibilityTimeout=0)
    assert bodies(receive(sqs, url)) == ["1a", "1b"]


@proves("sizes", "characters", "message-attributes", "group-and-deduplication-ids", "Error.MissingParameter")
@proves("Error.InvalidMessageContents", "Error.InvalidParameterValue", "Error.UnsupportedOperation")
def test_what_a_message_must_not_be(sqs: Any, url: str) -> None:
    sqs.set_queue_attributes(QueueUrl=url, Attributes={"MaximumMessageSize": "1024"})
    sqs.send_message(QueueUrl=url, MessageBody="ä" * 512)

    def code(**arguments: Any) -> str:
        return refusal(sqs.send_message, **{"QueueUrl": url, "MessageBody": "x", **arguments})[0]

    assert code(MessageBody="ä" * 512 + "x") == "InvalidParameterValue"
    assert code(MessageBody="") == "MissingParameter"
    assert code(MessageBody="\x02") == "InvalidMessageContents"
    assert code(MessageDeduplicationId="d") == "InvalidParameterValue"
    assert code(MessageGroupId="with space") == "InvalidParameterValue"
    text = {"DataType": "String", "StringValue": "x"}
    for attributes_ in ({str(n): text for n in range(11)}, {"AWS.x": text}, {"x": {**text, "StringValue": ""}}):
        assert code(MessageAttributes=attributes_) == "InvalidParameterValue"
    listed = {"x": {"DataType": "String", "StringValue": "x", "StringListValues": ["x"]}}
    assert code(MessageAttributes=listed) == "AWS.SimpleQueueService.UnsupportedOperation"
