"""What Holdfast claims about its speed, and what was measured of it."""

from dataclasses import dataclass

from bench.results import OPEN, OURS, Results


@dataclass(frozen=True)
class Claim:
    """`must` and `goal` are lower bounds, or upper ones."""

    number: str
    what: str
    value: float | None
    unit: str
    must: float | None
    goal: float | None = None
    is_at_least: bool = True
    spread: str = ""
    is_unfair: bool = False  # to a peer that was still cold
    by_cpu: float | None = None  # a ratio of rates, as a ratio of CPU per message

    def holds(self, bound: float | None) -> bool | None:
        if bound is None or self.value is None:
            return None
        return self.value >= bound if self.is_at_least else self.value <= bound

    @property
    def verdict(self) -> str:
        if self.value is None:
            return "not measured"
        if self.is_unfair:
            return "peer was cold"
        if self.holds(self.goal):
            return "goal"
        must = self.holds(self.must)
        if must is None:
            return "below the goal" if self.goal is not None else "—"
        return "must" if must else "missed"

    def bound(self, value: float | None) -> str:
        return "" if value is None else f"{'≥' if self.is_at_least else '≤'} {value:g}{self.unit}"

    @property
    def shown(self) -> str:
        if self.value is None:
            return "—"
        return f"{self.value:.3g}{self.unit}" if self.value < 1000 else f"{self.value:,.0f}{self.unit}"


# number, mode, peer, must, goal
_RATIOS = (
    ("P1", "send", "ElasticMQ", 3, 6),
    ("P1", "send", "GoAWS", 1.2, 2),
    ("P1", "send", "RabbitMQ quorum", 1.5, None),
    ("P1", "send", "Redis Streams", None, 1),
    ("P2", "send ×10", "ElasticMQ", 6, 12),
    ("P2", "send ×10", "GoAWS", 2, 4),
    ("P3", "drain", "ElasticMQ", 3, 6),
    ("P3", "drain", "GoAWS", 20, None),
    ("P4", "cycle", "GoAWS", 1.3, 2),
    ("P4", "cycle ×10", "GoAWS", 2, 4),
    ("P4", "cycle", "Redis Streams", None, 1.5),
    ("P6", "send", "NATS JetStream sync", 6, 10),
)

# number, what, figure, unit, must, goal, whether a lower bound
_FIGURES = (
    ("P5", "durable ÷ non-durable (data on tmpfs), 64 connections", "durable_ratio", "", 0.70, 0.95, True),
    ("P7", "send at half load, open loop, p50", "send_p50_ms", " ms", 1, 0.3, False),
    ("P7", "send at half load, open loop, p99", "send_p99_ms", " ms", 5, 1, False),
    ("P7", "send at half load, open loop, p99.9", "send_p999_ms", " ms", None, None, False),
    ("P7", "for comparison: the machine's own stalls meanwhile, p99", "stall_p99_ms", " ms", None, None, False),
    ("P7", "for comparison: a bare write and fdatasync meanwhile, p50", "disk_p50_ms", " ms", None, None, False),
    ("P7", "for comparison: a bare write and fdatasync meanwhile, p99", "disk_p99_ms", " ms", None, None, False),
    ("P8", "send → long poll, p50", "poll_p50_ms", " ms", 2, 0.5, False),
    ("P8", "send → long poll, p99", "poll_p99_ms", " ms", 8, 2, False),
    ("P10", "memory per waiting message, {backlog:,.0f} waiting", "bytes_per_waiting", " B", 24, 2, False),
    ("P11", "throughput with {backlog:,.0f} waiting ÷ empty", "deep_ratio", "", 0.85, 0.97, True),
    ("P12", "kill -9 with {backlog:,.0f} waiting → first delivery", "first_delivery_s", " s", 5, 0.5, False),
    ("P13", "memory per idle queue, {idle_queues:,.0f} of them", "bytes_per_queue", " B", 2048, 300, False),
    ("P13", "restart with {idle_queues:,.0f} idle queues", "restart_with_queues_s", " s", 10, 1, False),
    ("P14", "memory per long poll, {waiting_polls:,.0f} waiting", "bytes_per_poll", " B", 20_480, 6144, False),
    ("P14", "share of a core for {waiting_polls:,.0f} waiting long polls", "polls_core_percent", " %", 1, 0.2, False),
    ("P16", "write amplification, send, 64 connections", "write_amplification", "", 2.2, 1.1, False),
    ("P16", "write amplification, send ×10", "write_amplification_batched", "", 2.2, 1.1, False),
    ("P16", "space amplification", "space_amplification", "", 3, 1.5, False),
    ("P17", "start to serving, empty", "start_s", " s", 1, 0.2, False),
    ("S1", "CPU per message beside the most in flight ÷ beside none", "flat_in_flight_ratio", "", None, None, False),
    ("S1", "CPU per message beside the most delayed ÷ beside none", "flat_delayed_ratio", "", None, None, False),
    ("S1", "CPU per message beside the most groups ÷ beside none", "flat_groups_ratio", "", None, None, False),
    (
        "S1",
        "CPU per message beside the most connections ÷ beside none",
        "flat_connections_ratio",
        "",
        None,
        None,
        False,
    ),
    ("C2", "p99 beside a queue under full load ÷ alone", "isolation_ratio", "", 2, None, False),
)


def claims(results: Results) -> list[Claim]:
    sizes = {"backlog": 0.0, "idle_queues": 0.0, "waiting_polls": 0.0} | results.figures
    found = [_ratio(results, row, ours=ours) for row in _RATIOS for ours in (OURS, OPEN) if ours in results.contenders]
    found += [
        Claim(
            number,
            what.format_map(sizes),
            results.figures.get(figure),
            unit,
            must,
            goal,
            is_at_least,
            spread=_spread(results, figure),
        )
        for number, what, figure, unit, must, goal, is_at_least in _FIGURES
    ]
    return sorted(found, key=lambda claim: ("PCS".index(claim.number[0]), int(claim.number[1:])))


def _spread(results: Results, figure: str) -> str:
    """Of a figure that is the median of rounds."""
    lowest, highest = (results.figures.get(f"{figure}_{end}") for end in ("lowest", "highest"))
    return "" if lowest is None or highest is None else f"{lowest:.3g}–{highest:.3g}"


def _ratio(results: Results, row: tuple[str, str, str, float | None, float | None], *, ours: str) -> Claim:
    """Twice: as Holdfast is served, and open, since no peer checks a signature per request."""
    number, mode, peer, must, goal = row
    found = results.ratio(mode, peer, ours=ours)
    by_cpu = results.cpu_ratio(mode, peer, ours=ours)
    value, shown = (found.middle, f"{found.lowest:.2f}–{found.highest:.2f}") if found else (None, "")
    what = f"{mode} ÷ {peer}" + (", both open" if ours == OPEN else "")
    return Claim(
        number,
        what,
        value,
        "×",
        must,
        goal,
        spread=shown,
        is_unfair=peer in results.cold,
        by_cpu=by_cpu.middle if by_cpu else None,
    )
