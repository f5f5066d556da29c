"""The page says what the tables say, needs nothing from elsewhere, and is complete without its pictures."""

import csv
import datetime
import io
import json
import re
from decimal import Decimal
from html.parser import HTMLParser
from typing import Any

import pytest

from holdfast.pipeline.page import charts, health, parts, render, words
from holdfast.pipeline.page.parts import Slots, Tables

UTC = datetime.UTC
DAY = datetime.datetime(2026, 11, 15, tzinfo=UTC)
NEXT = DAY + datetime.timedelta(days=1)


def at(hour: int) -> datetime.datetime:
    return DAY + datetime.timedelta(hours=hour)


def histogram(place: int, count: int) -> list[int]:
    return [count if each == place else 0 for each in range(32)]


def cost(account: str, hour: int, *, units: int, price: str, sqs: str) -> dict[str, Any]:
    return {
        "BillingAccountId": account,
        "BillingAccountName": account,
        "SkuId": "requests-standard",
        "ChargePeriodStart": at(hour),
        "PricingQuantity": Decimal(units),
        "ListUnitPrice": Decimal(price),
        "BilledCost": units * Decimal(price),
        "x_SqsEquivalentCost": Decimal(sqs),
        "Tags": {"team": "billing"} if account == "B" else {},
    }


def level(account: str, hour: int, *, requests: int, bad: int) -> dict[str, Any]:
    return {
        "hour": at(hour),
        "account": account,
        "queue": "jobs",
        "action": "SendMessage",
        "requests": requests,
        "good": requests - bad,
        "bad": bad,
        "refused": 0,
        "throttled": 0,
        "target": 0.999,
        "budget_left": 1 - bad / requests / 0.001,
        "latency": histogram(11, requests),
    }


FLOW = {
    "hour": at(9),
    "account": "A",
    "queue": "jobs",
    "sent": 5000,
    "received": 5000,
    "deleted": 4990,
    "expired": 3,
    "redriven": 2,
    "depth": 10,
    "oldest_age_s": 200,
    "dead_lettered": 7,
    "empty_receives": 90,
    "empty_receive_ratio": 0.9,
    "batch_size": 1.0,
    "advice": "BATCH_SENDS",
    "wasted_requests": 4500,
    "requests": 10_100,
}
CAUSE = {
    "account": "A",
    "fingerprint": "f",
    "title": "no <script> found",
    "count": 7,
    "share": 1.0,
    "is_new": True,
    "first_seen": at(3),
    "last_seen": at(9),
    "queues": ["jobs"],
    "consumers": ["arn:aws:iam::A:user/worker"],
    "examples": ["m1"],
    "trend": [0] * 23 + [7],
}
FORECAST = {
    "account": "A",
    "queue": "jobs",
    "measure": "messages",
    "value": 10,
    "limit": 100,
    "fill_ratio": 0.1,
    "hours_to_80": 5.0,
    "status": "UNDER_PROVISIONED",
    "action": "Add consumers.",
}
HOT = {
    "rank": 1,
    "account": "A",
    "queue": "jobs",
    "requests": 10_100,
    "share": 1.0,
    "peak_per_second": 2.8,
    "peak_share": 1.0,
    "throttled": 0,
    "is_noisy": True,
}
ALERT = {
    "hour": at(9),
    "until": at(10),
    "account": "A",
    "queue": "jobs",
    "kind": "error_budget",
    "severity": "critical",
    "value": 20.0,
    "title": "The error budget burns 20 times as fast as the target allows.",
}
EVENT = {
    "time": at(9),
    "uid": "n/1/0/0",
    "account": "A",
    "principal": "arn:aws:iam::A:user/ana",
    "action": "PurgeQueue",
    "queue": "jobs",
    "status_id": 2,
    "error_code": "AccessDeniedException",
    "source_ip": "10.0.0.1",
}
CHECK = {"check": "billed", "subject": "all", "is_good": True, "expected": "3,000,003", "found": "3,000,003"}

