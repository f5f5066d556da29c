"""A module written in C, built as `make compile` builds it, to be compared with what does without it."""

import importlib.util
import shutil
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

import hatch_build

ROOT = Path(hatch_build.__file__).parent


def built(source: str, folder: Path) -> ModuleType:
    """`source`: its path below src/. Skips the test, loudly, where it cannot be built or would not be used."""
    can = subprocess.run([sys.executable, str(ROOT / "scripts" / "can_compile.py")], capture_output=True, check=False)
    if can.returncode:
        pytest.skip(f"NOT TESTED: {source}; there is no C compiler, or no headers of Python")
    target = folder / Path(source).parent
    target.mkdir(parents=True)
    shutil.copy(ROOT / "src" / source, target)
    for header in (ROOT / "src").rglob("*.h"):
        place = folder / header.relative_to(ROOT / "src")
        place.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(header, place)
    (folder / "probe.py").write_text("")
    (folder / "setup.py").write_text(hatch_build.SETUP)
    command = [sys.executable, "setup.py", str(hatch_build.SLOTS), "probe.py"]
    subprocess.run(command, cwd=folder, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    (library,) = target.glob("*.so")
    spec = importlib.util.spec_from_file_location(source.removesuffix(".c").replace("/", "."), library)
    assert spec is not None
    assert spec.loader is not None
    try:
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
    except ImportError as problem:
        pytest.skip(f"NOT TESTED: {source}; {problem}")
    return module
