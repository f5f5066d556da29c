"""Ratios, claims and tables."""

from pathlib import Path

from bench import results as kept
from bench.claims import claims
from bench.report import markdown, rate_rows
from tests.benchmark.figures import measured


def claim(number: str, peer: str = "") -> tuple[float | None, str]:
    (found,) = [each for each in claims(measured()) if each.number == number and peer in each.what]
    return found.value, found.verdict


def test_a_ratio_is_the_median_over_rounds_not_the_ratio_of_medians() -> None:
    ratio = measured().ratio("send", "ElasticMQ")
    assert ratio == kept.Spread(3.0, 2.0, 4.0)


def test_a_ratio_by_cpu_does_not_depend_on_rates() -> None:
    ratio = measured().cpu_ratio("send", "ElasticMQ")
    assert ratio is not None
    assert round(ratio.middle, 6) == 6.0


def test_a_claim_reaches_its_must_at_the_bound() -> None:
    assert claim("P1", "ElasticMQ") == (3.0, "must")


def test_an_upper_bound_is_reached_from_below() -> None:
    assert claim("P17") == (0.5, "must")


def test_an_absent_peer_is_not_measured_rather_than_beaten() -> None:
    assert claim("P1", "GoAWS") == (None, "not measured")


def test_a_cold_peer_is_not_beaten() -> None:
    results = measured()
    results.cold.append("ElasticMQ")
    assert {each.verdict for each in claims(results) if "÷ ElasticMQ" in each.what and each.value} == {"peer was cold"}


def test_a_rate_that_the_generator_limited_is_marked() -> None:
    assert rate_rows(measured())[2][1].startswith("≥ 100/s")


def test_the_document_names_who_was_absent() -> None:
    assert "- GoAWS: absent: not there" in markdown(measured())


def test_results_come_back_from_their_file(tmp_path: Path) -> None:
    kept.save(measured(), tmp_path / "a.json")
    assert kept.load(tmp_path / "a.json") == measured()


def test_peers_that_check_no_signatures_are_met_on_their_own_terms_as_well() -> None:
    results = measured()
    results.contenders[kept.OPEN] = results.contenders[kept.OURS]
    results.samples["send"][kept.OPEN] = results.of("send", kept.OURS)[:1]
    (found,) = [each for each in claims(results) if each.what == "send ÷ ElasticMQ, both open"]
    assert found.value == results.of("send", kept.OURS)[0].rate / results.of("send", "ElasticMQ")[0].rate
