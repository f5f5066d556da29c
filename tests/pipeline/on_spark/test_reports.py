"""Stages of the reports on frames that can be checked by eye."""

import json
from typing import Any

import pytest
from pyspark.sql import SparkSession

from holdfast.pipeline.publish import alerts, audit, capacity, causes, flow, levels
from holdfast.usage import schema
from tests.pipeline.on_spark.frames import DAY, RUN, at, collected, histogram, hourly, ledger, types

Rows = list[dict[str, Any]]


# --- service levels ----------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def level_rows(spark: SparkSession) -> Rows:
    used = hourly(
        spark,
        {"hour": at(8), "requests": 1000, "latency": histogram(b10=1000)},
        {"hour": at(9), "requests": 980, "latency": histogram(b10=900, b14=80)},
        {"hour": at(9), "outcome": "failed", "requests": 20, "latency": histogram(b20=20)},
        {"hour": at(9), "outcome": "throttled", "requests": 7, "latency": histogram(b1=7)},
        {"hour": at(9), "queue": "", "action": "ListQueues", "requests": 3, "latency": histogram(b1=3)},
    )
    made = levels.service_levels(used, used, run_id=RUN, target=0.999)
    assert types(made.schema) == types(levels.SCHEMA)
    return sorted(collected(made), key=lambda row: row["hour"])


def test_bad_is_what_failed_by_our_fault_and_throttled_is_counted_apart(level_rows: Rows) -> None:
    assert [(row["requests"], row["good"], row["bad"], row["throttled"]) for row in level_rows] == [
        (1000, 1000, 0, 0),
        (1007, 987, 20, 7),
    ]


def test_a_burn_rate_is_the_bad_share_in_units_of_what_the_target_allows(level_rows: Rows) -> None:
    last = level_rows[-1]
    assert last["burn_1h"] == pytest.approx(20 / 1007 / 0.001)
    assert last["burn_6h"] == last["burn_72h"] == pytest.approx(20 / 2007 / 0.001)
    assert last["budget_left"] == pytest.approx(1 - 20 / 2007 / 0.001)
    assert level_rows[0]["budget_left"] == 1


def test_quantiles_come_from_the_merged_histogram_of_all_outcomes(level_rows: Rows) -> None:
    last = level_rows[-1]
    assert last["latency"] == histogram(b1=7, b10=900, b14=80, b20=20)
    # The median is call 503.5 of 1007: 7 are below bucket 10, which reaches from 2^9 to 2^10 µs and holds 900.
    assert last["p50_ms"] == pytest.approx(2 ** (9 + (503.5 - 7) / 900) / 1000)
    assert 2**13 / 1000 <= last["p95_ms"] <= 2**14 / 1000
    assert 2**19 / 1000 <= last["p99_ms"] <= last["p999_ms"] <= 2**20 / 1000


# --- flow --------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def flow_rows(spark: SparkSession) -> dict[str, dict[str, Any]]:
    used = hourly(
        spark,
        {"requests": 50_000, "messages": 50_000},
        {"requests": 70_000, "outcome": "throttled"},
        {"action": "ReceiveMessage", "requests": 5000, "messages": 50_000},
        {"action": "DeleteMessageBatch", "requests": 5000, "messages": 50_000},
        {"queue": "idle", "action": "ReceiveMessage", "requests": 9000, "empty_receives": 8990, "messages": 10},
        {"queue": "slow", "action": "SendMessageBatch", "requests": 10, "messages": 100},
        {"queue": "slow", "action": "DeleteMessageBatch", "requests": 5, "messages": 50},
    )
    states = ledger(
        spark,
        schema.QUEUE_STATE,
        {"time": at(9, 1), "visible": 7, "expired": 2, "redriven": 1},
        {"time": at(9, 59), "visible": 3, "expired": 3},
        {"time": at(9, 58), "visible": 2, "node": "other"},
        {"time": at(9, 30), "queue": "slow", "visible": 50, "oldest_age_s": 3000},
    )
    letters = ledger(spark, schema.DEAD_LETTER, {}, {"message_id": "n"})
    made = flow.queue_flow(used, states, letters, run_id=RUN)
    assert types(made.schema) == types(flow.SCHEMA)
    return {row["queue"]: row for row in collected(made)}


