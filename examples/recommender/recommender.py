"""Learns from a stream of events which items are looked at one after the other.

python recommender.py feed events.csv
python recommender.py learn [--until-empty]
python recommender.py recommend ITEM
"""

import argparse
import csv
import json
import sqlite3
from pathlib import Path
from typing import Any

import boto3

QUEUE = "views.fifo"
MODEL = "model.db"
TABLES = """
CREATE TABLE IF NOT EXISTS pairs (item TEXT, other TEXT, times INTEGER, PRIMARY KEY (item, other));
CREATE TABLE IF NOT EXISTS visitors (visitor TEXT PRIMARY KEY, number TEXT, items TEXT);
"""


def queue() -> Any:
    return boto3.resource("sqs").create_queue(QueueName=QUEUE, Attributes={"FifoQueue": "true"})


def feed(events: Path) -> None:
    views = queue()
    with events.open(newline="") as file:
        rows = list(csv.DictReader(file))
    for row in rows:
        views.send_message(MessageBody=json.dumps(row), MessageGroupId=row["visitor"], MessageDeduplicationId=row["id"])
    print(f"{len(rows)} events fed")


def learn(*, is_until_empty: bool) -> None:
    views, model = queue(), open_model()
    wait_s = 2 if is_until_empty else 20
    while True:
        messages = views.receive_messages(
            MaxNumberOfMessages=10, WaitTimeSeconds=wait_s, MessageSystemAttributeNames=["SequenceNumber"]
        )
        if is_until_empty and not messages and is_empty(views):
            return
        for message in messages:
            learn_one(model, json.loads(message.body), message.attributes["SequenceNumber"])
            message.delete()


def is_empty(views: Any) -> bool:
    """Nothing waits, and nothing is in the hands of another consumer."""
    views.reload()
    return all(views.attributes[f"ApproximateNumberOfMessages{each}"] == "0" for each in ("", "NotVisible"))


def learn_one(model: sqlite3.Connection, event: dict[str, str], number: str) -> None:
    """All of it or nothing, and nothing if the event was learned before."""
    with model:
        model.execute("BEGIN IMMEDIATE")
        row = model.execute("SELECT number, items FROM visitors WHERE visitor = ?", (event["visitor"],)).fetchone()
        last, seen = (row[0], json.loads(row[1])) if row else ("", [])
        if number <= last:
            return
        for other in {*seen} - {event["item"]}:
            for pair in ((event["item"], other), (other, event["item"])):
                model.execute("INSERT INTO pairs VALUES (?, ?, 1) ON CONFLICT DO UPDATE SET times = times + 1", pair)
        items = json.dumps([*seen, event["item"]])
        model.execute("INSERT OR REPLACE INTO visitors VALUES (?, ?, ?)", (event["visitor"], number, items))


def recommend(item: str) -> None:
    found = open_model().execute("SELECT other FROM pairs WHERE item = ? ORDER BY times DESC, other LIMIT 3", (item,))
    print(", ".join(row[0] for row in found) or "nothing yet")


def open_model() -> sqlite3.Connection:
    model = sqlite3.connect(MODEL, isolation_level=None, timeout=30)
    model.executescript(TABLES)
    return model


def main() -> None:
    parser = argparse.ArgumentParser(description="Learns what is looked at together.")
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("feed").add_argument("events", type=Path)
    commands.add_parser("learn").add_argument("--until-empty", action="store_true", help="end when all is learned")
    commands.add_parser("recommend").add_argument("item")
    match parser.parse_args():
        case argparse.Namespace(command="feed", events=events):
            feed(events)
        case argparse.Namespace(command="learn", until_empty=is_until_empty):
            learn(is_until_empty=is_until_empty)
        case argparse.Namespace(item=item):
            recommend(item)


if __name__ == "__main__":
    main()
