"""Dates as people write them, and seconds since 1970. Gregorian calendar, UTC, years 1 to 9999.

What is not a date in exactly the named form is None, never a guess.
"""

from typing import Final

_DAYS_BEFORE: Final = (0, 31, 59, 90, 120, 151, 181, 212, 243, 273, 304, 334)
_MONTHS: Final = b"Jan Feb Mar Apr May Jun Jul Aug Sep Oct Nov Dec".split()
_EPOCH: Final = 719_162  # days from 0001-01-01 to 1970-01-01
_DAY_S: Final = 86_400


def is_leap(year: int) -> bool:
    return year % 4 == 0 and (year % 100 != 0 or year % 400 == 0)


def days_of(year: int, month: int, day: int) -> int | None:
    """Days since 1970-01-01."""
    if not (1 <= year <= 9999 and 1 <= month <= 12 and 1 <= day <= _month_length(year, month)):
        return None
    return _days_before_year(year) + _days_before_month(year, month) + day - 1 - _EPOCH


def basic_text(seconds: int) -> str:
    """20250131T235959Z"""
    days, rest = divmod(seconds, _DAY_S)
    year = (days + _EPOCH) * 400 // 146_097 + 2  # one or two too many
    while _days_before_year(year) - _EPOCH > days:
        year -= 1
    day = days + _EPOCH - _days_before_year(year)
    month = max(each for each in range(1, 13) if _days_before_month(year, each) <= day)
    day -= _days_before_month(year, month) - 1
    return f"{year:04d}{month:02d}{day:02d}T{rest // 3600:02d}{rest // 60 % 60:02d}{rest % 60:02d}Z"


def parse_day(text: bytes) -> int | None:
    """20250131 as the second it begins with."""
    if len(text) != 8 or not text.isdigit():
        return None
    days = days_of(int(text[:4]), int(text[4:6]), int(text[6:]))
    return None if days is None else days * _DAY_S


def parse_clock(text: bytes) -> int | None:
    """235959 as seconds of its day."""
    if len(text) != 6 or not text.isdigit():
        return None
    number = int(text)
    minute, second = number // 100 % 100, number % 100
    return None if number >= 240_000 or minute > 59 or second > 59 else number // 10_000 * 3600 + minute * 60 + second


def parse_extended(text: str) -> int | None:
    """2025-01-31T23:59:59Z, 2025-01-31T23:59Z or 2025-01-31."""
    raw = text.encode()
    day, separator, clock = raw.partition(b"T")
    if len(day) != 10 or day[4:5] + day[7:8] != b"--":
        return None
    start = parse_day(day[:4] + day[5:7] + day[8:])
    if not separator:
        return start
    if len(clock) == 6:
        clock = clock[:5] + b":00" + clock[5:]
    if len(clock) != 9 or clock[2:3] + clock[5:6] + clock[8:] != b"::Z":
        return None
    return _sum(start, parse_clock(clock[:2] + clock[3:5] + clock[6:8]))


def parse_http(text: bytes) -> int | None:
    """Fri, 31 Jan 2025 23:59:59 GMT, the form of the header Date; +0000 and -0000 mean GMT, too."""
    parts = text.partition(b",")[2].split()
    if len(parts) != 5 or parts[1] not in _MONTHS or parts[4] not in (b"GMT", b"+0000", b"-0000"):
        return None
    day, month, year, clock, _ = parts
    number = b"%02d" % (_MONTHS.index(month) + 1)
    if len(clock) != 8 or clock[2:3] + clock[5:6] != b"::":
        return None
    return _sum(parse_day(year + number + day.rjust(2, b"0")), parse_clock(clock[:2] + clock[3:5] + clock[6:]))


def _sum(day: int | None, clock: int | None) -> int | None:
    return None if day is None or clock is None else day + clock


def _days_before_year(year: int) -> int:
    """Since the beginning of year 1."""
    past = year - 1
    return past * 365 + past // 4 - past // 100 + past // 400


def _days_before_month(year: int, month: int) -> int:
    return _DAYS_BEFORE[month - 1] + (month > 2 and is_leap(year))


def _month_length(year: int, month: int) -> int:
    return 31 if month == 12 else _days_before_month(year, month + 1) - _days_before_month(year, month)