TABLES = Tables(
    DAY,
    NEXT,
    {
        "focus_cost": [
            cost("A", 9, units=1_000_000, price="0", sqs="0"),
            cost("A", 10, units=3, price="0.0000001", sqs="0.0000012"),
            cost("B", 10, units=2_000_000, price="0.0000005", sqs="2.5"),
        ],
        "billing_usage": [],
        "service_levels": [level("A", 9, requests=10_000, bad=20), level("B", 10, requests=90_000, bad=0)],
        "queue_flow": [FLOW],
        "dead_letter_causes": [CAUSE],
        "capacity_forecast": [FORECAST],
        "hot_queues": [HOT],
        "alerts": [ALERT],
        "audit_ocsf": [EVENT],
        "audit_digest": [{"number": 0, "digest": "ab" * 32}],
        "quality_checks": [CHECK],
    },
)
NOTHING = Tables(DAY, NEXT, {})


def page(tables: Tables) -> str:
    return render.page(tables, made_at=NEXT, run_id="run-1", version="9.9", notes=["Rates: mine."])


def test_a_page_for_an_account_has_nothing_of_the_others() -> None:
    own = TABLES.only("B")
    assert own.accounts() == ["B"]
    assert {row["account"] for name, rows in own.rows.items() for row in rows if name != "focus_cost"} == {"B"}
    assert [name for name, rows in own.rows.items() if rows and name in ("hot_queues", "quality_checks")] == []
    written = render.page(own, made_at=NEXT, run_id="run-1", version="9.9", account="B")
    assert "Holdfast ledger, account B" in written
    assert "The ledger itself" not in written
    assert "Busiest queues" not in written
    assert ">A<" not in written
    assert ">A<" in page(TABLES)


def test_hours_that_may_still_grow_are_named_at_the_top() -> None:
    assert "still open" not in page(TABLES)
    written = render.page(TABLES, made_at=NEXT, run_id="run-1", version="9.9", still_open=[at(22), at(23)])
    assert "2 hours are still open, the first from 2026-11-15 22:00 on" in written


class Reader(HTMLParser):
    """Tables and text of a page, and what it would fetch."""

    VOID = frozenset("meta link img br hr input".split())

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.links: list[str] = []
        self.cells: list[str] = []
        self.counts: dict[str, int] = {}

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.counts[tag] = self.counts.get(tag, 0) + 1
        self.links += [str(value) for name, value in attrs if name in ("href", "src", "xlink:href")]
        if tag in ("td", "th"):
            self.cells.append("")
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        pass

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self.open and self.open[-1] in ("td", "th"):
            self.cells[-1] += data


def read(html: str) -> Reader:
    reader = Reader()
    reader.feed(html)
    reader.close()
    assert reader.open == []
    return reader


@pytest.fixture(scope="module")
def reader() -> Reader:
    return read(page(TABLES))


def test_the_page_fetches_nothing_and_runs_nothing(reader: Reader) -> None:
    assert "script" not in reader.counts
    assert [link for link in reader.links if not re.fullmatch(r"#[a-z-]+|[a-z_]+\.csv", link)] == []
    assert "url(" not in page(TABLES)
    assert "@import" not in page(TABLES)


def test_figures_on_the_page_are_those_of_the_tables(reader: Reader) -> None:
    costs = TABLES.of("focus_cost")
    units = sum(row["PricingQuantity"] for row in costs)
    assert f"{units:,}" in reader.cells
    assert words.money(sum((row["BilledCost"] for row in costs), Decimal(0))) in reader.cells
    assert words.money(sum((row["x_SqsEquivalentCost"] for row in costs), Decimal(0))) in reader.cells
    assert "10,000" in reader.cells
    assert "90,000" in reader.cells
    assert f"{sum(row['bad'] for row in TABLES.of('service_levels'))}" in reader.cells


def test_small_amounts_are_shown_and_not_rounded_to_nothing() -> None:
    assert words.money(Decimal("0.0000003")) == "$0.0000003"
    assert words.money(Decimal("1234.565")) == "$1,234.57"
    assert words.money(Decimal(0)) == "$0.00"


def test_a_share_below_the_whole_never_reads_as_the_whole() -> None:
    assert words.percent(0.999996, 3) == "99.999 %"
    assert words.percent(1.0, 3) == "100.000 %"
    assert words.percent(0.58, 1) == "58.0 %"


def test_what_users_wrote_is_text_and_never_markup(reader: Reader) -> None:
    assert "no &lt;script&gt; found" in page(TABLES)
    assert "no <script> found" in "".join(reader.cells)


