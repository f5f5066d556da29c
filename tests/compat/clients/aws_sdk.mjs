// @aws-sdk/client-sqs, with the environment variables that `holdfast env` prints. It checks MD5s by itself.

import assert from "node:assert/strict";
import { createHash } from "node:crypto";
import {
  ChangeMessageVisibilityCommand,
  CreateQueueCommand,
  DeleteMessageBatchCommand,
  DeleteMessageCommand,
  GetQueueAttributesCommand,
  GetQueueUrlCommand,
  ListDeadLetterSourceQueuesCommand,
  ListQueuesCommand,
  ListQueueTagsCommand,
  PurgeQueueCommand,
  PurgeQueueInProgress,
  QueueDoesNotExist,
  ReceiptHandleIsInvalid,
  ReceiveMessageCommand,
  SendMessageBatchCommand,
  SendMessageCommand,
  SQSClient,
  StartMessageMoveTaskCommand,
  TagQueueCommand,
} from "@aws-sdk/client-sqs";
import { check, eventually, run, sleep } from "./checks.mjs";

const sqs = new SQSClient({ maxAttempts: 1 });
const ask = (Command, input) => sqs.send(new Command(input));
const made = async (QueueName, Attributes) => (await ask(CreateQueueCommand, { QueueName, Attributes })).QueueUrl;
const receive = async (QueueUrl, more = {}) =>
  (await ask(ReceiveMessageCommand, { QueueUrl, MaxNumberOfMessages: 10, ...more })).Messages;
const arnOf = async (QueueUrl) =>
  (await ask(GetQueueAttributesCommand, { QueueUrl, AttributeNames: ["QueueArn"] })).Attributes.QueueArn;

check("a queue is created, found and listed", async () => {
  const url = await made("js-life", { VisibilityTimeout: "7" });
  assert.equal((await ask(GetQueueUrlCommand, { QueueName: "js-life" })).QueueUrl, url);
  assert.deepEqual((await ask(ListQueuesCommand, { QueueNamePrefix: "js-life" })).QueueUrls, [url]);
  const { Attributes } = await ask(GetQueueAttributesCommand, { QueueUrl: url, AttributeNames: ["All"] });
  assert.equal(Attributes.VisibilityTimeout, "7");
  await ask(TagQueueCommand, { QueueUrl: url, Tags: { team: "blue" } });
  assert.deepEqual((await ask(ListQueueTagsCommand, { QueueUrl: url })).Tags, { team: "blue" });
});

check("a message comes back as it was sent", async () => {
  const QueueUrl = await made("js-round");
  const MessageBody = 'zwölf "Boxkämpfer" \\ \r\n\t\u2028\u{1f41f}';
  const MessageAttributes = {
    Colour: { DataType: "String", StringValue: "röd" },
    Size: { DataType: "Number.float", StringValue: "17.5" },
    Seal: { DataType: "Binary", BinaryValue: Uint8Array.from({ length: 256 }, (_, n) => n) },
  };
  const AWSTraceHeader = { DataType: "String", StringValue: "Root=1-5759e988-bd862e3fe1be46a994272793" };
  const sent = await ask(SendMessageCommand, {
    QueueUrl,
    MessageBody,
    MessageAttributes,
    MessageSystemAttributes: { AWSTraceHeader },
  });
  assert.equal(sent.MD5OfMessageBody, createHash("md5").update(MessageBody).digest("hex"));
  assert.match(sent.MD5OfMessageSystemAttributes, /^[0-9a-f]{32}$/);
  const [message] = await receive(QueueUrl, {
    MessageAttributeNames: ["All"],
    MessageSystemAttributeNames: ["All"],
  });
  assert.equal(message.Body, MessageBody);
  assert.equal(message.MessageId, sent.MessageId);
  assert.equal(message.MD5OfMessageAttributes, sent.MD5OfMessageAttributes);
  assert.deepEqual(message.MessageAttributes, MessageAttributes);
  assert.equal(message.Attributes.AWSTraceHeader, AWSTraceHeader.StringValue);
  assert.equal(message.Attributes.ApproximateReceiveCount, "1");
  await ask(DeleteMessageCommand, { QueueUrl, ReceiptHandle: message.ReceiptHandle });
  assert.equal(await receive(QueueUrl), undefined);
});

check("a batch succeeds and fails by entry", async () => {
  const QueueUrl = await made("js-batch");
  const Entries = Array.from({ length: 9 }, (_, n) => ({ Id: `${n}`, MessageBody: `body ${n}` }));
  const sent = await ask(SendMessageBatchCommand, {
    QueueUrl,
    Entries: [...Entries, { Id: "bad", MessageBody: "\u0002" }],
  });
  assert.deepEqual(sent.Successful.map((each) => each.Id), Entries.map((each) => each.Id));
  assert.deepEqual(
    sent.Failed.map(({ Id, Code, SenderFault }) => ({ Id, Code, SenderFault })),
    [{ Id: "bad", Code: "InvalidMessageContents", SenderFault: true }],
  );
  const messages = await receive(QueueUrl);
  assert.equal(messages.length, 9);
  const handles = messages.map(({ ReceiptHandle }, n) => ({ Id: `${n}`, ReceiptHandle }));
  const deleted = await ask(DeleteMessageBatchCommand, { QueueUrl, Entries: handles });
  assert.equal(deleted.Successful.length, 9);
  assert.equal(deleted.Failed, undefined);
});

