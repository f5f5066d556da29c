// The AWS SDK for Java 2, with the environment variables that `holdfast env` prints. It checks the MD5s of bodies and
// attributes by itself, and throws.

import java.util.Comparator;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.CompletableFuture;
import java.util.stream.Collectors;
import java.util.stream.IntStream;
import software.amazon.awssdk.auth.credentials.AwsBasicCredentials;
import software.amazon.awssdk.auth.credentials.StaticCredentialsProvider;
import software.amazon.awssdk.core.SdkBytes;
import software.amazon.awssdk.services.sqs.SqsAsyncClient;
import software.amazon.awssdk.services.sqs.SqsClient;
import software.amazon.awssdk.services.sqs.model.*;

final class AwsSdk {
    static final SqsClient sqs = SqsClient.create();

    static String made(String name, Map<QueueAttributeName, String> attributes) {
        return sqs.createQueue(it -> it.queueName(name).attributes(attributes)).queueUrl();
    }

    static String arnOf(String url) {
        var wanted = QueueAttributeName.QUEUE_ARN;
        return sqs.getQueueAttributes(it -> it.queueUrl(url).attributeNames(wanted)).attributes().get(wanted);
    }

    static SendMessageResponse send(String url, String body) {
        return sqs.sendMessage(it -> it.queueUrl(url).messageBody(body));
    }

    static List<Message> receive(String url) {
        return receive(url, null, 0);
    }

    static List<Message> receive(String url, Integer timeout, int wait) {
        return sqs.receiveMessage(
                        it -> it.queueUrl(url)
                                .maxNumberOfMessages(10)
                                .visibilityTimeout(timeout)
                                .waitTimeSeconds(wait)
                                .messageSystemAttributeNames(MessageSystemAttributeName.ALL)
                                .messageAttributeNames("All"))
                .messages();
    }

    static void queues() {
        var url = made("java-life", Map.of(QueueAttributeName.VISIBILITY_TIMEOUT, "7"));
        Checks.same(sqs.getQueueUrl(it -> it.queueName("java-life")).queueUrl(), url);
        var pages = sqs.listQueuesPaginator(it -> it.queueNamePrefix("java-life").maxResults(1));
        Checks.same(pages.queueUrls().stream().toList(), List.of(url));
        var all = QueueAttributeName.ALL;
        var attributes = sqs.getQueueAttributes(it -> it.queueUrl(url).attributeNames(all)).attributes();
        Checks.same(attributes.get(QueueAttributeName.VISIBILITY_TIMEOUT), "7");
        sqs.tagQueue(it -> it.queueUrl(url).tags(Map.of("team", "blue")));
        Checks.same(sqs.listQueueTags(it -> it.queueUrl(url)).tags(), Map.of("team", "blue"));
    }

    static void roundTrip() {
        var url = made("java-round", Map.of());
        var body = "zwölf \"Boxkämpfer\" \\ \r\n\t\u2028\ud83d\udc1f";
        var seal = new byte[256];
        IntStream.range(0, 256).forEach(n -> seal[n] = (byte) n);
        var colour = MessageAttributeValue.builder().dataType("String").stringValue("röd").build();
        var size = MessageAttributeValue.builder().dataType("Number.float").stringValue("17.5").build();
        var sealed = SdkBytes.fromByteArray(seal);
        var bytes = MessageAttributeValue.builder().dataType("Binary").binaryValue(sealed).build();
        var attributes = Map.of("Colour", colour, "Size", size, "Seal", bytes);
        var trace = "Root=1-5759e988-bd862e3fe1be46a994272793";
        var system = MessageSystemAttributeValue.builder().dataType("String").stringValue(trace).build();
        var sent = sqs.sendMessage(it -> it.queueUrl(url)
                .messageBody(body)
                .messageAttributes(attributes)
                .messageSystemAttributes(Map.of(MessageSystemAttributeNameForSends.AWS_TRACE_HEADER, system)));
        var message = receive(url).get(0);
        Checks.same(message.body(), body);
        Checks.same(message.messageId(), sent.messageId());
        Checks.same(message.messageAttributes(), attributes);
        Checks.same(message.md5OfMessageAttributes(), sent.md5OfMessageAttributes());
        Checks.same(message.attributes().get(MessageSystemAttributeName.AWS_TRACE_HEADER), trace);
        Checks.same(message.attributes().get(MessageSystemAttributeName.APPROXIMATE_RECEIVE_COUNT), "1");
        sqs.deleteMessage(it -> it.queueUrl(url).receiptHandle(message.receiptHandle()));
        Checks.same(receive(url), List.of());
    }

