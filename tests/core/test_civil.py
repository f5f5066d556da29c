"""Dates against the standard library's calendar."""

from datetime import UTC, datetime, timedelta
from email.utils import format_datetime

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from holdfast.core import civil

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
SECONDS = st.integers(-62_135_596_800, 253_402_300_799)  # years 1 to 9999


@given(SECONDS)
@example(-62_135_596_800)
@example(0)
@example(253_402_300_799)
@example(1_709_164_800)  # a leap day
@example(1_735_689_599)  # the last second of a leap year
@example(951_782_400)  # the leap day of 2000
def test_every_form_of_a_second_is_read_back(seconds: int) -> None:
    moment = EPOCH + timedelta(seconds=seconds)
    basic = f"{moment.year:04d}{moment:%m%dT%H%M%SZ}"
    assert civil.basic_text(seconds) == basic
    assert civil.parse_extended(moment.replace(tzinfo=None).isoformat() + "Z") == seconds
    assert civil.parse_http(format_datetime(moment, usegmt=True).encode()) == seconds
    assert civil.parse_http(format_datetime(moment).encode()) == seconds


def test_shorter_forms_begin_where_they_say() -> None:
    assert civil.parse_extended("2025-06-15") == civil.parse_day(b"20250615") == 1_749_945_600
    assert civil.parse_extended("2025-06-15T15:06Z") == 1_749_945_600 + 15 * 3600 + 6 * 60


@pytest.mark.parametrize(
    "text", ["20250229", "20251301", "20250001", "20250100", "00000101", "2025-1-1", "2025+101", ""]
)
def test_what_is_no_day_is_none(text: str) -> None:
    assert civil.parse_day(text.encode()) is None


@pytest.mark.parametrize("text", ["240000", "006000", "000060", "-10000", " 10000", "1_0000", "00:00", ""])
def test_what_is_no_time_of_day_is_none(text: str) -> None:
    assert civil.parse_clock(text.encode()) is None


NOT_EXTENDED = (
    "|2025|2025-02-29|2025/06/15|2025-06-15T15:06|2025-06-15T15:06:40|2025-06-15T15:06:40+02:00|2025-06-15T25:06:40Z"
    "|2025-06-15 15:06:40Z|20250615T150640Z|2025-06-15T|２025-06-1"
).split("|")

NOT_HTTP = (
    "|Sun, 15 Jun 2025 15:06:40|Sun, 15 Jun 2025 15:06:40 CET|15 Jun 2025 15:06:40 GMT|Sun, 15 Jux 2025 15:06:40 GMT"
    "|Sun, 15 Jun 2025 15-06-40 GMT|Sun, 31 Jun 2025 15:06:40 GMT|Sun, 15 Jun 2025 15:66:40 GMT"
    "|Sun, 15 Jun 25 15:06:40 GMT"
).split("|")


@pytest.mark.parametrize("text", NOT_EXTENDED)
def test_what_is_not_in_the_extended_form_is_none(text: str) -> None:
    assert civil.parse_extended(text) is None


@pytest.mark.parametrize("text", NOT_HTTP)
def test_what_is_not_in_the_form_of_http_is_none(text: str) -> None:
    assert civil.parse_http(text.encode()) is None
