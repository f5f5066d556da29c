"""From made-up segments to the page, through the commands that an operator types: figures agree all the way.

The commands run in this process and find the session that is there. The day has four of its hours, with
the outage in one of them.
"""

import csv
import datetime
import json
import shutil
from decimal import Decimal
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from pyspark.sql import SparkSession
from typer.testing import CliRunner

from holdfast.cli.main import program
from holdfast.ledger import tables
from holdfast.ledger.store import TableStore
from holdfast.pipeline import rates
from holdfast.pipeline.demo import scenario, spool
from holdfast.usage import schema

DAY = datetime.date(2026, 11, 14)
HOURS = range(8, 12)


class Ran(NamedTuple):
    code: int
    out: str
    told: str

    @property
    def value(self) -> Any:
        return json.loads(self.out)


def pipeline(*words: str) -> Ran:
    done = CliRunner().invoke(program(), ["pipeline", *words])
    return Ran(done.exit_code, done.stdout, done.stderr)


@pytest.fixture(scope="module")
def data(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A server's data folder after its pipeline ran once."""
    assert spark is not None
    folder = tmp_path_factory.mktemp("data")
    spool.write(folder / "usage", DAY, hours=HOURS)
    done = pipeline("once", "--data", str(folder), "--json")
    assert done.code == 0, done.told
    assert (done.value["hours_closed"], done.value["days_published"], done.value["months_priced"]) == (4, 1, 1)
    return folder


def total(data: Path, name: str, column: str) -> int:
    store = TableStore(data / "ledger")
    table = tables.TABLES[name]
    return sum(int(each) for each in store.read(store.snapshot(table), columns=[column]).column(column).to_pylist())


def test_units_of_nodes_ledger_bills_and_costs_are_the_same(data: Path) -> None:
    units = total(data, f"ledger.{schema.METER}", "units")
    assert units > 0
    assert total(data, "rollup.usage_hourly", "billed_units") == units
    assert total(data, "report.billing_usage", "quantity") == units
    (whole,) = [row for row in pipeline("bill", "--data", str(data), "--json").value if row["account"] == "all"]
    assert whole["units"] == units


def test_every_check_holds(data: Path) -> None:
    done = pipeline("check", "--data", str(data), "--json")
    assert done.code == 0
    assert [each for each in done.value if not each["is_good"]] == []


def test_a_second_run_finds_nothing_to_do(data: Path) -> None:
    done = pipeline("once", "--data", str(data), "--json").value
    assert [done[name] for name in ("segments", "hours_rolled_up", "hours_closed", "days_published")] == [0] * 4


def test_the_page_and_its_files_say_what_the_bill_says(data: Path, tmp_path: Path) -> None:
    done = pipeline("report", "--data", str(data), "--out", str(tmp_path))
    assert done.out.strip() == str(tmp_path / "report.html")
    (whole,) = [row for row in pipeline("bill", "--data", str(data), "--json").value if row["account"] == "all"]
    page = (tmp_path / "report.html").read_text()
    assert f"{whole['units']:,}" in page
    assert f'title="{Decimal(whole["cost"].split()[0]):.12f}"' in page
    with open(tmp_path / "focus_cost.csv", encoding="utf-8") as file:
        costs = list(csv.DictReader(file))
    assert sum(Decimal(row["BilledCost"]) for row in costs) == Decimal(whole["cost"].split()[0])


def test_a_day_of_which_nothing_is_known_gets_no_page_that_says_all_is_well(data: Path, tmp_path: Path) -> None:
    done = pipeline("report", "--data", str(data), "--day", "2026-11-20", "--out", str(tmp_path / "page"))
    assert (done.code, done.out) == (2, "")
    assert "the ledger has nothing of 2026-11-20: it knows 2026-11-14 to 2026-11-14" in done.told
    assert not (tmp_path / "page").exists()


def test_a_customers_page_and_files_have_its_own_rows_alone(data: Path, tmp_path: Path) -> None:
    done = pipeline("report", "--data", str(data), "--account", "420000000002", "--out", str(tmp_path))
    assert done.code == 0
    for path in tmp_path.iterdir():
        assert not {each for each in scenario.NAMES if each in path.read_text()} - {"420000000002"}, path.name
    with open(tmp_path / "focus_cost.csv", encoding="utf-8") as file:
        assert {row["BillingAccountId"] for row in csv.DictReader(file)} == {"420000000002"}
    assert not (tmp_path / "quality_checks.csv").exists()
    refused = pipeline("report", "--data", str(data), "--account", "999999999999", "--out", str(tmp_path / "none"))
    assert (refused.code, refused.out) == (2, "")
    assert (
        "the ledger has nothing of account 999999999999 on these days: it has 410000000001, 420000000002"
        in refused.told
    )


def test_the_outage_is_an_alert(data: Path) -> None:
    rows = pipeline("show", "report.alerts", "--data", str(data), "--json").value
    burning = [row for row in rows if row["kind"] == "error_budget"]
    assert {row["queue"] for row in burning} == {"emails", "charges.fifo", "events", "telemetry"}
    assert {row["hour"] for row in burning} == {"2026-11-14T09:00:00Z"}


def test_focus_rows_are_written_as_csv(data: Path, tmp_path: Path) -> None:
    assert pipeline("bill", "--data", str(data), "--focus", str(tmp_path / "f.csv")).code == 0
    with open(tmp_path / "f.csv", encoding="utf-8") as file:
        first = next(csv.DictReader(file))
    assert first["ServiceCategory"] == "Integration"
    assert json.loads(first["SkuPriceDetails"]) == {"PricingTier": "0"}


def test_a_changed_byte_in_an_audit_file_is_found(data: Path, tmp_path: Path) -> None:
    copy = tmp_path / "data"
    shutil.copytree(data, copy)
    whole = pipeline("audit", "verify", "--data", str(copy), "--json")
    assert (whole.code, whole.value["files"], whole.value["findings"]) == (0, 4, [])
    victim = next(path for path in sorted((copy / "ledger" / "audit").rglob("*.jsonl")) if path.stat().st_size)
    victim.write_bytes(victim.read_bytes().replace(b"Success", b"success", 1))
    done = pipeline("audit", "verify", "--data", str(copy), "--json")
    assert done.code == 1
    assert done.value["findings"][0]["problem"].startswith("was changed: line 1 is not what the ledger has")


def test_other_rates_price_the_month_anew(data: Path, tmp_path: Path) -> None:
    copy, mine = tmp_path / "data", tmp_path / "mine.toml"
    shutil.copytree(data, copy)
    mine.write_text(rates.DEFAULT.read_text().replace("0.00000010", "0.00000100"))
    before = pipeline("bill", "--data", str(copy), "--json").value[-1]
    after = pipeline("bill", "--data", str(copy), "--rates", str(mine), "--json").value[-1]
    assert before["units"] == after["units"]
    assert Decimal(after["cost"].split()[0]) > 5 * Decimal(before["cost"].split()[0])
    assert before["at_sqs"] == after["at_sqs"]


def test_usage_without_a_price_is_an_error_and_keeps_the_bill_that_was(data: Path, tmp_path: Path) -> None:
    late = tmp_path / "late.toml"
    late.write_text(rates.DEFAULT.read_text().replace("valid_from = 2026-01-01", "valid_from = 2999-01-01"))
    before = pipeline("bill", "--data", str(data), "--json")
    refused = pipeline("bill", "--data", str(data), "--rates", str(late))
    assert (refused.code, refused.out) == (2, "")
    assert "Add one with valid_from = 2026-11-14 or earlier to the rates file" in refused.told
    assert pipeline("bill", "--data", str(data), "--json") == before


def test_segments_that_are_in_the_ledger_can_be_removed_and_nothing_is_missed(data: Path, tmp_path: Path) -> None:
    copy = tmp_path / "data"
    shutil.copytree(data, copy)
    assert pipeline("prune", "--keep-days", "1", "--data", str(copy)).code == 0
    left = [path.parent.parent.name for path in (copy / "usage").rglob("*.parquet")]
    assert sorted(left) == sorted([*scenario.NODES] * len(schema.KINDS))  # each node keeps its last one of each kind
    assert pipeline("check", "--data", str(copy)).code == 0
