"""Several accounts on one server: each has its own queues, and none reaches another's unless it is invited."""

import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from botocore.exceptions import ClientError

from tests.process.guarded import Guarded, guarded, new_account, run
from tests.process.server import drain

HOME, AWAY = "000000000000", "111111111111"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Guarded]:
    with guarded(tmp_path_factory.mktemp("accounts") / "data") as server:
        yield server


@pytest.fixture(scope="module")
def home(server: Guarded) -> Iterator[Any]:
    with server.client(keys=server.root) as client:
        yield client


@pytest.fixture(scope="module")
def away(server: Guarded) -> Iterator[Any]:
    with server.client(keys=new_account(server.data, AWAY)) as client:
        yield client


def refusal(call: Callable[[], Any]) -> tuple[str, str]:
    with pytest.raises(ClientError) as caught:
        call()
    response = caught.value.response
    return response["Error"]["Code"], response["Error"].get("Message") or response["Message"]


def arn(account: str, name: str, region: str = "us-east-1") -> str:
    return f"arn:aws:sqs:{region}:{account}:{name}"


def test_two_accounts_have_queues_of_the_same_name(server: Guarded, home: Any, away: Any) -> None:
    urls = [each.create_queue(QueueName="same")["QueueUrl"] for each in (home, away)]
    assert urls == [f"{server.endpoint}/{account}/same" for account in (HOME, AWAY)]
    for client, url, account in zip((home, away), urls, (HOME, AWAY), strict=True):
        client.send_message(QueueUrl="same", MessageBody=account)
        shown = client.get_queue_attributes(QueueUrl=url, AttributeNames=["QueueArn"])["Attributes"]
        assert shown == {"QueueArn": arn(account, "same")}
        assert client.get_queue_url(QueueName="same")["QueueUrl"] == url
        assert [each["Body"] for each in drain(client, "same")] == [account]


def test_lists_show_the_callers_queues_only(home: Any, away: Any) -> None:
    for name in ("list-a", "list-b", "list-c"):
        home.create_queue(QueueName=name)
    url = away.create_queue(QueueName="list-b")["QueueUrl"]
    assert away.list_queues(QueueNamePrefix="list-")["QueueUrls"] == [url]
    seen, token = [], ""
    while True:
        page = home.list_queues(QueueNamePrefix="list-", MaxResults=2, **({"NextToken": token} if token else {}))
        seen += [each.rpartition("/")[2] for each in page["QueueUrls"]]
        if not (token := page.get("NextToken", "")):
            break
    assert seen == ["list-a", "list-b", "list-c"]


def test_an_arn_finds_its_queue_whatever_its_region_and_whoever_asks(home: Any, away: Any) -> None:
    home.create_queue(QueueName="by-arn")
    home.send_message(QueueUrl=arn(HOME, "by-arn", region="eu-central-7"), MessageBody="x")
    assert len(drain(home, arn(HOME, "by-arn"))) == 1
    code, text = refusal(lambda: away.send_message(QueueUrl=arn(HOME, "by-arn"), MessageBody="x"))
    assert code == "AccessDenied"
    assert "no resource-based policy allows" in text


@pytest.mark.parametrize(
    "call",
    [
        lambda sqs, url: sqs.send_message(QueueUrl=url, MessageBody="x"),
        lambda sqs, url: sqs.receive_message(QueueUrl=url),
        lambda sqs, url: sqs.delete_message(QueueUrl=url, ReceiptHandle="x"),
        lambda sqs, url: sqs.get_queue_attributes(QueueUrl=url, AttributeNames=["All"]),
        lambda sqs, url: sqs.set_queue_attributes(QueueUrl=url, Attributes={"DelaySeconds": "1"}),
        lambda sqs, url: sqs.add_permission(QueueUrl=url, Label="l", AWSAccountIds=[AWAY], Actions=["*"]),
        lambda sqs, url: sqs.tag_queue(QueueUrl=url, Tags={"a": "b"}),
        lambda sqs, url: sqs.list_queue_tags(QueueUrl=url),
        lambda sqs, url: sqs.purge_queue(QueueUrl=url),
        lambda sqs, url: sqs.delete_queue(QueueUrl=url),
        lambda sqs, url: sqs.list_dead_letter_source_queues(QueueUrl=url),
        lambda sqs, url: sqs.list_message_move_tasks(SourceArn=arn(HOME, url.rpartition("/")[2])),
        lambda sqs, url: sqs.start_message_move_task(SourceArn=arn(HOME, url.rpartition("/")[2])),
    ],
)
@pytest.mark.parametrize("name", ["closed-to-others", "never-made"])
def test_another_account_may_do_nothing_and_does_not_learn_what_is_there(
    server: Guarded, home: Any, away: Any, call: Callable[[Any, str], Any], name: str
) -> None:
    home.create_queue(QueueName="closed-to-others")
    assert refusal(lambda: call(away, f"{server.endpoint}/{HOME}/{name}"))[0] == "AccessDenied"


@pytest.mark.parametrize("name", ["closed-to-others", "never-made"])
def test_the_url_of_another_accounts_queue_is_refused_as_if_it_were_not_there(home: Any, away: Any, name: str) -> None:
    home.create_queue(QueueName="closed-to-others")
    code, text = refusal(lambda: away.get_queue_url(QueueName=name, QueueOwnerAWSAccountId=HOME))
    assert code == "AWS.SimpleQueueService.NonExistentQueue"
    assert text == "The specified queue does not exist or you do not have access to it."


