"""What happens to an uploaded WAV file: a preview at half the rate, and the peaks of its waveform."""

import json
import os
import wave
from array import array
from pathlib import Path
from urllib.parse import quote

from celery import Celery

key, secret = (quote(os.environ[name], safe="") for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"))
host = os.environ["AWS_ENDPOINT_URL_SQS"].removeprefix("http://")

app = Celery("media", broker=f"sqs://{key}:{secret}@{host}//")
app.conf.broker_transport_options = {"is_secure": False, "region": "us-east-1", "visibility_timeout": 60}
app.conf.update(task_acks_late=True, worker_prefetch_multiplier=1, broker_connection_retry_on_startup=True)

PEAKS = 100


@app.task
def received(path: str) -> None:
    """The only task that the web server has to start."""
    preview.delay(path)
    peaks.delay(path)


@app.task(autoretry_for=(FileNotFoundError,), retry_backoff=1, max_retries=5)
def preview(path: str) -> None:
    rate, samples = read(path)
    half = array("h", samples[::2])
    target = Path(path).with_suffix(".preview.wav")
    with wave.open(str(target) + ".part", "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(2)
        file.setframerate(rate // 2)
        file.writeframes(half.tobytes())
    Path(f"{target}.part").rename(target)


@app.task(autoretry_for=(FileNotFoundError,), retry_backoff=1, max_retries=5)
def peaks(path: str) -> None:
    _, samples = read(path)
    step = max(1, len(samples) // PEAKS)
    found = [max(map(abs, samples[start : start + step])) for start in range(0, len(samples), step)]
    target = Path(path).with_suffix(".peaks.json")
    Path(f"{target}.part").write_text(json.dumps(found))
    Path(f"{target}.part").rename(target)


def read(path: str) -> tuple[int, "array[int]"]:
    """Rate and samples of a 16-bit mono file."""
    with wave.open(path, "rb") as file:
        return file.getframerate(), array("h", file.readframes(file.getnframes()))
