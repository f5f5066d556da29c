"""What a process has to say about itself. One line each, to standard error."""

import sys


def say(text: str) -> None:
    sys.stderr.write(f"holdfast: {text}\n")
    sys.stderr.flush()
