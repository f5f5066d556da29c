"""Every table of the ledger: its name, its columns, and the column of time by which its files are kept apart.

    ledger.<kind>          every row of every segment, once, with the place it came from
    rollup.usage_*         usage by minute, hour and day
    report.billing_usage   units of closed hours, and corrections; the other reports are declared beside their stages
    ops.*                  what runs did, and what they checked

Laws
- Times are timestamp[us, UTC], counts int64, money decimal. Every row names the run that wrote it and its version.
- A table lies in a folder named like it: `rollup.usage_hourly` in rollup/usage_hourly.
- `by` is a column of the rows themselves, also inside the files: a file read alone is still complete.
"""

from pathlib import Path
from typing import Any, Final, NamedTuple

import pyarrow as pa

from holdfast.usage import schema, segment

VERSION: Final = 1

TIME: Final = pa.timestamp("us", tz="UTC")
TEXT: Final = pa.string()
COUNT: Final = pa.int64()
HISTOGRAM: Final = pa.list_(pa.int64())
QUANTITY: Final = pa.decimal128(19, 0)


class Table(NamedTuple):
    name: str
    schema: Any  # pyarrow.Schema; all columns may be null, for that is all that older readers of Delta understand
    by: str = ""  # empty: files are not kept apart

    def folder(self, root: Path) -> Path:
        return root.joinpath(*self.name.split("."))


def _columns(**types: Any) -> list[tuple[str, Any]]:
    return list(types.items())


STAMP: Final = _columns(run_id=TEXT, schema_version=pa.int32())

# Where a row comes from. `fault` says why a row is not counted, and is null in all that are.
ORIGIN: Final = _columns(node=TEXT, epoch=COUNT, seq=COUNT, row=COUNT)

# A row whose time cannot be right has no hour of its own.
NO_HOUR_US: Final = 0


def source_schema(kind: str) -> Any:
    """Rows as the spool hands them out: the columns of their kind, and where they come from."""
    own = [(field.name, _plain(field.type)) for field in segment.arrow_schema(kind)]
    return pa.schema([*own, *ORIGIN])


def _plain(kind: Any) -> Any:
    return HISTOGRAM if pa.types.is_list(kind) else kind


def ledger(kind: str) -> Table:
    columns = [*source_schema(kind), *_columns(hour=TIME, fault=TEXT), *STAMP]
    return Table(f"ledger.{kind}", pa.schema(columns), by="hour")


LEDGERS: Final = {kind: ledger(kind) for kind in schema.KINDS}

KEYS: Final = ("account", "queue", "queue_type", "action", "outcome", "error_code")
MEASURES: Final = (
    "requests",
    "billed_units",
    "messages",
    "empty_receives",
    "bytes_in",
    "bytes_out",
    "latency_us",  # summed up
)


def _usage(**times: Any) -> Any:
    keys = dict.fromkeys(KEYS, TEXT)
    measures = dict.fromkeys(MEASURES, COUNT)
    rest = _columns(latency=HISTOGRAM, nodes=pa.list_(TEXT))
    return pa.schema([*times.items(), *keys.items(), *measures.items(), *rest, *STAMP])


USAGE_MINUTE: Final = Table("rollup.usage_minute", _usage(hour=TIME, minute=TIME), by="hour")
USAGE_HOURLY: Final = Table("rollup.usage_hourly", _usage(hour=TIME), by="hour")
USAGE_DAILY: Final = Table("rollup.usage_daily", _usage(day=TIME), by="day")

BILLING_USAGE: Final = Table(
    "report.billing_usage",
    pa.schema(
        [
            *_columns(record_id=TEXT, hour=TIME, account=TEXT, queue=TEXT, sku=TEXT, start=TIME, end=TIME, unit=TEXT),
            *_columns(quantity=QUANTITY, breakdown=pa.map_(TEXT, COUNT), tags=pa.map_(TEXT, TEXT)),
            *_columns(record_type=TEXT, correction_of=TEXT, revision=pa.int32(), completeness=TEXT, recorded_at=TIME),
            *STAMP,
        ]
    ),
    by="hour",
)

PIPELINE_RUNS: Final = Table(
    "ops.pipeline_runs",
    pa.schema(
        [
            *_columns(
                day=TIME, command=TEXT, started=TIME, ended=TIME, outcome=TEXT, problem=TEXT, segments=COUNT, rows=COUNT
            ),
            *_columns(hours_rolled_up=COUNT, hours_closed=COUNT),
            *STAMP,
        ]
    ),
    by="day",
)
QUALITY_CHECKS: Final = Table(
    "ops.quality_checks",
    pa.schema(
        [
            *_columns(day=TIME, time=TIME, check=TEXT, subject=TEXT, is_good=pa.bool_()),
            *_columns(expected=TEXT, found=TEXT, detail=TEXT),
            *STAMP,
        ]
    ),
    by="day",
)

TABLES: Final = {
    each.name: each
    for each in (
        *LEDGERS.values(),
        USAGE_MINUTE,
        USAGE_HOURLY,
        USAGE_DAILY,
        BILLING_USAGE,
        PIPELINE_RUNS,
        QUALITY_CHECKS,
    )
}

_DDL: Final = {
    pa.string(): "STRING",
    pa.int64(): "BIGINT",
    pa.int32(): "INT",
    pa.bool_(): "BOOLEAN",
    pa.float64(): "DOUBLE",
    TIME: "TIMESTAMP",
}


def ddl(columns: Any) -> str:
    """An Arrow schema as Spark, DuckDB and people write it."""
    return ", ".join(f"`{field.name}` {_ddl_of(field.type)}" for field in columns)


def _ddl_of(kind: Any) -> str:
    if pa.types.is_list(kind):
        return f"ARRAY<{_ddl_of(kind.value_type)}>"
    if pa.types.is_map(kind):
        return f"MAP<{_ddl_of(kind.key_type)}, {_ddl_of(kind.item_type)}>"
    if pa.types.is_decimal(kind):
        return f"DECIMAL({kind.precision}, {kind.scale})"
    return _DDL[kind]
