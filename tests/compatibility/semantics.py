"""What SQS does beyond the names of its actions: one sentence for each rule, and the scenarios that prove it, by file
and the beginning of their names. Tests prove rules, too, with `@proves("slug")`.
"""

from typing import NamedTuple


class Rule(NamedTuple):
    says: str
    scenarios: tuple[str, ...] = ()


SEMANTICS: dict[str, Rule] = {
    # --- what clients see ---
    "errors-in-both-dialects": Rule(
        "An error has its name, code, text and status in JSON and in Query, and a request id"
    ),
    "long-polling": Rule(
        "A long poll ends with the first message, or empty at its end; the request's wait overrides the queue's",
        (
            "long_polls: A long poll waits until a message comes",
            "long_polls: A long poll ends empty",
            "long_polls: A client that has gone away is not handed a message",
        ),
    ),
    "attribute-filters": Rule("Names, prefixes and All choose what a receive returns; nothing asked, nothing returned"),
    "message-attributes": Rule("Up to ten attributes with lawful names and types; others are refused"),
    "md5": Rule("MD5s of body, attributes and system attributes are those that SDKs compute"),
    "sizes": Rule(
        "Body, names, types and values count to the size; exactly the limit is accepted, a byte more is not",
        ("standard: A message larger than the queue allows is refused",),
    ),
    "characters": Rule("A body has at least one character, and only those that XML 1.0 can carry"),
    "batches": Rule("A wrong envelope fails the whole batch before any effect; a wrong entry fails alone"),
    "queue-urls": Rule("A queue is found by URL, path, ARN or name; a request may name another queue than its path"),
    # --- queues ---
    "create-again": Rule("Creating a queue again is fine when every given attribute has its current value"),
    "queue-names": Rule("Names of queues and the suffix .fifo are checked"),
    "name-reuse": Rule("The name of a deleted queue can be used again after sixty seconds"),
    "purge": Rule(
        "A purge removes everything, also in flight and delayed; a second one within sixty seconds is refused",
        ("purge: A purge removes everything", "purge: A second purge within sixty seconds is refused"),
    ),
    "attributes-of-a-queue": Rule("All lists what AWS lists, and nothing that is not set; unknown names are refused"),
    "retention": Rule(
        "Messages are removed when their retention is over, also in flight; shortening it removes old ones",
        (
            "retention: A message that nobody took is gone",
            "retention: Retention counts from the send, so it removes messages in flight",
            "retention: Shortening the retention removes old messages",
        ),
    ),
    "tags": Rule("Tags are case-sensitive, up to fifty, and absent when the last is gone"),
    "permissions": Rule("AddPermission and RemovePermission write statements of the queue's policy"),
    "trace-header": Rule("The header X-Amzn-Trace-Id of a request becomes the message's AWSTraceHeader"),
    # --- delivery ---
    "visibility": Rule(
        "A message is hidden for its visibility timeout and then comes back",
        (
            "visibility: A message received and not deleted comes back",
            "visibility: A change to zero makes a message visible at once",
            "visibility: A message can be hidden for twelve hours",
            "visibility: On a standard queue an old handle changes the visibility of the later receive",
            "visibility: The visibility of a deleted message cannot be changed",
        ),
    ),
    "receipt-handles": Rule(
        "Any handle ever given deletes on a standard queue, also twice; on a FIFO queue only until its time is over",
        (
            "receipts: Deleting twice is fine",
            "receipts: On a standard queue any handle that was ever given deletes",
            "receipts: On a FIFO queue a handle whose time is over no longer deletes",
            "receipts: A handle of one queue is not valid for another",
        ),
    ),
    "delays": Rule(
        "A changed delay counts for later messages on a standard queue, for waiting ones on a FIFO queue",
        (
            "delay: A delayed message is invisible until its time has come",
            "delay: On a standard queue a change of the delay holds for later messages only",
            "delay: On a FIFO queue a change of the delay holds for messages that wait already",
            "delay: A FIFO queue does not take a delay with a message",
        ),
    ),
    "in-flight-limit": Rule(
        "Beyond 120,000 messages in flight a standard queue answers OverLimit, a FIFO queue nothing",
        (
            "standard: A standard queue with too many messages in flight refuses",
            "standard: A FIFO queue with too many messages in flight answers nothing",
        ),
    ),
    "fair-queues": Rule(
        "Tenants that are not noisy are served first",
        (
            "fair: A tenant with thirty and more in flight is noisy",
            "fair: A tenant with less than a tenth of what is in flight is not noisy",
            "fair: A tenant that uses most of the consumers' time is noisy",
        ),
    ),
    # --- FIFO ---
    "fifo-group-lock": Rule(
        "A group is handed out in order up to its first message that is held",
        (
            "fifo: Three messages are held; extending the first blocks all",
            "fifo: Three messages are held; extending the second lets only the first come back",
            "fifo: Three messages are held; extending the third lets the first two come back",
            "fifo: A new message never unlocks its group",
        ),
    ),
    "fifo-packing": Rule(
        "A receive takes as many messages of one group as it can, then goes on with the next group",
        ("fifo: One receive takes as many messages of one group as it can",),
    ),
    "deduplication": Rule(
        "A deduplication id is taken once in five minutes, also after receive and delete, in its scope",
        (
            "deduplication: A deduplication id is accepted once in five minutes",
            "deduplication: The id is remembered after the message was received and deleted",
            "deduplication: With scope=group each group has its own ids",
            "deduplication: An id that was recorded for the whole queue still blocks every group",
        ),
    ),
    "content-deduplication": Rule(
        "The SHA-256 of the body is the id when the queue says so; an explicit id wins; with neither it is refused",
        (
            "deduplication: With content-based deduplication the body is the id",
            "deduplication: An explicit id wins over the content",
            "deduplication: Without an id and without content-based deduplication a FIFO queue refuses",
        ),
    ),
    "receive-attempts": Rule(
        "The same ReceiveRequestAttemptId gives the same messages and handles for five minutes",
        (
            "fifo: The same attempt id gives the same messages with the same handles",
            "fifo: An attempt id is void once one of its messages was deleted",
            "fifo: An attempt id is remembered for five minutes",
        ),
    ),
    "sequence-numbers": Rule(
        "Sequence numbers have twenty digits, rise, and are never used again",
        ("fifo: Sequence numbers have twenty digits and rise",),
    ),
    "group-and-deduplication-ids": Rule(
        "1 to 128 letters, digits and punctuation; a standard queue takes no deduplication id"
    ),
    # --- dead letters ---
    "dead-letters": Rule(
        "A message moves when it would be received once too often; it keeps id, attributes and receive count",
        (
            "dead_letters: A message that was received as often as allowed moves",
            "dead_letters: The receive that moves a message goes on to the next ones",
        ),
    ),
    "dead-letter-policies": Rule(
        "Type, existence, RedriveAllowPolicy and maxReceiveCount are checked when a policy is set"
    ),
    "dead-letter-retention": Rule(
        "A dead letter keeps its age on a standard queue and begins anew on a FIFO queue",
        (
            "dead_letters: On a standard queue a dead letter keeps its age",
            "dead_letters: On a FIFO queue a dead letter begins a new life",
        ),
    ),
    "move-tasks": Rule(
        "Dead letters go back, at a rate, one task at a time, as new messages; a task can be cancelled and can fail",
        (
            "moves: A move task takes dead letters to a queue; there they are new messages",
            "moves: Without a destination each message goes back to the queue it came from",
            "moves: A rate limits the messages per second",
            "moves: One task at a time for a queue",
        ),
    ),
    # --- on the wire ---
    "dialects-and-paths": Rule("JSON and Query, at / and at /account/queue, signed in the header or in the URL"),
    "url-of-three-parts": Rule(
        "A QueueUrl is scheme://host/account/name, never with a prefix: Terraform and KEDA split it"
    ),
    "host-of-the-request": Rule("The host in a QueueUrl is the one that the client asked"),
    "any-region": Rule("A request may be signed for any region; the service must be sqs"),
    "attributes-round-trip": Rule(
        "What is set can be read at once; policies come back JSON-equal; what is unset is absent (Terraform compares)"
    ),
    "listing": Rule("Up to a thousand queues without a token; MaxResults and NextToken page; an empty prefix is none"),
    "empty-lists": Rule("Empty lists of names mean none; both lists of system attributes are read"),
    "relaxed-rules": Rule("Sixty-second rules and the least retention can be switched off for tests"),
    "companions": Rule("GET /health, GET /_localstack/health and STS GetCallerIdentity answer tools that ask first"),
    "http": Rule("Request ids, keep-alive, pipelining, chunked bodies and Expect: 100-continue"),
}
