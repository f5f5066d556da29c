"""Writes stories anew with what really happens: python -m tests.managers.rewrite failover …

Read the difference before you believe it: this makes any behaviour the expected one.
"""

import sys
from pathlib import Path

from tests.managers.script import outputs_of
from tests.scenarios.script import read_cases, text_of


def rewrite(path: Path) -> None:
    cases = read_cases(path)
    for case in cases:
        for block, output in zip(case.blocks, outputs_of(case), strict=True):
            block.expected = output
    path.write_text(text_of(cases), encoding="utf-8")


if __name__ == "__main__":
    for name in sys.argv[1:]:
        rewrite(Path(__file__).with_name(name).with_suffix(".txt"))
