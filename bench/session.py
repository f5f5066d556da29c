"""One whole run: the contenders in rounds, then the experiments with Holdfast alone."""

import datetime
from collections.abc import Callable
from functools import partial
from pathlib import Path

from bench import machine
from bench.contender import Contender, Place, Running
from bench.experiments import depth, durability, flatness, idle, latency
from bench.experiments.finding import Finding
from bench.load import PeerError
from bench.processes import StartError
from bench.results import Results
from bench.rounds import Plan, compare, started, warm
from bench.scope import Scope

BUSY = 0.2  # of the machine used by others: from here on the figures say more about them


def new_results(folder: Path, scope: Scope, *, note: str) -> Results:
    busy = machine.busy_share()
    if busy > BUSY and not note:
        note = f"Others used {busy:.0%} of the machine when it began: take the figures as a sketch."
    settings = {
        "rounds": str(scope.rounds),
        "seconds of a run": f"{scope.seconds:g}",
        "bodies": "1 KB",
        "connections": "64, in batches of ten 16",
        "backlog before a drain": f"{scope.backlog:,}",
    }
    return Results(_now(), note, machine.describe(folder), settings)


def measure_all(
    contenders: list[Contender],
    place: Place,
    *,
    results: Results,
    scope: Scope,
    keep: Callable[[], None],
) -> None:
    """`keep` is called whenever there is something new, so that a run that is ended early was not in vain."""
    plan = Plan(list(scope.modes), rounds=scope.rounds, seconds=scope.seconds, backlog=scope.backlog)
    with started(contenders, place, results) as running:
        for name, why in (results.absent | results.problems).items():
            print(f"  {name:20} absent: {why.splitlines()[0]}", flush=True)
        for contender in contenders:
            if contender.warm_s_max and contender.name in running:
                _warm(contender, running[contender.name], place, results=results, share=scope.warm)
        compare(contenders, results, running, plan=plan, top_up=place.top_up)
    keep()
    if scope.has_experiments:
        for name, experiment in experiments(place, scope).items():
            place.top_up()
            _experiment(name, experiment, results)
            keep()


def measure_again(
    names: list[str],
    place: Place,
    *,
    results: Results,
    scope: Scope,
    keep: Callable[[], None],
) -> None:
    """Experiments with Holdfast alone, whose figures take the place of earlier ones; the results say so."""
    known = experiments(place, scope)
    for name in names:
        place.top_up()
        results.problems.pop(name, None)
        _experiment(name, known[name], results)
        results.settings[f"{name}, measured again"] = f"{_now()}, rounds: {scope.rounds}"
        keep()


def _now() -> str:
    return datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%d %H:%M UTC")


def _warm(contender: Contender, running: Running, place: Place, *, results: Results, share: float) -> None:
    count, is_warm = warm(running, contender.warm_s_max * share, core=place.core)
    if not is_warm:
        results.cold.append(contender.name)
    results.settings[f"{contender.name} warmed up with"] = f"{count:,} messages"
    print(f"  {contender.name:20} warmed up with {count:,} messages{'' if is_warm else ', still cold'}", flush=True)


def experiments(place: Place, scope: Scope) -> dict[str, Callable[[], Finding]]:
    span = scope.latency_s
    return {
        "start": partial(idle.starts, place, rounds=scope.rounds),
        "durability": partial(durability.durable_share, place, scope.seconds, rounds=scope.rounds),
        "latency of sends": partial(latency.send_latency, place, span, rounds=scope.rounds),
        "latency of long polls": partial(latency.poll_latency, place, span, rounds=scope.rounds),
        "isolation": partial(latency.isolation, place, span, rounds=scope.rounds),
        "writes": partial(depth.write_amplification, place, seconds_max=span * 3),
        "backlog": partial(depth.backlog_sweep, place, scope.seconds, depth_max=scope.depth, rounds=scope.rounds),
        "flatness": partial(flatness.flatness, place, scope.seconds, count_max=scope.flat),
        "idle queues": partial(idle.idle_queues, place, count=scope.queues),
        "waiting polls": partial(idle.waiting_polls, place, count=scope.polls),
    }


def _experiment(name: str, experiment: Callable[[], Finding], results: Results) -> None:
    try:
        finding = experiment()
    except (PeerError, StartError, OSError) as problem:
        results.problems[name] = str(problem)[:300]
        print(f"  {name:36} failed: {str(problem)[:100]}", flush=True)
        return
    results.figures |= finding.figures
    results.curves |= finding.curves
    shown = "  ".join(f"{key} {value:,.4g}" for key, value in finding.figures.items())
    print(f"  {name:22} {shown}", flush=True)
