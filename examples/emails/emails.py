"""Sends one e-mail to each line of a CSV file, through a queue.

python emails.py enqueue recipients.csv
python emails.py work [--smtp HOST:PORT] [--retry-after SECONDS] [--until-empty]
"""

import argparse
import csv
import json
import smtplib
from email.message import EmailMessage
from pathlib import Path
from typing import Any

import boto3

QUEUE = "emails"
LEASE_S = 300  # a worker has so long for ten mails, until others may take them
TRIES = 3
OUTBOX = Path("outbox")


def queue() -> Any:
    """The queue and its dead-letter queue; creating them again is harmless."""
    sqs = boto3.resource("sqs")
    dead = sqs.create_queue(QueueName=f"{QUEUE}-dead")
    policy = {"deadLetterTargetArn": dead.attributes["QueueArn"], "maxReceiveCount": TRIES}
    attributes = {"RedrivePolicy": json.dumps(policy), "VisibilityTimeout": str(LEASE_S)}
    return sqs.create_queue(QueueName=QUEUE, Attributes=attributes)


def enqueue(recipients: Path) -> None:
    emails = queue()
    with recipients.open(newline="") as file:
        rows = list(csv.DictReader(file))
    for start in range(0, len(rows), 10):
        entries = [{"Id": str(n), "MessageBody": json.dumps(row)} for n, row in enumerate(rows[start : start + 10])]
        failed = emails.send_messages(Entries=entries).get("Failed", [])
        if failed:
            raise SystemExit(f"not all were queued: {failed}")
    print(f"{len(rows)} e-mails queued")


def work(smtp: str, *, retry_s: int, is_until_empty: bool) -> None:
    emails = queue()
    while True:
        messages = emails.receive_messages(MaxNumberOfMessages=10, WaitTimeSeconds=2 if is_until_empty else 20)
        if is_until_empty and not messages and is_empty(emails):
            return
        for message in messages:
            recipient = json.loads(message.body)
            try:
                send(mail_to(recipient, message.message_id), smtp)
            except (smtplib.SMTPException, OSError) as problem:
                print(f"{recipient['address']}: {problem}; later again")
                message.change_visibility(VisibilityTimeout=retry_s)
            else:
                message.delete()  # only now: until here another worker would take over
                print(f"{recipient['address']}: sent")


def is_empty(emails: Any) -> bool:
    """Nothing waits, and nothing is in the hands of a worker or to be tried again."""
    emails.reload()
    return all(emails.attributes[f"ApproximateNumberOfMessages{each}"] == "0" for each in ("", "NotVisible"))


def mail_to(recipient: dict[str, str], message_id: str) -> EmailMessage:
    mail = EmailMessage()
    mail["Message-ID"] = f"<{message_id}@example.com>"  # the same at every try, so that mail servers see a double
    mail["From"], mail["To"], mail["Subject"] = "shop@example.com", recipient["address"], "Our new catalogue"
    mail.set_content(f"Dear {recipient['name']},\n\nour new catalogue is here.\n")
    return mail


def send(mail: EmailMessage, smtp: str) -> None:
    if smtp:
        with smtplib.SMTP(smtp) as server:
            server.send_message(mail)
    else:
        OUTBOX.mkdir(exist_ok=True)
        (OUTBOX / f"{mail['To']}.eml").write_bytes(bytes(mail))


def main() -> None:
    parser = argparse.ArgumentParser(description="Sends many e-mails through a queue.")
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("enqueue").add_argument("recipients", type=Path)
    worker = commands.add_parser("work")
    worker.add_argument("--smtp", default="", help="HOST:PORT of a mail server; without it mails are files in ./outbox")
    worker.add_argument("--retry-after", type=int, default=30, help="seconds until a refused mail is tried again")
    worker.add_argument("--until-empty", action="store_true", help="end when there is nothing more to do")
    arguments = parser.parse_args()
    if arguments.command == "enqueue":
        enqueue(arguments.recipients)
        return
    work(arguments.smtp, retry_s=arguments.retry_after, is_until_empty=arguments.until_empty)


if __name__ == "__main__":
    main()
