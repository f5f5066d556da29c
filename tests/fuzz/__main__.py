"""More of the fuzzing than the tests do: signatures, then HTTP, then what of it is read at a glance.

python -m tests.fuzz --count 1000000 --seed anything
"""

import argparse
import sys
import time

from tests.fuzz import glances, http, signatures

PER_STREAM = 30  # a stream of HTTP, served five times over, costs as much as so many signatures


def main() -> int:
    parser = argparse.ArgumentParser(prog="tests.fuzz", description="Changed requests against signatures and HTTP.")
    parser.add_argument("--count", type=int, default=100_000, help="changed requests to try")
    parser.add_argument("--seed", default="holdfast", help="any text; the same text, the same requests")
    asked = parser.parse_args()
    begin = time.monotonic()
    found = signatures.run(signatures.real, asked.count, seed=asked.seed)
    for sent, reason in found.wrong:
        print(f"ACCEPTED, though {reason} (seed {asked.seed!r}, number {found.tried}):\n  {sent}")
    print(
        f"signatures: {found.tried} changed requests, {found.accepted} accepted that botocore signs alike, "
        f"{len(found.wrong)} wrongly, in {time.monotonic() - begin:.0f} s"
    )
    if found.wrong:
        return 1
    begin, count = time.monotonic(), asked.count // PER_STREAM // 3
    for make in (http.right_stream, http.odd_stream, http.damaged_stream):
        http.run(make, count, seed=asked.seed)
    print(f"HTTP: {3 * count} streams served as the reference reads them, in {time.monotonic() - begin:.0f} s")
    begin, count = time.monotonic(), asked.count // PER_STREAM
    usual = glances.run(count, seed=asked.seed)
    print(f"HTTP: {count} requests, {usual} read at a glance as they are parsed, in {time.monotonic() - begin:.0f} s")
    return 0


if __name__ == "__main__":
    sys.exit(main())
