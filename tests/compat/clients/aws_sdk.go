// The AWS SDK for Go 2, with the environment variables that `holdfast env` prints. It checks MD5s by itself.

package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"reflect"
	"strconv"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"
	"github.com/aws/smithy-go"
	smithyhttp "github.com/aws/smithy-go/transport/http"
)

const patience = 25 * time.Second

var (
	ctx    = context.Background()
	client *sqs.Client
)

// check reports like checks.py: one JSON line, and one that fails does not stop the next.
func check(name string, work func()) {
	problem := func() (problem string) {
		defer func() {
			if found := recover(); found != nil {
				problem = fmt.Sprint(found)
			}
		}()
		work()
		return ""
	}()
	line, _ := json.Marshal(map[string]string{"problem": problem})
	fmt.Printf("{\"check\":%q,%s\n", name, line[1:])
}

func must[T any](value T, problem error) T {
	if problem != nil {
		panic(problem)
	}
	return value
}

func same(found, wanted any) {
	if !reflect.DeepEqual(found, wanted) {
		panic(fmt.Sprintf("found %v, wanted %v", found, wanted))
	}
}

func refused[E error](problem error) E {
	var found E
	if !errors.As(problem, &found) {
		panic(fmt.Sprintf("not refused with %T but with %v", found, problem))
	}
	return found
}

func made(name string, attributes map[string]string) *string {
	return must(client.CreateQueue(ctx, &sqs.CreateQueueInput{QueueName: &name, Attributes: attributes})).QueueUrl
}

func arnOf(url *string) string {
	wanted := []types.QueueAttributeName{types.QueueAttributeNameQueueArn}
	asked := &sqs.GetQueueAttributesInput{QueueUrl: url, AttributeNames: wanted}
	return must(client.GetQueueAttributes(ctx, asked)).Attributes["QueueArn"]
}

func send(url *string, body string) *sqs.SendMessageOutput {
	return must(client.SendMessage(ctx, &sqs.SendMessageInput{QueueUrl: url, MessageBody: &body}))
}

func receive(url *string, options ...func(*sqs.ReceiveMessageInput)) []types.Message {
	asked := &sqs.ReceiveMessageInput{
		QueueUrl:                    url,
		MaxNumberOfMessages:         10,
		MessageAttributeNames:       []string{"All"},
		MessageSystemAttributeNames: []types.MessageSystemAttributeName{types.MessageSystemAttributeNameAll},
	}
	for _, option := range options {
		option(asked)
	}
	return must(client.ReceiveMessage(ctx, asked)).Messages
}

func waiting(asked *sqs.ReceiveMessageInput) { asked.WaitTimeSeconds = 20 }

func held(asked *sqs.ReceiveMessageInput) { asked.VisibilityTimeout = 43200 }

func bodies(messages []types.Message) (found []string) {
	for _, each := range messages {
		found = append(found, *each.Body)
	}
	return found
}

func queues() {
	url := made("go-life", map[string]string{"VisibilityTimeout": "7"})
	same(must(client.GetQueueUrl(ctx, &sqs.GetQueueUrlInput{QueueName: aws.String("go-life")})).QueueUrl, url)
	listed := &sqs.ListQueuesInput{QueueNamePrefix: aws.String("go-life"), MaxResults: aws.Int32(1)}
	pages := sqs.NewListQueuesPaginator(client, listed)
	same(must(pages.NextPage(ctx)).QueueUrls, []string{*url})
	same(pages.HasMorePages(), false)
	tags := map[string]string{"team": "blue"}
	must(client.TagQueue(ctx, &sqs.TagQueueInput{QueueUrl: url, Tags: tags}))
	same(must(client.ListQueueTags(ctx, &sqs.ListQueueTagsInput{QueueUrl: url})).Tags, tags)
}

func roundTrip() {
	url := made("go-round", nil)
	body := "zwölf \"Boxkämpfer\" \\ \r\n\t\u2028\U0001f41f"
	seal := make([]byte, 256)
	for n := range seal {
		seal[n] = byte(n)
	}
	attributes := map[string]types.MessageAttributeValue{
		"Colour": {DataType: aws.String("String"), StringValue: aws.String("röd")},
		"Size":   {DataType: aws.String("Number.float"), StringValue: aws.String("17.5")},
		"Seal":   {DataType: aws.String("Binary"), BinaryValue: seal},
	}
	trace := "Root=1-5759e988-bd862e3fe1be46a994272793"
	sent := must(client.SendMessage(ctx, &sqs.SendMessageInput{
		QueueUrl:          url,
		MessageBody:       &body,
		MessageAttributes: attributes,
		MessageSystemAttributes: map[string]types.MessageSystemAttributeValue{
			"AWSTraceHeader": {DataType: aws.String("String"), StringValue: &trace},
		},
	}))
	message := receive(url)[0]
	same(*message.Body, body)
	same(message.MessageId, sent.MessageId)
	same(message.MessageAttributes, attributes)
	same(message.MD5OfMessageAttributes, sent.MD5OfMessageAttributes)
	same(message.Attributes["AWSTraceHeader"], trace)
	same(message.Attributes["ApproximateReceiveCount"], "1")
	must(client.DeleteMessage(ctx, &sqs.DeleteMessageInput{QueueUrl: url, ReceiptHandle: message.ReceiptHandle}))
	same(len(receive(url)), 0)
}