def test_every_chart_has_its_figures_in_a_table(reader: Reader) -> None:
    assert reader.counts["figure"] == reader.counts["details"] == page(TABLES).count('class="chart"') == 4


def test_alerts_forecasts_and_savings_are_at_the_top() -> None:
    html = page(TABLES)
    top = html[: html.index('id="levels"')]
    assert "The error budget burns 20 times" in top
    assert "Add consumers." in top
    assert "Send in batches of ten: 4,500 calls fewer." in top


def test_a_ledger_with_nothing_in_it_still_has_a_page() -> None:
    html = page(NOTHING)
    assert "No hour has closed yet" in html
    assert "Nothing. Everything is as it usually is." in html
    read(html)


def test_accounts_go_by_their_names_on_the_page_and_by_their_numbers_in_the_files() -> None:
    named = [{**row, "BillingAccountName": "the shop"} for row in TABLES.of("focus_cost")[:2]]
    tables = Tables(DAY, NEXT, {**TABLES.rows, "focus_cost": [*named, TABLES.of("focus_cost")[2]]})
    cells = read(page(tables)).cells
    assert cells.count("A") == 1  # its number, on the bill
    assert "the shop" in cells
    written = dict(render.files(tables))
    assert '"account": "A"' in written["queue_flow.json"]


def test_costs_are_shown_by_tag() -> None:
    cells = read(page(TABLES)).cells
    line = cells.index("team")
    assert cells[line : line + 5] == ["team", "billing", "2,000,000", "0", "$1.00"]
    assert "without a tag" in cells


def test_who_gave_dead_letters_back_is_said() -> None:
    assert "worker" in read(page(TABLES)).cells


def test_the_same_rows_give_the_same_bytes() -> None:
    assert page(TABLES) == page(TABLES)


def test_the_files_beside_it_are_exact() -> None:
    files = dict(render.files(TABLES))
    told = json.loads(files["focus_cost.json"])
    assert [row["BilledCost"] for row in told] == ["0", "0.0000003", "1.0000000"]
    assert told[0]["ChargePeriodStart"] == "2026-11-15T09:00:00Z"
    rows = list(csv.DictReader(io.StringIO(files["dead_letter_causes.csv"])))
    assert json.loads(rows[0]["queues"]) == ["jobs"]
    assert "billing_usage.csv" not in files


def test_quantiles_of_the_page_are_those_of_spark() -> None:
    assert health.quantile_ms(histogram(11, 10), 0.5) == pytest.approx(2**10.5 / 1000)
    assert health.quantile_ms([0] * 32, 0.5) is None


def test_an_hour_without_calls_is_a_gap_and_not_a_quick_one() -> None:
    drawn = charts.lines(
        "t", list("abcd"), [charts.Series("s", [5.0, 0.0, 7.0, 8.0])], say=words.milliseconds, is_log=True
    )
    assert (drawn.count("<circle"), drawn.count("<polyline")) == (3, 2)
    assert words.milliseconds(0.0) == "–"


def test_a_month_is_shown_in_days_and_a_day_in_hours() -> None:
    assert Slots(DAY, NEXT).labels[9] == "09:00"
    month = Slots(DAY, DAY + datetime.timedelta(days=30))
    assert (month.count, month.labels[1]) == (30, "11-16")
    assert month.sums([{"hour": at(30), "n": 2}], at="hour", value=lambda row: float(row["n"]))[1] == 2


def test_accounts_beyond_the_colours_are_one_series() -> None:
    levels = [level(f"A{number}", 9, requests=1000 - number, bad=1) for number in range(9)]
    tables = Tables(DAY, NEXT, {"service_levels": levels})
    figure = parts.by_account(
        "Bad", levels, tables, at="hour", account="account", value=lambda row: float(row["bad"]), say=words.short
    )
    assert [(each.name, max(each.values)) for each in figure.legend] == [
        *((f"A{number}", 1.0) for number in range(parts.SERIES_MAX)),
        (parts.OTHERS, 4.0),
    ]


@pytest.mark.parametrize(("value", "top"), [(0, 1), (1, 1), (1.2, 1.5), (7, 8), (99, 100), (0.034, 0.04)])
def test_a_scale_ends_with_a_round_figure(value: float, top: float) -> None:
    assert charts.ceiling(value) == pytest.approx(top)
