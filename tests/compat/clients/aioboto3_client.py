"""aioboto3: many requests at once over few connections, and the resource interface."""

import asyncio
import hashlib
import json
import os
from collections.abc import Awaitable
from typing import Any

import aioboto3
from botocore.exceptions import ClientError

from tests.compat.clients import checks

ATTRIBUTES = {
    "Colour": {"DataType": "String", "StringValue": "röd"},
    "Size": {"DataType": "Number", "StringValue": "17.5"},
    "Seal": {"DataType": "Binary.png", "BinaryValue": bytes(range(256))},
}


async def a_message_comes_back_as_it_was_sent(sqs: Any, _: Any) -> None:
    url = (await sqs.create_queue(QueueName="aio-round"))["QueueUrl"]
    body = 'zwölf "Boxkämpfer" \\ \r\n\t\U0001f41f'
    sent = await sqs.send_message(QueueUrl=url, MessageBody=body, MessageAttributes=ATTRIBUTES)
    assert sent["MD5OfMessageBody"] == hashlib.md5(body.encode()).hexdigest(), sent
    received = await sqs.receive_message(
        QueueUrl=url, MessageSystemAttributeNames=["All"], MessageAttributeNames=["All"]
    )
    (message,) = received["Messages"]
    assert message["Body"] == body, message
    assert message["MessageAttributes"] == ATTRIBUTES, message
    assert message["MD5OfMessageAttributes"] == sent["MD5OfMessageAttributes"], message
    assert message["Attributes"]["ApproximateReceiveCount"] == "1", message
    await sqs.delete_message(QueueUrl=url, ReceiptHandle=message["ReceiptHandle"])
    assert "Messages" not in await sqs.receive_message(QueueUrl=url)


async def two_hundred_sends_at_once_arrive_once_each(sqs: Any, _: Any) -> None:
    url = (await sqs.create_queue(QueueName="aio-many"))["QueueUrl"]
    sent = await asyncio.gather(*(sqs.send_message(QueueUrl=url, MessageBody=str(n)) for n in range(200)))
    assert len({each["MessageId"] for each in sent}) == 200
    bodies: list[str] = []
    while len(bodies) < 200:
        found = await asyncio.gather(
            *(sqs.receive_message(QueueUrl=url, MaxNumberOfMessages=10, WaitTimeSeconds=1) for _ in range(8))
        )
        messages = [each for reply in found for each in reply.get("Messages", [])]
        assert messages, f"only {len(bodies)} of 200 came"
        bodies += [each["Body"] for each in messages]
        await asyncio.gather(
            *(sqs.delete_message(QueueUrl=url, ReceiptHandle=each["ReceiptHandle"]) for each in messages)
        )
    assert sorted(bodies, key=int) == [str(n) for n in range(200)]


async def a_long_poll_is_woken_by_a_send(sqs: Any, _: Any) -> None:
    url = (await sqs.create_queue(QueueName="aio-poll"))["QueueUrl"]
    poll = asyncio.create_task(sqs.receive_message(QueueUrl=url, WaitTimeSeconds=20))
    await asyncio.sleep(0.5)
    assert not poll.done()
    await sqs.send_message(QueueUrl=url, MessageBody="now")
    (message,) = (await asyncio.wait_for(poll, 10))["Messages"]
    assert message["Body"] == "now", message


async def a_batch_fails_by_entry(sqs: Any, _: Any) -> None:
    url = (await sqs.create_queue(QueueName="aio-batch"))["QueueUrl"]
    entries = [{"Id": "good", "MessageBody": "x"}, {"Id": "bad", "MessageBody": "\x01"}]
    sent = await sqs.send_message_batch(QueueUrl=url, Entries=entries)
    assert [each["Id"] for each in sent["Successful"]] == ["good"], sent
    assert [(each["Id"], each["Code"]) for each in sent["Failed"]] == [("bad", "InvalidMessageContents")], sent


async def a_group_is_handed_out_in_order(sqs: Any, _: Any) -> None:
    attributes = {"FifoQueue": "true", "ContentBasedDeduplication": "true"}
    url = (await sqs.create_queue(QueueName="aio.fifo", Attributes=attributes))["QueueUrl"]
    for number in range(5):
        await sqs.send_message(QueueUrl=url, MessageBody=str(number), MessageGroupId="g")
    messages = (await sqs.receive_message(QueueUrl=url, MaxNumberOfMessages=10))["Messages"]
    assert [each["Body"] for each in messages] == list("01234"), messages
    assert "Messages" not in await sqs.receive_message(QueueUrl=url, MaxNumberOfMessages=10)


async def error_of(request: Awaitable[Any]) -> dict[str, Any]:
    try:
        await request
    except ClientError as problem:
        return {"Class": type(problem).__name__, **problem.response["Error"]}
    raise AssertionError("it was not refused")


async def a_missing_queue_has_its_exception(sqs: Any, _: Any) -> None:
    error = await error_of(sqs.get_queue_url(QueueName="aio-nowhere"))
    assert error["Class"] == error["QueryErrorCode"] == "QueueDoesNotExist", error
    assert error["Code"] == "AWS.SimpleQueueService.NonExistentQueue", error


async def the_resource_interface_works(_: Any, resource: Any) -> None:
    dead = await resource.create_queue(QueueName="aio-dead")
    arn = (await dead.attributes)["QueueArn"]
    policy = json.dumps({"deadLetterTargetArn": arn, "maxReceiveCount": 1})
    queue = await resource.create_queue(QueueName="aio-jobs", Attributes={"RedrivePolicy": policy})
    await queue.send_messages(Entries=[{"Id": str(n), "MessageBody": str(n)} for n in range(3)])
    first = await queue.receive_messages(MaxNumberOfMessages=10, VisibilityTimeout=0)
    assert len(first) == 3, first
    assert await queue.receive_messages(MaxNumberOfMessages=10) == []
    letters = await dead.receive_messages(
        MaxNumberOfMessages=10, WaitTimeSeconds=5, MessageSystemAttributeNames=["DeadLetterQueueSourceArn"]
    )
    assert letters, "no dead letter came"
    for letter in letters:
        assert (await letter.attributes)["DeadLetterQueueSourceArn"].endswith(":aio-jobs")
        await letter.delete()


async def a_wrong_secret_is_refused(*_: Any) -> None:
    key = os.environ["AWS_ACCESS_KEY_ID"]
    session = aioboto3.Session(aws_access_key_id=key, aws_secret_access_key="wrong")
    async with session.client("sqs") as other:
        error = await error_of(other.list_queues())
    assert error["Code"] == "SignatureDoesNotMatch", error


CHECKS = (
    a_message_comes_back_as_it_was_sent,
    two_hundred_sends_at_once_arrive_once_each,
    a_long_poll_is_woken_by_a_send,
    a_batch_fails_by_entry,
    a_group_is_handed_out_in_order,
    a_missing_queue_has_its_exception,
    the_resource_interface_works,
    a_wrong_secret_is_refused,
)


async def main() -> None:
    assert aioboto3.__version__ == "15.5.0", aioboto3.__version__
    session = aioboto3.Session()
    async with session.client("sqs") as sqs, session.resource("sqs") as resource:
        await checks.run_async(CHECKS, sqs, resource)


if __name__ == "__main__":
    asyncio.run(main())
