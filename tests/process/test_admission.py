"""Who gets in: boto3, unchanged, with right, wrong, missing and limited keys, against a server that checks them."""

import json
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import botocore.auth
import pytest
from botocore import UNSIGNED
from botocore.auth import SigV4QueryAuth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials
from botocore.exceptions import ClientError

from holdfast.frontend.rights import DEMANDS
from holdfast.protocol import actions
from tests.compatibility.claims import proves
from tests.process.guarded import Guarded, Keys, guarded, new_account, new_key, run

ARN = "arn:aws:sqs:us-east-1:000000000000:"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Guarded]:
    with guarded(tmp_path_factory.mktemp("guarded") / "data") as server:
        yield server


@pytest.fixture(scope="module")
def sqs(server: Guarded) -> Iterator[Any]:
    with server.client(keys=server.root) as client:
        yield client


def refusal(call: Callable[[], Any]) -> tuple[str, int, str]:
    """Code, HTTP status and text."""
    with pytest.raises(ClientError) as caught:
        call()
    response = caught.value.response
    error = response["Error"]
    return error["Code"], response["ResponseMetadata"]["HTTPStatusCode"], error.get("Message") or response["Message"]


def refused(server: Guarded, keys: Keys, **options: Any) -> tuple[str, int, str]:
    with server.client(keys=keys, **options) as client:
        return refusal(client.list_queues)


def denied(call: Callable[[], Any]) -> str:
    code, status, text = refusal(call)
    assert (code, status) == ("AccessDenied", 403)
    return text


# --- signatures -----------------------------------------------------------------------------------------


def test_the_root_key_made_at_first_start_may_do_everything(sqs: Any) -> None:
    url = sqs.create_queue(QueueName="root", tags={"a": "b"})["QueueUrl"]
    sqs.send_message(QueueUrl=url, MessageBody="hello")
    (message,) = sqs.receive_message(QueueUrl=url, AttributeNames=["SenderId"])["Messages"]
    assert message["Attributes"]["SenderId"] == "000000000000"
    sqs.delete_message(QueueUrl=url, ReceiptHandle=message["ReceiptHandle"])
    assert url in sqs.list_queues()["QueueUrls"]


def test_a_wrong_secret_is_refused(server: Guarded) -> None:
    code, status, _ = refused(server, (server.root[0], "wrong-secret"))
    assert (code, status) == ("SignatureDoesNotMatch", 403)


def test_an_unknown_key_is_refused(server: Guarded) -> None:
    code, status, text = refused(server, ("AKIANOBODYNOBODY2222", server.root[1]))
    assert (code, status, text) == (
        "InvalidClientTokenId",
        403,
        "The security token included in the request is invalid.",
    )


@proves("Error.MissingAuthenticationToken")
def test_a_request_without_signature_is_refused(server: Guarded) -> None:
    code, status, _ = refused(server, server.root, signature_version=UNSIGNED)
    assert (code, status) == ("MissingAuthenticationToken", 403)


def test_a_session_token_is_refused_with_the_reason(server: Guarded) -> None:
    code, _, text = refused(server, (*server.root, "token"))
    assert code == "InvalidClientTokenId"
    assert "Unset AWS_SESSION_TOKEN" in text


@pytest.mark.parametrize(("minutes", "word"), [(-16, "expired"), (16, "not yet current")])
def test_a_clock_that_is_off_by_more_than_a_quarter_of_an_hour_is_refused(
    server: Guarded, monkeypatch: pytest.MonkeyPatch, minutes: int, word: str
) -> None:
    skewed = datetime.now(UTC) + timedelta(minutes=minutes)
    monkeypatch.setattr(botocore.auth, "get_current_datetime", lambda: skewed)
    code, _, text = refused(server, server.root)
    assert code == "SignatureDoesNotMatch"
    assert word in text


