// The Amazon SQS Java Messaging Library: JMS over the AWS SDK for Java 2.

import com.amazon.sqs.javamessaging.ProviderConfiguration;
import com.amazon.sqs.javamessaging.SQSConnection;
import com.amazon.sqs.javamessaging.SQSConnectionFactory;
import com.amazon.sqs.javamessaging.SQSMessagingClientConstants;
import jakarta.jms.JMSException;
import jakarta.jms.Message;
import jakarta.jms.Session;
import jakarta.jms.TextMessage;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.ConcurrentSkipListSet;
import software.amazon.awssdk.services.sqs.SqsClient;
import software.amazon.awssdk.services.sqs.model.QueueAttributeName;

final class Jms {
    static final SqsClient sqs = SqsClient.create();
    static final int PATIENCE_MS = 20_000;

    interface Talk {
        void with(Session session) throws Exception;
    }

    // Nothing is fetched ahead: closing would wait for the end of a long poll, 20 seconds.
    static void connected(int mode, Talk talk) throws Exception {
        var provider = new ProviderConfiguration().withNumberOfMessagesToPrefetch(0);
        SQSConnection connection = new SQSConnectionFactory(provider, sqs).createConnection();
        try {
            connection.start();
            talk.with(connection.createSession(false, mode));
        } finally {
            connection.close();
        }
    }

    static void properties() throws Exception {
        sqs.createQueue(it -> it.queueName("jms-round"));
        connected(Session.AUTO_ACKNOWLEDGE, session -> {
            var queue = session.createQueue("jms-round");
            var message = session.createTextMessage("zwölf");
            message.setIntProperty("number", 12);
            message.setStringProperty("colour", "röd");
            session.createProducer(queue).send(message);
            var found = (TextMessage) session.createConsumer(queue).receive(PATIENCE_MS);
            Checks.same(found.getText(), "zwölf");
            Checks.same(found.getIntProperty("number"), 12);
            Checks.same(found.getStringProperty("colour"), "röd");
            Checks.same(found.getIntProperty("JMSXDeliveryCount"), 1);
            Checks.same(found.getJMSMessageID(), message.getJMSMessageID());
        });
        var url = sqs.getQueueUrl(it -> it.queueName("jms-round")).queueUrl();
        Checks.same(sqs.receiveMessage(it -> it.queueUrl(url).visibilityTimeout(0)).messages(), List.of());
    }

    static void listener() throws Exception {
        sqs.createQueue(it -> it.queueName("jms-listener"));
        Set<String> heard = new ConcurrentSkipListSet<>();
        var connection = new SQSConnectionFactory(new ProviderConfiguration(), sqs).createConnection();
        var session = connection.createSession(false, Session.AUTO_ACKNOWLEDGE);
        var consumer = session.createConsumer(session.createQueue("jms-listener"));
        consumer.setMessageListener(message -> heard.add(text(message)));
        connection.start(); // and it goes on listening until the program ends
        var sender = connection.createSession(false, Session.AUTO_ACKNOWLEDGE);
        var producer = sender.createProducer(sender.createQueue("jms-listener"));
        for (var body : List.of("a", "b", "c")) producer.send(sender.createTextMessage(body));
        Checks.eventually(() -> heard.size() == 3 ? heard : null);
        Checks.same(heard, Set.of("a", "b", "c"));
    }

    static void again() throws Exception {
        sqs.createQueue(it -> it.queueName("jms-again").attributes(Map.of(QueueAttributeName.VISIBILITY_TIMEOUT, "1")));
        connected(Session.CLIENT_ACKNOWLEDGE, session -> {
            var queue = session.createQueue("jms-again");
            session.createProducer(queue).send(session.createTextMessage("x"));
            Checks.same(text(session.createConsumer(queue).receive(PATIENCE_MS)), "x");
        });
        connected(Session.CLIENT_ACKNOWLEDGE, session -> {
            var found = session.createConsumer(session.createQueue("jms-again")).receive(PATIENCE_MS);
            Checks.same(found.getJMSRedelivered(), true);
            found.acknowledge();
        });
        var url = sqs.getQueueUrl(it -> it.queueName("jms-again")).queueUrl();
        var counted = QueueAttributeName.APPROXIMATE_NUMBER_OF_MESSAGES_NOT_VISIBLE;
        var counts = sqs.getQueueAttributes(it -> it.queueUrl(url).attributeNames(counted)).attributes();
        Checks.same(counts.get(counted), "0");
    }

    static void fifo() throws Exception {
        var byContent = QueueAttributeName.CONTENT_BASED_DEDUPLICATION;
        var attributes = Map.of(QueueAttributeName.FIFO_QUEUE, "true", byContent, "true");
        sqs.createQueue(it -> it.queueName("jms.fifo").attributes(attributes));
        connected(Session.AUTO_ACKNOWLEDGE, session -> {
            var queue = session.createQueue("jms.fifo");
            var producer = session.createProducer(queue);
            for (var body : List.of("a", "b", "c")) {
                var message = session.createTextMessage(body);
                message.setStringProperty("JMSXGroupID", "g");
                producer.send(message);
            }
            var consumer = session.createConsumer(queue);
            var bodies = new ArrayList<String>();
            for (int n = 0; n < 3; n++) {
                var message = consumer.receive(PATIENCE_MS);
                bodies.add(text(message));
                Checks.same(message.getStringProperty("JMSXGroupID"), "g");
                var number = message.getStringProperty(SQSMessagingClientConstants.JMS_SQS_SEQUENCE_NUMBER);
                Checks.same(number.length() > 0, true);
            }
            Checks.same(bodies, List.of("a", "b", "c"));
        });
    }

    static String text(Message message) {
        try {
            return ((TextMessage) message).getText();
        } catch (JMSException problem) {
            throw new AssertionError(problem);
        }
    }

    public static void main(String[] arguments) {
        Checks.check("a message with properties comes back, and is acknowledged", Jms::properties);
        Checks.check("a listener hears what is sent", Jms::listener);
        Checks.check("what was not acknowledged is delivered again", Jms::again);
        Checks.check("a FIFO queue keeps the order of a group", Jms::fifo);
        Checks.run();
        System.exit(0);
    }
}