def test_depth_is_the_last_state_of_each_node_added_up(flow_rows: dict[str, dict[str, Any]]) -> None:
    assert flow_rows["jobs"]["depth"] == 5
    assert flow_rows["idle"]["depth"] is None


def test_flow_counts_messages_in_out_and_dead(flow_rows: dict[str, dict[str, Any]]) -> None:
    row = flow_rows["jobs"]
    assert (row["sent"], row["received"], row["deleted"], row["dead_lettered"]) == (50_000, 50_000, 50_000, 2)
    assert (row["expired"], row["redriven"]) == (5, 1)
    assert row["requests"] == 130_000
    assert row["batch_size"] == 1


def test_advice_is_what_would_save_most(flow_rows: dict[str, dict[str, Any]]) -> None:
    said = {queue: (row["advice"], row["wasted_requests"]) for queue, row in flow_rows.items()}
    assert said["jobs"] == ("BATCH_SENDS", 45_000)
    assert said["idle"] == ("LONG_POLL", 8990 - 180)
    assert said["slow"][0] == "ADD_CONSUMERS"


# --- dead letters ------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def cause_rows(spark: SparkSession) -> Rows:
    letters = ledger(
        spark,
        schema.DEAD_LETTER,
        {"time": at(1), "reason": "Order 4711 not found at https://shop/4711", "message_id": "a", "consumer": "ana"},
        {"time": at(2), "reason": 'order 12 not found at https://shop/x?y="z"', "message_id": "b"},
        {"time": at(9), "reason": "timeout after 30.5 s", "message_id": "c", "queue": "other"},
        {"time": at(9), "shape": "5d41402abc4b2a76", "message_id": "d"},
        {"time": at(10, day=1), "reason": "timeout after 31 s", "message_id": "e"},
    )
    made = causes.dead_letter_causes(letters, run_id=RUN)
    assert types(made.schema) == types(causes.SCHEMA)
    return sorted(collected(made), key=lambda row: (row["day"], row["first_seen"], row["title"]))


def test_reasons_that_differ_in_numbers_ids_and_texts_are_one_cause(cause_rows: Rows) -> None:
    first = cause_rows[0]
    assert (first["title"], first["count"], first["share"]) == ("order <n> not found at <url>", 2, 0.5)
    assert first["examples"] == ["a", "b"]
    assert (first["consumers"], cause_rows[1]["consumers"]) == (["ana"], [])
    assert first["trend"] == [0, 1, 1, *[0] * 21]


def test_without_a_reason_the_form_of_the_body_tells_causes_apart(cause_rows: Rows) -> None:
    assert {row["title"] for row in cause_rows if row["evidence"] == "shape"} == {"bodies of form 5d41402abc4b in jobs"}


def test_a_cause_is_new_on_its_first_day_only_and_not_while_nothing_else_is_known(cause_rows: Rows) -> None:
    said = [(row["title"], row["day"] == DAY, row["is_new"]) for row in cause_rows if row["evidence"] == "reason"]
    assert said == [
        ("order <n> not found at <url>", True, False),
        ("timeout after <n> s", True, True),
        ("timeout after <n> s", False, False),
    ]


# --- capacity ----------------------------------------------------------------------------------------------


def test_a_forecast_is_a_line_and_too_little_data_is_undecided(spark: SparkSession) -> None:
    states = [{"time": at(hour), "visible": 100 * hour, "messages_max": 5000} for hour in range(12)]
    few = [{"time": at(hour), "queue": "young", "visible": 9, "messages_max": 5000} for hour in range(2)]
    full = [{"time": at(hour), "queue": "full", "visible": 90, "messages_max": 100} for hour in range(2)]
    made = capacity.capacity_forecast(ledger(spark, schema.QUEUE_STATE, *states, *few, *full), run_id=RUN)
    assert types(made.schema) == types(capacity.FORECAST)
    found = {row["queue"]: row for row in collected(made) if row["measure"] == "messages"}
    row = found["jobs"]
    assert (row["value"], row["fill_ratio"], row["status"]) == (1100, 0.22, capacity.UNDER)
    assert row["slope_per_hour"] == pytest.approx(100)
    assert row["hours_to_80"] == pytest.approx((4000 - 1100) / 100)
    assert row["action"] == "Add consumers: 80 % of 5,000 messages in about 29 h."
    assert (found["young"]["status"], found["young"]["hours_to_80"]) == (capacity.UNDECIDED, None)
    assert (found["full"]["status"], found["full"]["hours_to_80"]) == (capacity.UNDER, 0)


