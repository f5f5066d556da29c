"""`make compile-sim`: the simulator, and the part of the core that it runs, compiled by mypyc into build/compiled-sim.

That folder is a copy of src/holdfast and of tests, each with libraries beside its hot modules: whoever runs
`python -m tests.sim` there runs these. The source is the same and so are the traces (tests/sim/twins.py). Two things
differ from the wheel that hatch_build.py makes:

- More of the core is compiled: also replication and the router.
- Limits are no constants. Runs make them smaller (tests/sim/plan.py), and mypyc would write each into the code that
  uses it; so the copy of core/limits.py loses its Finals, and is not compiled.

What holds for the wheel's modules holds for these (tests/test_compiled.py).
"""

import os
import re
import shutil
import time

from hatch_build import COMPILED, UNCOPIED, compile_in
from tests.sim.compiled import ROOT, ready, target

CORE = ("core", "core/queue", "core/log", "core/replication")  # what of the wheel's list a simulation runs
UNUSED = ("core/limits", "core/usage")
MORE = {
    "core/cluster": "calls listen parts route suspicion",
    "core/coordination": "cluster_view",
    "core/log": "compaction files index_file recovery replay segment_files snapshot",
    "core/queue": "peek requests tenants",
    "core/replication": "candidate damaged leader proposal reconfiguration repair replica replica_recovery roll "
    "standby station",
}
SIMULATOR = {
    "tests/sim": "account checkers cipher clock custody deliveries disk host log queues recall replayed request runner "
    "sends tally world",
    "tests/sim/cluster": "checkers cluster frontend lanes losses node platter replicas seat steward store upkeep wire",
}


def modules() -> list[str]:
    """Paths below the folder that they are compiled in."""
    core = [f"{folder}/{name}" for folder in CORE for name in COMPILED[folder].split()]
    core += [f"{folder}/{name}" for folder, names in MORE.items() for name in names.split()]
    simulator = [f"{folder}/{name}.py" for folder, names in SIMULATOR.items() for name in names.split()]
    return [f"holdfast/{path}.py" for path in core if path not in UNUSED] + simulator


def main() -> None:
    begun, folder = time.time(), target(ROOT)
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(ROOT / "src" / "holdfast", folder / "holdfast", ignore=UNCOPIED)
    shutil.copytree(ROOT / "tests", folder / "tests", ignore=UNCOPIED)
    limits = folder / "holdfast" / "core" / "limits.py"
    limits.write_text(re.sub(r"^(\w+): Final = ", r"\1: int = ", limits.read_text(), flags=re.MULTILINE))
    compile_in(folder, modules())
    ready(ROOT).touch()
    os.utime(ready(ROOT), (begun, begun))  # what is changed meanwhile is newer


if __name__ == "__main__":
    main()
