"""The pipeline's tests need what only .venv-spark has (`make setup-spark`), and those on Spark need Java.

What cannot be tested is said in a line of its own, after the last test: what stands before the first is hidden by -q.
"""

import importlib.util
import os
import shutil

import pytest

HAS_PACKAGES = all(importlib.util.find_spec(each) for each in ("deltalake", "pyspark"))
HAS_JAVA = bool(shutil.which("java") or os.environ.get("JAVA_HOME"))

# Folders by their own name: pytest reads the conftest of a folder before it asks about the files in it.
collect_ignore = [] if HAS_PACKAGES and HAS_JAVA else ["on_spark"]
collect_ignore_glob = [] if HAS_PACKAGES else ["*.py"]


def _not_tested() -> str:
    if not HAS_PACKAGES:
        return "NOT TESTED HERE: the pipeline; its packages are in .venv-spark (make test-spark)"
    if not HAS_JAVA:
        return "NOT TESTED HERE: the pipeline on Spark; there is no Java on this machine (17 or later)"
    return ""


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    if said := _not_tested():
        terminalreporter.write_sep("!", said, red=True, bold=True)