def test_a_queue_with_most_calls_of_an_hour_is_noisy(spark: SparkSession) -> None:
    used = hourly(
        spark, {"requests": 10}, {"queue": "loud", "requests": 90}, {"queue": "loud", "hour": at(5), "requests": 8}
    )
    made = capacity.hot_queues(used, run_id=RUN)
    assert types(made.schema) == types(capacity.HOT)
    assert [(row["rank"], row["queue"], row["requests"], row["is_noisy"]) for row in collected(made)] == [
        (1, "loud", 98, True),
        (2, "jobs", 10, False),
    ]


# --- alerts ------------------------------------------------------------------------------------------------


def test_alerts_are_far_from_usual_last_while_they_last_and_need_history(spark: SparkSession, level_rows: Rows) -> None:
    def value(hour: int, died: int, queue: str = "jobs") -> dict[str, Any]:
        empty = dict.fromkeys([field.name for field in flow.SCHEMA])
        return {**empty, "hour": at(hour), "account": "A", "queue": queue, "dead_lettered": died, "requests": hour}

    rows = [*(value(hour, 500 if hour in (13, 14) else hour % 3) for hour in range(24)), value(1, 900, "young")]
    flows = spark.createDataFrame([tuple(row.values()) for row in rows], flow.SCHEMA)
    service = spark.createDataFrame([tuple(row.values()) for row in level_rows], levels.SCHEMA)
    made = alerts.alerts(flows, service, spark.createDataFrame([], causes.SCHEMA), run_id=RUN)
    assert types(made.schema) == types(alerts.SCHEMA)
    found = {row["kind"]: row for row in collected(made)}
    died, burns = found["dead_lettered"], found["error_budget"]
    assert (died["queue"], died["hour"], died["until"], died["value"]) == ("jobs", at(13), at(15), 500)
    assert died["title"] == "500 messages died, usually about 1."
    assert (burns["hour"], burns["severity"]) == (at(9), alerts.CRITICAL)
    assert burns["title"] == "The error budget burns 20 times as fast as the target allows."
    assert set(found) == {"dead_lettered", "error_budget"}  # nothing is known yet of the queue `young`


# --- audit -------------------------------------------------------------------------------------------------


def test_an_audit_event_has_what_ocsf_requires(spark: SparkSession) -> None:
    made = audit.audit_ocsf(
        ledger(
            spark,
            schema.AUDIT,
            {},
            {"action": "PurgeQueue", "outcome": "refused", "error_code": "AccessDeniedException", "status": 403},
        ),
        product_version="1.2",
        run_id=RUN,
    )
    assert types(made.schema) == types(audit.SCHEMA)
    rows = collected(made)
    done, refused = (json.loads(row["event"]) for row in rows)
    for event in (done, refused):
        assert (event["category_uid"], event["class_uid"]) == (6, 6003)
        assert event["type_uid"] == 600_300 + event["activity_id"]
        assert event["time"] == int(at(9).timestamp() * 1000)
        assert event["actor"]["user"]["uid"] == "arn:aws:iam::A:user/ana"
        assert event["src_endpoint"] == {"ip": "10.0.0.1"}
        assert event["metadata"]["product"]["version"] == "1.2"
    assert (done["activity_name"], done["status"]) == ("Create", "Success")
    assert (refused["activity_name"], refused["status"], refused["status_code"]) == ("Delete", "Failure", "403")
    assert refused["api"]["response"] == {"error": "AccessDeniedException"}
    assert [row["uid"] for row in rows] == ["n/1/0/0", "n/1/0/1"]
