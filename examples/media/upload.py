"""Stands for the web server: stores a recording and says so to the workers. `python upload.py tone.wav`"""

import json
import math
import sys
import time
import wave
from array import array
from pathlib import Path

from tasks import received

RATE = 8000
PATIENCE_S = 60


def record(path: Path) -> None:
    """Two seconds of a tone that becomes louder."""
    tone = array("h", (int(n * math.sin(n * 2 * math.pi * 440 / RATE)) for n in range(2 * RATE)))
    with wave.open(str(path), "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(2)
        file.setframerate(RATE)
        file.writeframes(tone.tobytes())


def main() -> None:
    upload = Path(sys.argv[1]).absolute()
    record(upload)
    received.delay(str(upload))
    print(f"{upload.name} is uploaded; the visitor need not wait any longer")
    results = [upload.with_suffix(".preview.wav"), upload.with_suffix(".peaks.json")]
    deadline = time.monotonic() + PATIENCE_S
    while not all(each.exists() for each in results):
        if time.monotonic() > deadline:
            raise SystemExit("nothing came of it: does a worker run? celery -A tasks worker")
        time.sleep(0.2)
    loudest = max(json.loads(results[1].read_text()))
    print(f"{results[0].name}: {results[0].stat().st_size} bytes instead of {upload.stat().st_size}; loudest {loudest}")


if __name__ == "__main__":
    main()