def test_a_clock_that_is_off_by_less_is_accepted(sqs: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    skewed = datetime.now(UTC) - timedelta(minutes=14)
    monkeypatch.setattr(botocore.auth, "get_current_datetime", lambda: skewed)
    assert sqs.list_queues()["ResponseMetadata"]["HTTPStatusCode"] == 200


def presigned(server: Guarded, body: bytes, *, secret: str | None = None) -> urllib.request.Request:
    """ListQueues in the JSON dialect, signed in the query string."""
    headers = {"X-Amz-Target": "AmazonSQS.ListQueues", "Content-Type": "application/x-amz-json-1.0"}
    request = AWSRequest("POST", server.endpoint + "/", headers=headers, data=body)
    key_id, own = server.root
    signer = SigV4QueryAuth(Credentials(key_id, secret or own), "sqs", "us-east-1", expires=60)
    signer.payload = lambda signed: botocore.auth.SigV4Auth.payload(signer, signed)
    signer.add_auth(request)
    prepared = request.prepare()
    return urllib.request.Request(prepared.url, data=body, headers=dict(prepared.headers), method="POST")


def test_a_presigned_post_is_accepted(server: Guarded) -> None:
    with urllib.request.urlopen(presigned(server, b'{"MaxResults":1}')) as answer:
        assert answer.status == 200


@proves("dialects-and-paths")
def test_a_presigned_get_is_accepted(server: Guarded) -> None:
    request = AWSRequest("GET", server.endpoint + "/", params={"Action": "ListQueues", "Version": "2012-11-05"})
    SigV4QueryAuth(Credentials(*server.root), "sqs", "us-east-1", expires=60).add_auth(request)
    url = request.prepare().url
    with urllib.request.urlopen(url) as answer:
        assert b"<ListQueuesResponse" in answer.read()
    with pytest.raises(urllib.error.HTTPError) as caught:
        urllib.request.urlopen(url.replace("Action=ListQueues", "Action=PurgeQueue"))
    with caught.value as answer:
        assert answer.status == 403
        assert b"<Code>SignatureDoesNotMatch</Code>" in answer.read()


def test_a_presigned_post_with_another_body_or_a_wrong_secret_is_refused(server: Guarded) -> None:
    changed = presigned(server, b'{"MaxResults":1}')
    changed.data = b'{"MaxResults":2}'
    for request in (changed, presigned(server, b"{}", secret="wrong-secret")):
        with pytest.raises(urllib.error.HTTPError) as caught:
            urllib.request.urlopen(request)
        with caught.value as answer:
            assert answer.status == 403
            assert "InvalidSignatureException" in json.loads(answer.read())["__type"]


# --- rights ---------------------------------------------------------------------------------------------


def test_every_action_names_its_queue_or_has_a_rule() -> None:
    for action in (*actions.ACTIONS, *actions.EXTENSIONS):
        assert "queue_url" in action.__struct_fields__ or action.__name__ in DEMANDS, action


def test_a_user_may_do_what_its_policy_allows_and_nothing_else(server: Guarded, sqs: Any) -> None:
    url = sqs.create_queue(QueueName="jobs")["QueueUrl"]
    sqs.send_message(QueueUrl=url, MessageBody="work")
    keys = server.user("worker", allow=["sqs:ReceiveMessage", "sqs:DeleteMessage"], on=ARN + "jobs")
    with server.client(keys=keys) as worker:
        (message,) = worker.receive_message(QueueUrl=url)["Messages"]
        entry = {"Id": "1", "ReceiptHandle": message["ReceiptHandle"]}
        assert worker.delete_message_batch(QueueUrl=url, Entries=[entry])["Successful"]
        text = denied(lambda: worker.send_message(QueueUrl=url, MessageBody="no"))
        assert text == (
            f"User: arn:aws:iam::000000000000:user/worker is not authorized to perform: sqs:sendmessage on resource: "
            f"{ARN}jobs because no identity-based policy allows the sqs:sendmessage action"
        )
        denied(lambda: worker.send_message_batch(QueueUrl=url, Entries=[{"Id": "1", "MessageBody": "no"}]))
        denied(lambda: worker.create_queue(QueueName="another"))
        denied(worker.list_queues)
        denied(lambda: worker.get_queue_url(QueueName="jobs"))
        denied(lambda: worker.receive_message(QueueUrl=url.replace("jobs", "root")))
        denied(lambda: worker.receive_message(QueueUrl=url.replace("jobs", "no-such-queue")))


@proves("SystemAttribute.SenderId")
def test_what_a_user_sends_bears_its_id(server: Guarded, sqs: Any) -> None:
    url = sqs.create_queue(QueueName="signed-by")["QueueUrl"]
    with server.client(keys=server.user("sender", allow=["sqs:SendMessage*"])) as sender:
        sender.send_message(QueueUrl=url, MessageBody="x")
        sender.send_message_batch(QueueUrl=url, Entries=[{"Id": "1", "MessageBody": "y"}])
    messages = sqs.receive_message(QueueUrl=url, AttributeNames=["SenderId"], MaxNumberOfMessages=10)["Messages"]
    (identity,) = {each["Attributes"]["SenderId"] for each in messages}
    assert identity.startswith("AIDA")
    assert len(messages) == 2


def test_dead_letters_may_go_only_where_their_sender_may_send(server: Guarded, sqs: Any) -> None:
    sqs.create_queue(QueueName="elsewhere")
    policy = json.dumps({"deadLetterTargetArn": ARN + "elsewhere", "maxReceiveCount": 1})
    with server.client(keys=server.user("maker", allow=["sqs:CreateQueue"])) as maker:
        maker.create_queue(QueueName="made")
        text = denied(lambda: maker.create_queue(QueueName="leaky", Attributes={"RedrivePolicy": policy}))
        assert "sqs:sendmessage on resource: " + ARN + "elsewhere" in text
        assert "sqs:tagqueue" in denied(lambda: maker.create_queue(QueueName="tagged", tags={"a": "b"}))


def statement(effect: str, principal: Any, action: str, **more: Any) -> dict[str, Any]:
    return {"Effect": effect, "Principal": principal, "Action": action, "Resource": "*", **more}


def set_policy(sqs: Any, url: str, *statements: dict[str, Any]) -> None:
    document = json.dumps({"Version": "2012-10-17", "Statement": statements})
    sqs.set_queue_attributes(QueueUrl=url, Attributes={"Policy": document})


def test_a_queue_policy_denies_even_root_at_once_and_no_longer_when_it_is_removed(sqs: Any) -> None:
    url = sqs.create_queue(QueueName="closed")["QueueUrl"]
    sqs.send_message(QueueUrl=url, MessageBody="x")
    set_policy(sqs, url, statement("Deny", "*", "sqs:SendMessage"))
    text = denied(lambda: sqs.send_message(QueueUrl=url, MessageBody="x"))
    assert text.endswith("with an explicit deny in a resource-based policy")
    denied(lambda: sqs.send_message_batch(QueueUrl=url, Entries=[{"Id": "1", "MessageBody": "x"}]))
    assert sqs.receive_message(QueueUrl=url)["Messages"]
    sqs.set_queue_attributes(QueueUrl=url, Attributes={"Policy": ""})
    sqs.send_message(QueueUrl=url, MessageBody="x")


def test_a_queue_policy_admits_users_and_other_accounts(server: Guarded, sqs: Any) -> None:
    url = sqs.create_queue(QueueName="invited")["QueueUrl"]
    user = server.user("guest", allow=["sqs:GetQueueUrl"])
    other = new_account(server.data, "222222222222")
    principals = {"AWS": ["arn:aws:iam::000000000000:user/guest", "222222222222"]}
    set_policy(sqs, url, statement("Allow", principals, "sqs:*"))
    for keys in (user, other):
        with server.client(keys=keys) as client:
            client.send_message(QueueUrl=url, MessageBody="x")
    with server.client(keys=other) as client:
        denied(lambda: client.delete_queue(QueueUrl=url))


def test_conditions_are_asked_for_every_request(sqs: Any) -> None:
    url = sqs.create_queue(QueueName="conditions")["QueueUrl"]
    insecure, elsewhere = {"Bool": {"aws:SecureTransport": "false"}}, {"NotIpAddress": {"aws:SourceIp": "127.0.0.1"}}
    set_policy(sqs, url, statement("Deny", "*", "sqs:*", Condition=insecure))
    sqs.send_message(QueueUrl=url, MessageBody="a loopback address is neither secure nor not")
    set_policy(sqs, url, statement("Deny", "*", "sqs:SendMessage", Condition=elsewhere))
    sqs.send_message(QueueUrl=url, MessageBody="x")
    here = {"IpAddress": {"aws:SourceIp": "127.0.0.0/8"}}
    set_policy(sqs, url, statement("Deny", "*", "sqs:SendMessage", Condition=here))
    denied(lambda: sqs.send_message(QueueUrl=url, MessageBody="x"))


def test_the_usual_policy_that_enforces_tls_locks_out_plain_clients_of_an_open_address(tmp_path: Path) -> None:
    """Whoever is the caller, and however it is written; only a loopback listener is spared."""
    insecure = [
        {"Bool": {"aws:SecureTransport": "false"}},
        {"BoolIfExists": {"aws:SecureTransport": "false"}},
        {"StringNotEquals": {"aws:SecureTransport": "true"}},
    ]
    with guarded(tmp_path / "data", "--listen", "0.0.0.0:0") as server, server.client(keys=server.root) as sqs:
        for number, condition in enumerate(insecure):
            url = sqs.create_queue(QueueName=f"tls-{number}")["QueueUrl"]
            set_policy(sqs, url, statement("Deny", "*", "sqs:*", Condition=condition))
            text = denied(lambda url=url: sqs.send_message(QueueUrl=url, MessageBody="x"))  # type: ignore[misc]
            assert text.endswith("with an explicit deny in a resource-based policy")
            denied(lambda url=url: sqs.get_queue_attributes(QueueUrl=url, AttributeNames=["All"]))  # type: ignore[misc]
        secure = {"Bool": {"aws:SecureTransport": "true"}}
        url = sqs.create_queue(QueueName="tls-only")["QueueUrl"]
        set_policy(sqs, url, statement("Deny", "*", "sqs:*", Condition=secure))
        sqs.send_message(QueueUrl=url, MessageBody="x")


def test_a_move_needs_rights_on_both_ends(server: Guarded, sqs: Any) -> None:
    sqs.create_queue(QueueName="dead")
    policy = json.dumps({"deadLetterTargetArn": ARN + "dead", "maxReceiveCount": 1})
    sqs.create_queue(QueueName="alive", Attributes={"RedrivePolicy": policy})
    rights = ["sqs:StartMessageMoveTask", "sqs:ReceiveMessage", "sqs:DeleteMessage", "sqs:GetQueueAttributes"]
    with server.client(keys=server.user("mover", allow=rights)) as mover:
        text = denied(lambda: mover.start_message_move_task(SourceArn=ARN + "dead"))
        assert "sqs:sendmessage on resource: " + ARN + "alive" in text
        arguments = {"SourceArn": ARN + "dead", "DestinationArn": ARN + "root"}
        assert "sqs:sendmessage" in denied(lambda: mover.start_message_move_task(**arguments))
        assert "sqs:listmessagemovetasks" in denied(lambda: mover.list_message_move_tasks(SourceArn=ARN + "dead"))
    with server.client(keys=server.user("half", allow=[*rights[:2], "sqs:SendMessage"])) as half:
        assert "sqs:deletemessage" in denied(lambda: half.start_message_move_task(SourceArn=ARN + "dead"))
    with server.client(keys=server.user("whole", allow=[*rights, "sqs:SendMessage"])) as whole:
        handle = whole.start_message_move_task(SourceArn=ARN + "dead")["TaskHandle"]
        assert "sqs:cancelmessagemovetask" in denied(lambda: whole.cancel_message_move_task(TaskHandle=handle))


def test_a_disabled_key_is_refused_within_a_second_and_a_new_one_is_known_at_once(server: Guarded) -> None:
    keys = new_key(server.data)
    with server.client(keys=keys) as client:
        client.list_queues()
        run(server.data, "key", "disable", keys[0])
        time.sleep(1.1)
        assert refusal(client.list_queues)[0] == "InvalidClientTokenId"


def test_a_policy_that_changes_counts_within_a_second(server: Guarded, sqs: Any) -> None:
    url = sqs.create_queue(QueueName="changing")["QueueUrl"]
    with server.client(keys=server.user("changing", allow=["sqs:SendMessage"])) as client:
        client.send_message(QueueUrl=url, MessageBody="x")
        run(server.data, "user", "policy", "changing", "--remove")
        time.sleep(1.1)
        denied(lambda: client.send_message(QueueUrl=url, MessageBody="x"))


# --- around it ------------------------------------------------------------------------------------------


@proves("companions")
def test_health_needs_no_signature(server: Guarded) -> None:
    with urllib.request.urlopen(server.endpoint + "/health") as answer:
        assert json.loads(answer.read()) == {"status": "ok"}
    with urllib.request.urlopen(server.endpoint + "/_localstack/health") as answer:
        assert json.loads(answer.read())["services"]["sqs"] == "running"


@proves("companions")
def test_sts_says_who_asks(server: Guarded) -> None:
    with server.client(keys=server.root, service="sts") as sts:
        identity = sts.get_caller_identity()
        assert identity["Account"] == identity["UserId"] == "000000000000"
        assert identity["Arn"] == "arn:aws:iam::000000000000:root"
        assert refusal(sts.get_session_token)[0] == "InvalidAction"
    with server.client(keys=(server.root[0], "wrong-secret"), service="sts") as sts:
        assert refusal(sts.get_caller_identity)[0] == "SignatureDoesNotMatch"


def test_secrets_are_in_no_output(tmp_path: Path) -> None:
    with guarded(tmp_path / "data") as server:
        key_id, secret = server.root
        with server.client(keys=(key_id, secret)) as client:
            url = client.create_queue(QueueName="canary")["QueueUrl"]
            client.send_message(QueueUrl=url, MessageBody="canary-body-7c1f")
        answers = [
            refused(server, (key_id, secret, "canary-token-7c1f")),
            refused(server, (key_id, "canary-secret-7c1f")),
        ]
        server.stop()
        seen = server.output() + repr(answers)
        files = b"".join(each.read_bytes() for each in server.data.glob("*.db*"))
    assert key_id in seen
    assert secret not in seen
    assert "7c1f" not in seen
    assert secret.encode() not in files


def test_rates_are_limited_when_asked(tmp_path: Path) -> None:
    with guarded(tmp_path / "data", "--limit", "queue=1:4") as server, server.client(keys=server.root) as client:
        urls = [client.create_queue(QueueName=name)["QueueUrl"] for name in ("one", "two")]
        for _ in range(3):
            client.send_message(QueueUrl=urls[0], MessageBody="x")
        code, status, text = refusal(lambda: client.send_message(QueueUrl=urls[0], MessageBody="x"))
        assert (code, status) == ("RequestThrottled", 403)
        assert "Retry after" in text
        client.send_message(QueueUrl=urls[1], MessageBody="x")