func batch() {
	url := made("go-batch", nil)
	var entries []types.SendMessageBatchRequestEntry
	for n := range 10 {
		text := "body " + strconv.Itoa(n)
		if n == 9 {
			text = "\u0002"
		}
		entry := types.SendMessageBatchRequestEntry{Id: aws.String(strconv.Itoa(n)), MessageBody: &text}
		entries = append(entries, entry)
	}
	sent := must(client.SendMessageBatch(ctx, &sqs.SendMessageBatchInput{QueueUrl: url, Entries: entries}))
	same(len(sent.Successful), 9)
	same(*sent.Failed[0].Code, "InvalidMessageContents")
	same(sent.Failed[0].SenderFault, true)
	var handles []types.DeleteMessageBatchRequestEntry
	for _, each := range receive(url) {
		entry := types.DeleteMessageBatchRequestEntry{Id: each.MessageId, ReceiptHandle: each.ReceiptHandle}
		handles = append(handles, entry)
	}
	same(len(handles), 9)
	deleted := must(client.DeleteMessageBatch(ctx, &sqs.DeleteMessageBatchInput{QueueUrl: url, Entries: handles}))
	same(len(deleted.Successful), 9)
}

func longPoll() {
	url := made("go-poll", nil)
	polled := make(chan []types.Message)
	go func() {
		found, _ := client.ReceiveMessage(ctx, &sqs.ReceiveMessageInput{QueueUrl: url, WaitTimeSeconds: 20})
		polled <- found.Messages
	}()
	time.Sleep(500 * time.Millisecond)
	send(url, "now")
	same(bodies(<-polled), []string{"now"})
}

func visibility() {
	url := made("go-visibility", nil)
	send(url, "x")
	first := receive(url, held)[0]
	same(len(receive(url)), 0)
	release(url, first)
	same(receive(url)[0].Attributes["ApproximateReceiveCount"], "2")
}

func release(url *string, message types.Message) {
	asked := &sqs.ChangeMessageVisibilityInput{QueueUrl: url, ReceiptHandle: message.ReceiptHandle, VisibilityTimeout: 0}
	must(client.ChangeMessageVisibility(ctx, asked))
}

func fifo() {
	url := made("go.fifo", map[string]string{"FifoQueue": "true", "ContentBasedDeduplication": "true"})
	var numbers []string
	for _, body := range []string{"a", "b", "c", "a"} {
		sent := &sqs.SendMessageInput{QueueUrl: url, MessageBody: &body, MessageGroupId: aws.String("g")}
		numbers = append(numbers, *must(client.SendMessage(ctx, sent)).SequenceNumber)
	}
	same(numbers[0] < numbers[1] && numbers[1] < numbers[2], true)
	same(numbers[3], numbers[0])
	same(bodies(receive(url)), []string{"a", "b", "c"})
}

func deadLetters() {
	dead := made("go-dead", nil)
	arn := arnOf(dead)
	policy := fmt.Sprintf(`{"deadLetterTargetArn":%q,"maxReceiveCount":1}`, arn)
	url := made("go-source", map[string]string{"RedrivePolicy": policy, "VisibilityTimeout": "0"})
	sources := must(client.ListDeadLetterSourceQueues(ctx, &sqs.ListDeadLetterSourceQueuesInput{QueueUrl: dead}))
	same(sources.QueueUrls, []string{*url})
	send(url, "x")
	same(len(receive(url)), 1)
	same(len(receive(url)), 0)
	letter := receive(dead, waiting)[0]
	same(letter.Attributes["DeadLetterQueueSourceArn"], arnOf(url))
	release(dead, letter)
	must(client.StartMessageMoveTask(ctx, &sqs.StartMessageMoveTaskInput{SourceArn: &arn}))
	for deadline := time.Now().Add(patience); ; time.Sleep(50 * time.Millisecond) {
		if found := receive(url); len(found) > 0 {
			same(*found[0].Body, "x")
			return
		}
		same(time.Now().Before(deadline), true)
	}
}

func refusals() {
	url := made("go-errors", nil)
	missing := strings.Replace(*url, "go-errors", "go-nowhere", 1)
	_, problem := client.ReceiveMessage(ctx, &sqs.ReceiveMessageInput{QueueUrl: &missing})
	same(refused[*types.QueueDoesNotExist](problem).ErrorMessage(), "The specified queue does not exist.")
	same(refused[smithy.APIError](problem).ErrorFault(), smithy.FaultClient)
	same(refused[*smithyhttp.ResponseError](problem).HTTPStatusCode(), 400)
	_, problem = client.DeleteMessage(ctx, &sqs.DeleteMessageInput{QueueUrl: url, ReceiptHandle: aws.String("garbage")})
	refused[*types.ReceiptHandleIsInvalid](problem)
	must(client.PurgeQueue(ctx, &sqs.PurgeQueueInput{QueueUrl: url}))
	_, problem = client.PurgeQueue(ctx, &sqs.PurgeQueueInput{QueueUrl: url})
	refused[*types.PurgeQueueInProgress](problem)
}

func wrongSecret() {
	wrong := credentials.NewStaticCredentialsProvider(os.Getenv("AWS_ACCESS_KEY_ID"), "wrong", "")
	other := sqs.NewFromConfig(must(config.LoadDefaultConfig(ctx, config.WithCredentialsProvider(wrong))))
	_, problem := other.ListQueues(ctx, &sqs.ListQueuesInput{})
	same(refused[*smithyhttp.ResponseError](problem).HTTPStatusCode(), 403)
}

func main() {
	client = sqs.NewFromConfig(must(config.LoadDefaultConfig(ctx)))
	check("a queue is created, found and listed", queues)
	check("a message comes back as it was sent", roundTrip)
	check("a batch succeeds and fails by entry", batch)
	check("a long poll is woken by a send", longPoll)
	check("visibility changes are obeyed", visibility)
	check("a FIFO queue keeps the order of a group and takes a send once", fifo)
	check("a dead letter goes to its queue and back", deadLetters)
	check("refusals are the SDK's own errors", refusals)
	check("a wrong secret is refused", wrongSecret)
}
