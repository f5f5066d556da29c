"""The programs of examples/, run as their READMEs say, against a real server."""

import csv
import json
import shutil
import socketserver
import subprocess
import sys
import threading
import time
import wave
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from holdfast.cli import env
from tests.compat import environments
from tests.process.guarded import Guarded
from tests.process.server import environment

EXAMPLES = Path(__file__).parent.parent.parent / "examples"
RUN_S = 90


class Example:
    """A copy of an example's folder, and programs in it with what `holdfast env` prints."""

    def __init__(self, name: str, server: Guarded, folder: Path) -> None:
        self.folder = folder / name
        shutil.copytree(EXAMPLES / name, self.folder)
        usual = {key: value for key, value in environment().items() if not key.startswith(("AWS_", "PYTHONPATH"))}
        self.variables = usual | env.variables(server.data)

    def start(self, *words: str | Path) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [str(each) for each in words],
            cwd=self.folder,
            env=self.variables,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    def run(self, *words: str | Path) -> str:
        process = self.start(*words)
        shown, _ = process.communicate(timeout=RUN_S)
        assert process.returncode == 0, shown
        return shown


class Mailbox(socketserver.ThreadingTCPServer):
    """As much of a mail server as smtplib needs. It refuses one address for good, and stalls another once."""

    daemon_threads = True
    refused, stalled = "gus@example.com", "kim@example.com"

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Conversation)
        self.taken: Counter[str] = Counter()
        self.tried: Counter[str] = Counter()

    def verdict(self, address: str) -> bytes:
        self.tried[address] += 1
        if address == self.refused:
            return b"550 nobody here\r\n"
        return b"450 later\r\n" if address == self.stalled and self.tried[address] == 1 else b"250 ok\r\n"


class _Conversation(socketserver.StreamRequestHandler):
    server: Mailbox

    def handle(self) -> None:
        self.wfile.write(b"220 hello\r\n")
        address = ""
        for line in iter(self.rfile.readline, b""):
            match line.split(b":")[0].split()[0].upper():
                case b"RCPT":
                    address = line.decode().split("<")[1].split(">")[0]
                    self.wfile.write(self.server.verdict(address))
                case b"DATA":
                    self.wfile.write(b"354 go on\r\n")
                    while self.rfile.readline() != b".\r\n":
                        pass
                    self.server.taken[address] += 1
                    self.wfile.write(b"250 ok\r\n")
                case b"QUIT":
                    self.wfile.write(b"221 bye\r\n")
                    return
                case _:
                    self.wfile.write(b"250 ok\r\n")


@contextmanager
def mailbox() -> Iterator[Mailbox]:
    with Mailbox() as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield server
        server.shutdown()


def test_every_email_is_sent_once_and_what_is_refused_becomes_a_dead_letter(server: Guarded, tmp_path: Path) -> None:
    example = Example("emails", server, tmp_path)
    assert "25 e-mails queued" in example.run(sys.executable, "emails.py", "enqueue", "recipients.csv")
    work = (sys.executable, "emails.py", "work", "--retry-after", "1", "--until-empty")
    with mailbox() as mails:
        smtp = f"127.0.0.1:{mails.server_address[1]}"
        workers = [example.start(*work, "--smtp", smtp) for _ in range(2)]
        shown = [each.communicate(timeout=RUN_S)[0] for each in workers]
        assert [each.returncode for each in workers] == [0, 0], shown
    with (example.folder / "recipients.csv").open() as file:
        addresses = {row["address"] for row in csv.DictReader(file)}
    assert mails.taken == Counter(addresses - {mails.refused})
    assert (mails.tried[mails.refused], mails.tried[mails.stalled]) == (3, 2)
    with server.client(keys=server.root) as sqs:
        (letter,) = sqs.receive_message(QueueUrl="emails-dead", WaitTimeSeconds=5)["Messages"]
        assert json.loads(letter["Body"])["address"] == mails.refused


def test_without_a_mail_server_emails_are_files(server: Guarded, tmp_path: Path) -> None:
    example = Example("emails", server, tmp_path)
    (example.folder / "recipients.csv").write_text("address,name\nzoe@example.com,Zoe\n")
    example.run(sys.executable, "emails.py", "enqueue", "recipients.csv")
    assert "zoe@example.com: sent" in example.run(sys.executable, "emails.py", "work", "--until-empty")
    assert "Dear Zoe" in (example.folder / "outbox" / "zoe@example.com.eml").read_text()


def test_an_uploaded_recording_gets_its_preview_and_its_peaks(server: Guarded, tmp_path: Path) -> None:
    try:
        python = environments.python("celery")
    except environments.Missing as problem:
        pytest.skip(f"THE EXAMPLE MEDIA IS NOT TESTED HERE: {problem}")
    example = Example("media", server, tmp_path)
    worker = example.start(python, "-m", "celery", "-A", "tasks", "worker", "--loglevel", "INFO", "-c", "2")
    try:
        shown = example.run(python, "upload.py", "tone.wav")
    finally:
        worker.terminate()
        log, _ = worker.communicate(timeout=RUN_S)
    assert "tone.preview.wav: 16044 bytes instead of 32044" in shown, log
    with wave.open(str(example.folder / "tone.preview.wav")) as preview:
        assert (preview.getframerate(), preview.getnframes()) == (4000, 8000)
    peaks = json.loads((example.folder / "tone.peaks.json").read_text())
    assert peaks == sorted(peaks)  # the tone becomes louder
    assert len(peaks) == 100


def test_events_are_learned_in_order_and_once_by_two_consumers(server: Guarded, tmp_path: Path) -> None:
    example = Example("recommender", server, tmp_path)
    program = (sys.executable, "recommender.py")
    example.run(*program, "feed", "events.csv")
    with server.client(keys=server.root) as sqs:  # what a killed consumer held comes back sooner than in 30 s
        sqs.set_queue_attributes(QueueUrl="views.fifo", Attributes={"VisibilityTimeout": "6"})
    killed = example.start(*program, "learn")
    time.sleep(1.0)  # in the middle of it, or not: the outcome must be the same
    killed.kill()
    killed.communicate()
    example.run(*program, "feed", "events.csv")
    consumers = [example.start(*program, "learn", "--until-empty") for _ in range(2)]
    for each in consumers:
        shown, _ = each.communicate(timeout=RUN_S)
        assert each.returncode == 0, shown
    assert example.run(*program, "recommend", "tent") == "sleeping-bag, stove, lamp\n"
    assert example.run(*program, "recommend", "pen") == "paper, sleeping-bag, tent\n"
    assert example.run(*program, "recommend", "rope") == "nothing yet\n"