def test_a_permission_lets_another_account_in_until_it_is_removed(home: Any, away: Any) -> None:
    url = home.create_queue(QueueName="shared")["QueueUrl"]
    home.add_permission(
        QueueUrl=url, Label="friends", AWSAccountIds=[AWAY], Actions=["SendMessage", "GetQueueUrl", "ReceiveMessage"]
    )
    assert away.get_queue_url(QueueName="shared", QueueOwnerAWSAccountId=HOME)["QueueUrl"] == url
    away.send_message(QueueUrl=url, MessageBody="from afar")
    (message,) = home.receive_message(QueueUrl=url, AttributeNames=["SenderId"])["Messages"]
    assert message["Attributes"]["SenderId"] == AWAY
    assert refusal(lambda: away.purge_queue(QueueUrl=url))[0] == "AccessDenied"
    assert url not in away.list_queues().get("QueueUrls", [])
    home.remove_permission(QueueUrl=url, Label="friends")
    assert refusal(lambda: away.send_message(QueueUrl=url, MessageBody="x"))[0] == "AccessDenied"


def test_a_policy_lets_another_accounts_user_in_if_its_own_account_does(server: Guarded, home: Any) -> None:
    url = home.create_queue(QueueName="half-open")["QueueUrl"]
    new_account(server.data, "333333333333")
    run(server.data, "user", "create", "eve", "--account", "333333333333")
    key = json.loads(run(server.data, "key", "create", "--user", "eve", "--account", "333333333333", "--json"))
    home.add_permission(QueueUrl=url, Label="a", AWSAccountIds=["333333333333"], Actions=["SendMessage"])
    with server.client(keys=(key["AccessKeyId"], key["SecretAccessKey"])) as eve:
        code, text = refusal(lambda: eve.send_message(QueueUrl=url, MessageBody="x"))
    assert (code, "identity-based" in text) == ("AccessDenied", True)


def test_an_owner_that_is_no_account_has_no_queues(home: Any) -> None:
    call = lambda: home.get_queue_url(QueueName="same", QueueOwnerAWSAccountId="me")  # noqa: E731
    assert refusal(call)[0] == "AWS.SimpleQueueService.NonExistentQueue"


def test_dead_letters_stay_in_their_account(home: Any, away: Any) -> None:
    url = home.create_queue(QueueName="their-dead")["QueueUrl"]
    home.add_permission(QueueUrl=url, Label="a", AWSAccountIds=[AWAY], Actions=["*"])
    policy = json.dumps({"deadLetterTargetArn": arn(HOME, "their-dead"), "maxReceiveCount": 1})
    code, text = refusal(lambda: away.create_queue(QueueName="leaky", Attributes={"RedrivePolicy": policy}))
    assert code == "InvalidParameterValue"
    assert text.endswith("Reason: Dead-letter target owner should be same as the source.")


def test_dead_letters_find_the_queue_of_their_own_account(home: Any, away: Any) -> None:
    for client in (home, away):
        client.create_queue(QueueName="dlq")
    policy = json.dumps({"deadLetterTargetArn": arn(AWAY, "dlq", region="mars-1"), "maxReceiveCount": 1})
    url = away.create_queue(QueueName="dying", Attributes={"RedrivePolicy": policy, "VisibilityTimeout": "0"})[
        "QueueUrl"
    ]
    away.send_message(QueueUrl=url, MessageBody="x")
    while away.receive_message(QueueUrl=url).get("Messages"):
        pass
    (dead,) = drain(away, "dlq")
    assert dead["Attributes"]["DeadLetterQueueSourceArn"] == arn(AWAY, "dying")
    assert away.list_dead_letter_source_queues(QueueUrl="dlq")["queueUrls"] == [url]
    assert home.list_dead_letter_source_queues(QueueUrl="dlq")["queueUrls"] == []


def test_an_allow_policy_names_its_sources_whatever_the_region(home: Any) -> None:
    allow = json.dumps({"redrivePermission": "byQueue", "sourceQueueArns": [arn(HOME, "picky-source", "mars-1")]})
    home.create_queue(QueueName="picky-dead", Attributes={"RedriveAllowPolicy": allow})
    policy = json.dumps({"deadLetterTargetArn": arn(HOME, "picky-dead"), "maxReceiveCount": 1})
    home.create_queue(QueueName="picky-source", Attributes={"RedrivePolicy": policy})
    code, _ = refusal(lambda: home.create_queue(QueueName="other-source", Attributes={"RedrivePolicy": policy}))
    assert code == "InvalidParameterValue"


def test_a_move_task_does_not_leave_its_account(home: Any, away: Any) -> None:
    away.create_queue(QueueName="move-dead")
    policy = json.dumps({"deadLetterTargetArn": arn(AWAY, "move-dead"), "maxReceiveCount": 1})
    away.create_queue(QueueName="move-source", Attributes={"RedrivePolicy": policy})
    url = home.create_queue(QueueName="move-target")["QueueUrl"]
    home.add_permission(QueueUrl=url, Label="a", AWSAccountIds=[AWAY], Actions=["*"])
    ends = {"SourceArn": arn(AWAY, "move-dead"), "DestinationArn": arn(HOME, "move-target")}
    code, text = refusal(lambda: away.start_message_move_task(**ends))
    assert code == "ResourceNotFoundException"
    assert text == "The resource that you specified for the DestinationArn parameter doesn't exist."
    assert away.start_message_move_task(SourceArn=ends["SourceArn"])["TaskHandle"]


def test_accounts_are_listed(server: Guarded, away: Any) -> None:
    assert away.list_queues()
    rows = {each["id"]: each for each in json.loads(run(server.data, "account", "ls", "--json"))}
    assert rows[AWAY] == {"id": AWAY, "users": 0, "active_keys": 1}
    assert f"{HOME}  users 0  active keys 1" in run(server.data, "account", "ls")