check("a long poll is woken by a send", async () => {
  const QueueUrl = await made("js-poll");
  const poll = receive(QueueUrl, { WaitTimeSeconds: 20 });
  await sleep(500);
  await ask(SendMessageCommand, { QueueUrl, MessageBody: "now" });
  assert.equal((await poll)[0].Body, "now");
});

check("visibility changes are obeyed", async () => {
  const QueueUrl = await made("js-visibility");
  await ask(SendMessageCommand, { QueueUrl, MessageBody: "x" });
  const [first] = await receive(QueueUrl, { VisibilityTimeout: 43200 });
  assert.equal(await receive(QueueUrl), undefined);
  await ask(ChangeMessageVisibilityCommand, { QueueUrl, ReceiptHandle: first.ReceiptHandle, VisibilityTimeout: 0 });
  const [again] = await receive(QueueUrl, { AttributeNames: ["ApproximateReceiveCount"] });
  assert.equal(again.Attributes.ApproximateReceiveCount, "2");
});

check("a FIFO queue keeps the order of a group and takes a send once", async () => {
  const QueueUrl = await made("js.fifo", { FifoQueue: "true", ContentBasedDeduplication: "true" });
  const send = (MessageBody) => ask(SendMessageCommand, { QueueUrl, MessageBody, MessageGroupId: "g" });
  const numbers = [];
  for (const body of ["a", "b", "c"]) numbers.push(BigInt((await send(body)).SequenceNumber));
  assert.ok(numbers[0] < numbers[1] && numbers[1] < numbers[2]);
  await send("a");
  assert.deepEqual((await receive(QueueUrl)).map((each) => each.Body), ["a", "b", "c"]);
});

check("a dead letter goes to its queue and back", async () => {
  const dead = await made("js-dead");
  const deadLetterTargetArn = await arnOf(dead);
  const RedrivePolicy = JSON.stringify({ deadLetterTargetArn, maxReceiveCount: 1 });
  const QueueUrl = await made("js-source", { RedrivePolicy, VisibilityTimeout: "0" });
  assert.deepEqual((await ask(ListDeadLetterSourceQueuesCommand, { QueueUrl: dead })).queueUrls, [QueueUrl]);
  await ask(SendMessageCommand, { QueueUrl, MessageBody: "x" });
  assert.equal((await receive(QueueUrl)).length, 1);
  assert.equal(await receive(QueueUrl), undefined);
  const [letter] = await receive(dead, { WaitTimeSeconds: 5, VisibilityTimeout: 0, AttributeNames: ["All"] });
  assert.equal(letter.Attributes.DeadLetterQueueSourceArn, await arnOf(QueueUrl));
  await ask(StartMessageMoveTaskCommand, { SourceArn: deadLetterTargetArn });
  assert.equal((await eventually(() => receive(QueueUrl)))[0].Body, "x");
});

check("refusals are the SDK's own exceptions", async () => {
  const QueueUrl = await made("js-errors");
  const missing = QueueUrl.replace("js-errors", "js-nowhere");
  await assert.rejects(receive(missing), (error) => {
    assert.ok(error instanceof QueueDoesNotExist);
    assert.equal(error.name, "QueueDoesNotExist");
    assert.equal(error.$fault, "client");
    assert.equal(error.$metadata.httpStatusCode, 400);
    assert.match(error.$metadata.requestId, /^[0-9a-f-]{36}$/);
    assert.equal(error.message, "The specified queue does not exist.");
    return true;
  });
  const wrong = { QueueUrl, ReceiptHandle: "garbage" };
  await assert.rejects(ask(DeleteMessageCommand, wrong), (error) => error instanceof ReceiptHandleIsInvalid);
  await ask(PurgeQueueCommand, { QueueUrl });
  await assert.rejects(ask(PurgeQueueCommand, { QueueUrl }), (error) => error instanceof PurgeQueueInProgress);
});

check("without an endpoint the SDK goes to the host of the queue's URL", async () => {
  const QueueUrl = await made("js-host");
  const { AWS_ENDPOINT_URL_SQS, ...others } = process.env;
  process.env = others;
  const other = new SQSClient({ maxAttempts: 1 });
  process.env.AWS_ENDPOINT_URL_SQS = AWS_ENDPOINT_URL_SQS;
  const { MessageId } = await other.send(new SendMessageCommand({ QueueUrl, MessageBody: "x" }));
  assert.ok(MessageId);
});

check("a wrong secret is refused", async () => {
  const credentials = { accessKeyId: process.env.AWS_ACCESS_KEY_ID, secretAccessKey: "wrong" };
  const other = new SQSClient({ maxAttempts: 1, credentials });
  await assert.rejects(other.send(new ListQueuesCommand({})), (error) => error.$metadata.httpStatusCode === 403);
});

await run();
