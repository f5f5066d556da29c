"""Results that are simple enough to be done in the head."""

from bench.results import Facts, Results
from bench.throughput import Sample


def sample(rate: int, *, cpu_us: int = 10, generator: float = 0.1) -> Sample:
    return Sample(rate, 1.0, cpu_s=rate * cpu_us / 1e6, generator_cpu_s=generator)


def measured() -> Results:
    return Results(
        "today",
        "",
        {},
        {},
        contenders={"Holdfast": Facts("1", True, ""), "ElasticMQ": Facts("2", False, "")},
        absent={"GoAWS": "not there"},
        samples={
            "send": {
                "Holdfast": [sample(100), sample(400), sample(300)],
                "ElasticMQ": [sample(50, cpu_us=70), sample(100, cpu_us=50), sample(100, cpu_us=60, generator=0.95)],
            }
        },
        figures={"start_s": 0.5},
    )
