"""Builds the wheel with its hot modules compiled by mypyc, when HOLDFAST_COMPILED=1; otherwise it stays pure Python.

The source is the same in both, and so is what it does: a compiled module is only faster. What mypyc cannot do decides
which modules are left out: it drops the keywords of a class (core/values.py), so modules whose structs are decoded, or
whose errors carry a status, stay as they are; and it does not run the `finally` of a generator that is dropped, on
which core/queue/standard.py and core/queue/fifo.py rely. Nor does compiled code let other threads in before it is done:
what takes long in a thread stays interpreted (core/log/index_file.py). tests/test_compiled.py holds the list to these
rules. What compiled code looks up by name it remembers: scripts/slots.h. What is written in C beside the modules, which
do without it where it was not built, is built with them.
"""

import atexit
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

COMPILED = {
    "core": "civil limits usage",
    "core/queue": "aside backlog cipher codec dedup departures handle handout headers lane moment plain poll receipt "
    "receive redrive replicated send shard upkeep wheel window",
    "core/log": "archive index journal primary room segment several",
    "core/replication": "replica_log",
    "core/admission": "access authorization canonical hashes signature turns wildcard",
    "protocol": "batches content decoding digests json messages names receives texts",
    "frontend": "admit bounds caller changes companions connection dialect exchange forward glance head keyring locate "
    "peeks reach refusals rights server service trail",
    "backend": "disk host lead letters writer",
    "runtime": "clock crypto failpoint metrics rpc workers",
}
SETUP = """
import sys
from pathlib import Path

from mypyc.build import mypycify
from setuptools import Extension, setup

slots, *rest = sys.argv[1:]
extensions = mypycify(rest, opt_level="2", debug_level="0", group_name="holdfast")
for extension in extensions:
    # Nobody else calls or replaces these functions, so they need not be called by way of a table.
    own = ["-fvisibility=hidden", "-fno-semantic-interposition"]
    # To look for what might be wrong in C that was generated takes more than half of the compiler's time.
    extension.extra_compile_args = [*extension.extra_compile_args, *own, "-Wno-all", "-include", slots]
for path in Path("holdfast").rglob("*.c"):
    extensions.append(Extension(".".join(path.with_suffix("").parts), [str(path)], extra_compile_args=["-O2"]))
setup(name="holdfast-compiled", packages=[], script_args=["build_ext", "--inplace"], ext_modules=extensions)
"""
SLOTS = Path(__file__).parent / "scripts" / "slots.h"
UNCOPIED = shutil.ignore_patterns("__pycache__", "*.so")


def modules() -> list[str]:
    """Paths below src/."""
    return [f"holdfast/{folder}/{name}.py" for folder, names in COMPILED.items() for name in names.split()]


def compile_into(folder: Path, source: Path) -> list[Path]:
    """Answers the libraries, by their paths in `folder`, which afterwards is a copy of `source` with them in it."""
    shutil.copytree(source / "holdfast", folder / "holdfast", ignore=UNCOPIED)
    compile_in(folder, modules())
    return [path.relative_to(folder) for path in folder.rglob("*.so") if "build" not in path.relative_to(folder).parts]


def compile_in(folder: Path, paths: list[str]) -> None:
    """Puts a library beside each of these modules, which import each other from `folder`."""
    (folder / "setup.py").write_text(SETUP)
    options = ["--config-file=", "--explicit-package-bases", "--strict", "--disable-error-code=unused-ignore"]
    command = [sys.executable, "setup.py", str(SLOTS), *options, *paths]
    subprocess.run(command, cwd=folder, check=True, stdout=subprocess.DEVNULL)


class CompileHook(BuildHookInterface[Any]):
    PLUGIN_NAME = "custom"

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        if version == "editable" or os.environ.get("HOLDFAST_COMPILED") != "1":
            return
        folder = Path(tempfile.mkdtemp(prefix="holdfast-compiled-"))
        atexit.register(shutil.rmtree, folder)  # the wheel is written after this
        libraries = compile_into(folder, Path(self.root) / "src")
        build_data["pure_python"] = False
        build_data["infer_tag"] = True
        build_data["force_include"].update({str(folder / path): str(path) for path in libraries})