    static void batch() {
        var url = made("java-batch", Map.of());
        var entries = IntStream.range(0, 10)
                .mapToObj(n -> entry("n" + n, n == 9 ? "\u0002" : "body " + n))
                .toList();
        var sent = sqs.sendMessageBatch(it -> it.queueUrl(url).entries(entries));
        var good = sent.successful().stream().map(SendMessageBatchResultEntry::id).toList();
        Checks.same(good, IntStream.range(0, 9).mapToObj(n -> "n" + n).toList());
        Checks.same(sent.failed().size(), 1);
        Checks.same(sent.failed().get(0).code(), "InvalidMessageContents");
        Checks.same(sent.failed().get(0).senderFault(), true);
        var handles = receive(url).stream().map(AwsSdk::deletion).toList();
        Checks.same(handles.size(), 9);
        Checks.same(sqs.deleteMessageBatch(it -> it.queueUrl(url).entries(handles)).successful().size(), 9);
    }

    static SendMessageBatchRequestEntry entry(String id, String body) {
        return SendMessageBatchRequestEntry.builder().id(id).messageBody(body).build();
    }

    static DeleteMessageBatchRequestEntry deletion(Message message) {
        var entry = DeleteMessageBatchRequestEntry.builder();
        return entry.id(message.messageId()).receiptHandle(message.receiptHandle()).build();
    }

    static void longPoll() throws Exception {
        var url = made("java-poll", Map.of());
        var poll = CompletableFuture.supplyAsync(() -> receive(url, null, 20));
        Thread.sleep(500);
        send(url, "now");
        Checks.same(poll.get().get(0).body(), "now");
    }

    static void visibility() {
        var url = made("java-visibility", Map.of());
        send(url, "x");
        var first = receive(url, 43200, 0).get(0);
        Checks.same(receive(url), List.of());
        sqs.changeMessageVisibility(it -> it.queueUrl(url).receiptHandle(first.receiptHandle()).visibilityTimeout(0));
        Checks.same(receive(url).get(0).attributes().get(MessageSystemAttributeName.APPROXIMATE_RECEIVE_COUNT), "2");
    }

    static void fifo() {
        var byContent = QueueAttributeName.CONTENT_BASED_DEDUPLICATION;
        var url = made("java.fifo", Map.of(QueueAttributeName.FIFO_QUEUE, "true", byContent, "true"));
        var numbers = List.of("a", "b", "c", "a").stream()
                .map(body -> sqs.sendMessage(it -> it.queueUrl(url).messageBody(body).messageGroupId("g")))
                .map(SendMessageResponse::sequenceNumber)
                .toList();
        Checks.same(numbers.subList(0, 3).stream().sorted(Comparator.naturalOrder()).toList(), numbers.subList(0, 3));
        Checks.same(numbers.get(3), numbers.get(0));
        Checks.same(receive(url).stream().map(Message::body).toList(), List.of("a", "b", "c"));
    }

