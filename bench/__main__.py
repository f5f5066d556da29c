"""Measures Holdfast beside its peers.

    python -m bench                      the standard set, about half an hour
    python -m bench --quick              a look, about two minutes; changes nothing in the repository
    python -m bench --only send,cycle    some modes, no experiments
    python -m bench --depth 10000000     the backlog of the claims P10 to P12, which takes 15 GB of disk
    python -m bench --render FILE        the tables and the page of an earlier run
    python -m bench --again isolation    an experiment, measured again and put into the standard results

Linux only: it reads /proc and pins processes to cores.
"""

import argparse
import shutil
import signal
import sys
import tempfile
from contextlib import nullcontext
from dataclasses import replace
from functools import partial
from pathlib import Path

from bench import machine
from bench.contender import Contender, Place
from bench.holdfast_server import HOLDFAST, HOLDFAST_OPEN
from bench.memory import Filler, filled
from bench.page import page
from bench.peers.servers import PEERS
from bench.processes import cores, pinned
from bench.report import markdown, terminal
from bench.results import Results, load, save
from bench.scope import QUICK, STANDARD, Scope
from bench.session import experiments, measure_again, measure_all, new_results

RESULTS = Path(__file__).parent / "results"
DOCUMENT = Path(__file__).parent.parent / "docs" / "PERFORMANCE.md"


def main() -> None:
    options = _options()
    if options.render:
        publish(load(options.render), options.render, is_standard=not options.quick)
        return
    scope = _scope(options)
    contenders = [HOLDFAST, HOLDFAST_OPEN, *_chosen(options.peers)]
    file = options.output or RESULTS / ("quick.json" if options.quick or options.only else "host.json")
    folder = Path(tempfile.mkdtemp(prefix="holdfast-bench.", dir=options.folder))
    server, generator = cores()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("ended"))  # as Ctrl-C does: no server is left behind
    try:
        place = Place(folder, server)
        names = _experiments(options.again, place, scope)
        fresh = new_results(folder, scope, note=options.note)
        results = load(file) if names else fresh
        if not machine.is_same(results.machine, fresh.machine):
            sys.exit(f"{file} is of another machine: figures of two of them do not belong into one table")
        keep = partial(save, results, file)
        with filled(folder) if scope.fills_memory else nullcontext(Filler(None)) as filler, pinned(generator):
            results.settings["memory filled before"] = f"{filler.top_up() / 2**30:.0f} GiB"
            place = replace(place, top_up=filler.top_up)
            if names:
                measure_again(names, place, results=results, scope=scope, keep=keep)
            else:
                measure_all(contenders, place, results=results, scope=scope, keep=keep)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    publish(results, file, is_standard=not options.quick and not options.only)


def publish(results: Results, file: Path, *, is_standard: bool) -> None:
    print("\n" + terminal(results))
    drawn = file.with_suffix(".html")
    drawn.write_text(page(results), encoding="utf-8")
    print(f"\nwritten to {file} and {drawn}")
    if is_standard:
        DOCUMENT.write_text(markdown(results), encoding="utf-8")
        print(f"and {DOCUMENT}")


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m bench", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="fewer and shorter rounds")
    parser.add_argument("--rounds", type=int, help="how often contenders take turns")
    parser.add_argument("--seconds", type=float, help="length of one run")
    parser.add_argument("--only", help="modes, separated by commas; without the experiments")
    parser.add_argument("--peers", help="names, separated by commas; 'none' for Holdfast alone")
    parser.add_argument("--depth", type=int, help="messages in the deepest backlog")
    parser.add_argument("--queues", type=int, help="number of idle queues")
    parser.add_argument("--folder", type=Path, default=Path("/var/tmp"), help="where servers put their data")
    parser.add_argument("--note", default="", help="said with the results")
    parser.add_argument("--output", type=Path, help="the file for the results")
    parser.add_argument("--again", help="experiments of an earlier run to measure again, separated by commas")
    parser.add_argument("--render", type=Path, help="measure nothing, show this file")
    return parser.parse_args()


def _experiments(names: str | None, place: Place, scope: Scope) -> list[str]:
    """Those that are to be measured again, and nothing else."""
    wanted = names.split(",") if names else []
    known = experiments(place, scope)
    if unknown := set(wanted) - set(known):
        sys.exit(f"unknown experiments: {', '.join(sorted(unknown))}. Known are: {', '.join(known)}.")
    return wanted


def _scope(options: argparse.Namespace) -> Scope:
    scope = QUICK if options.quick else STANDARD
    changes = {name: getattr(options, name) for name in ("rounds", "seconds", "depth", "queues")}
    return scope.changed(only=options.only, **{name: value for name, value in changes.items() if value})


def _chosen(names: str | None) -> list[Contender]:
    if names is None:
        return list(PEERS)
    wanted = [] if names == "none" else names.split(",")
    known = {peer.name for peer in PEERS}
    if unknown := set(wanted) - known:
        sys.exit(f"unknown peers: {', '.join(sorted(unknown))}. Known are: {', '.join(sorted(known))}.")
    return [peer for peer in PEERS if peer.name in wanted]


if __name__ == "__main__":
    main()
