// sqs-consumer and sqs-producer: what most Node services are made of.

import assert from "node:assert/strict";
import { CreateQueueCommand, GetQueueAttributesCommand, ReceiveMessageCommand, SQSClient } from "@aws-sdk/client-sqs";
import { Consumer } from "sqs-consumer";
import { Producer } from "sqs-producer";
import { check, eventually, run } from "./checks.mjs";

const sqs = new SQSClient({});
const made = async (QueueName, Attributes) =>
  (await sqs.send(new CreateQueueCommand({ QueueName, Attributes }))).QueueUrl;

async function counts(QueueUrl) {
  const { Attributes } = await sqs.send(new GetQueueAttributesCommand({ QueueUrl, AttributeNames: ["All"] }));
  return ["", "NotVisible", "Delayed"].map((part) => Attributes[`ApproximateNumberOfMessages${part}`]);
}

async function consuming(options, work) {
  const problems = [];
  const consumer = Consumer.create({ sqs, waitTimeSeconds: 2, ...options });
  for (const event of ["error", "timeout_error"]) consumer.on(event, (error) => problems.push(error));
  consumer.start();
  try {
    await work(consumer);
  } finally {
    consumer.stop({ abort: true });
  }
  assert.deepEqual(problems.map((each) => `${each}`), []);
}

check("a producer's messages reach a consumer, which deletes them", async () => {
  const queueUrl = await made("js-consumer");
  const producer = Producer.create({ queueUrl, sqs });
  const sent = await producer.send([
    "one",
    { id: "two", body: "two", messageAttributes: { Kind: { DataType: "String", StringValue: "plain" } } },
  ]);
  assert.equal(sent.length, 2);
  const seen = {};
  const handleMessage = async (message) => {
    seen[message.Body] = message;
    return message;
  };
  await consuming({ queueUrl, handleMessage, messageAttributeNames: ["All"], attributeNames: ["All"] }, async () => {
    await eventually(() => seen.one && seen.two);
    await eventually(async () => (await counts(queueUrl)).every((each) => each === "0"));
  });
  assert.equal(seen.two.MessageAttributes.Kind.StringValue, "plain");
  assert.equal(seen.two.Attributes.ApproximateReceiveCount, "1");
});

check("a producer sends fifty messages in batches of ten and reads the size of the queue", async () => {
  const queueUrl = await made("js-producer");
  const producer = Producer.create({ queueUrl, sqs, batchSize: 10 });
  const sent = await producer.send(Array.from({ length: 50 }, (_, n) => ({ id: `${n}`, body: `${n}` })));
  assert.equal(new Set(sent.map((each) => each.MessageId)).size, 50);
  assert.equal(await producer.queueSize(), 50);
});

check("a producer is told which entries failed", async () => {
  const queueUrl = await made("js-partial");
  const producer = Producer.create({ queueUrl, sqs });
  const messages = [
    { id: "good", body: "x" },
    { id: "bad", body: "\u0002" },
  ];
  await assert.rejects(producer.send(messages), /Failed to send messages: bad/);
});

check("what a handler throws at comes back at once and then goes to the dead letters", async () => {
  const dead = await made("js-consumer-dead");
  const RedrivePolicy = JSON.stringify({
    deadLetterTargetArn: "arn:aws:sqs:us-east-1:000000000000:js-consumer-dead",
    maxReceiveCount: 2,
  });
  const queueUrl = await made("js-consumer-flaky", { RedrivePolicy });
  await Producer.create({ queueUrl, sqs }).send("never");
  let tries = 0;
  const handleMessage = async () => {
    tries += 1;
    throw new Error("no");
  };
  const consumer = Consumer.create({ sqs, queueUrl, handleMessage, terminateVisibilityTimeout: true, waitTimeSeconds: 2 });
  consumer.on("error", () => {});
  consumer.on("processing_error", () => {});
  consumer.start();
  const letter = await eventually(
    async () => (await sqs.send(new ReceiveMessageCommand({ QueueUrl: dead, WaitTimeSeconds: 2 }))).Messages?.[0],
  );
  consumer.stop({ abort: true });
  assert.equal(letter.Body, "never");
  assert.equal(tries, 2);
});

check("a heartbeat keeps a message from coming twice", async () => {
  const queueUrl = await made("js-heartbeat");
  await Producer.create({ queueUrl, sqs }).send("long");
  let begun = 0;
  let ended = 0;
  const handleMessage = async (message) => {
    begun += 1;
    await new Promise((resolve) => setTimeout(resolve, 3500));
    ended += 1;
    return message;
  };
  await consuming({ queueUrl, handleMessage, visibilityTimeout: 2, heartbeatInterval: 1 }, () => eventually(() => ended));
  assert.equal(begun, 1);
});

check("a FIFO queue is consumed in batches and in order", async () => {
  const queueUrl = await made("js-consumer.fifo", { FifoQueue: "true" });
  const producer = Producer.create({ queueUrl, sqs });
  const messages = Array.from({ length: 12 }, (_, n) => ({
    id: `${n}`,
    body: `${n}`,
    groupId: "g",
    deduplicationId: `${n}`,
  }));
  await producer.send(messages);
  const seen = [];
  const handleMessageBatch = async (batch) => {
    seen.push(...batch.map((each) => each.Body));
    return batch;
  };
  await consuming(
    { queueUrl, handleMessageBatch, batchSize: 10, suppressFifoWarning: true },
    () => eventually(() => seen.length >= 12),
  );
  assert.deepEqual(seen, messages.map((each) => each.body));
});

await run();