    static void deadLetters() throws Exception {
        var dead = made("java-dead", Map.of());
        var policy = "{\"deadLetterTargetArn\":\"" + arnOf(dead) + "\",\"maxReceiveCount\":\"1\"}";
        var redriven = Map.of(QueueAttributeName.REDRIVE_POLICY, policy, QueueAttributeName.VISIBILITY_TIMEOUT, "0");
        var url = made("java-source", redriven);
        Checks.same(sqs.listDeadLetterSourceQueues(it -> it.queueUrl(dead)).queueUrls(), List.of(url));
        send(url, "x");
        Checks.same(receive(url).size(), 1);
        Checks.same(receive(url), List.of());
        var letter = receive(dead, 0, 5).get(0);
        Checks.same(letter.attributes().get(MessageSystemAttributeName.DEAD_LETTER_QUEUE_SOURCE_ARN), arnOf(url));
        sqs.startMessageMoveTask(it -> it.sourceArn(arnOf(dead)));
        Checks.same(Checks.eventually(() -> receive(url).stream().findFirst().orElse(null)).body(), "x");
    }

    static void refusals() throws Exception {
        var url = made("java-errors", Map.of());
        var missing = url.replace("java-errors", "java-nowhere");
        var refusal = Checks.refused(QueueDoesNotExistException.class, () -> receive(missing));
        Checks.same(refusal.statusCode(), 400);
        Checks.same(refusal.awsErrorDetails().errorMessage(), "The specified queue does not exist.");
        Checks.same(refusal.awsErrorDetails().errorCode(), "AWS.SimpleQueueService.NonExistentQueue");
        Checks.Work delete = () -> sqs.deleteMessage(it -> it.queueUrl(url).receiptHandle("garbage"));
        Checks.refused(ReceiptHandleIsInvalidException.class, delete);
        sqs.purgeQueue(it -> it.queueUrl(url));
        Checks.refused(PurgeQueueInProgressException.class, () -> sqs.purgeQueue(it -> it.queueUrl(url)));
    }

    static void batchManager() throws Exception {
        var url = made("java-manager", Map.of());
        try (var async = SqsAsyncClient.create(); var manager = async.batchManager()) {
            var sent = IntStream.range(0, 25)
                    .mapToObj(n -> manager.sendMessage(it -> it.queueUrl(url).messageBody("" + n)))
                    .toList();
            CompletableFuture.allOf(sent.toArray(CompletableFuture[]::new)).get();
            var bodies = new java.util.HashSet<String>();
            while (bodies.size() < 25) {
                for (var message : manager.receiveMessage(it -> it.queueUrl(url).waitTimeSeconds(1)).get().messages()) {
                    bodies.add(message.body());
                    manager.deleteMessage(it -> it.queueUrl(url).receiptHandle(message.receiptHandle())).get();
                }
            }
            Set<String> wanted = IntStream.range(0, 25).mapToObj(n -> "" + n).collect(Collectors.toSet());
            Checks.same(bodies, wanted);
        }
        Checks.same(receive(url), List.of());
    }

    static void wrongSecret() throws Exception {
        var wrong = AwsBasicCredentials.create(System.getenv("AWS_ACCESS_KEY_ID"), "wrong");
        try (var other = SqsClient.builder().credentialsProvider(StaticCredentialsProvider.create(wrong)).build()) {
            Checks.same(Checks.refused(SqsException.class, other::listQueues).statusCode(), 403);
        }
    }

    public static void main(String[] arguments) {
        Checks.check("a queue is created, found and listed", AwsSdk::queues);
        Checks.check("a message comes back as it was sent", AwsSdk::roundTrip);
        Checks.check("a batch succeeds and fails by entry", AwsSdk::batch);
        Checks.check("a long poll is woken by a send", AwsSdk::longPoll);
        Checks.check("visibility changes are obeyed", AwsSdk::visibility);
        Checks.check("a FIFO queue keeps the order of a group and takes a send once", AwsSdk::fifo);
        Checks.check("a dead letter goes to its queue and back", AwsSdk::deadLetters);
        Checks.check("refusals are the SDK's own exceptions", AwsSdk::refusals);
        Checks.check("the asynchronous client's batch manager sends, receives and deletes", AwsSdk::batchManager);
        Checks.check("a wrong secret is refused", AwsSdk::wrongSecret);
        Checks.run();
        System.exit(0);
    }
}
