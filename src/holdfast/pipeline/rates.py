"""Rates: what a unit costs, by card, sku, day and tier. Read from a data file; rates.toml is the default.

Laws:
- Money is exact. A price has at most 12 digits behind the point, a quantity is an integer, so a cost is exact with 12.
- The tiers of a rate cover 0, 1, 2, … without hole or overlap: unit number n of a month has one price.
- Going from unit a to unit b of a month costs the same however it is cut into steps, and b to a gives it back. So the
  rows of a month always add up to the tariff of its total, whatever was corrected in between.
"""

import datetime
import itertools
import tomllib
from collections.abc import Mapping
from decimal import Decimal
from pathlib import Path

import msgspec

from holdfast.ledger.errors import LedgerError

FORMAT = 1
DEFAULT = Path(__file__).parent / "rates.toml"

ACCOUNT_DIGITS = 12
PRICE_DIGITS = 18  # with a quantity of 19 digits the product has 37, and fits the 38 of the tables
PRICE_SCALE = 12  # digits behind the point
UNITS_MAX = 10**18  # of an account in a month; 385 billion a second

STANDARD, FIFO = "requests-standard", "requests-fifo"
SKUS = (STANDARD, FIFO)


class RatesError(LedgerError):
    """The file cannot be used; says where, and what to write instead."""


class Tier(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    price: str
    to: int = UNITS_MAX


class Rate(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    sku: str
    valid_from: datetime.date
    tiers: list[Tier]


class Card(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    currency: str
    issuer: str
    source: str
    rates: list[Rate]


class Rates(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    format: int
    own: Card
    sqs: Card
    accounts: dict[str, str] = {}  # what they are called on bills

    def name_of(self, account: str) -> str:
        return self.accounts.get(account, account)


class Step(msgspec.Struct, frozen=True):
    """One tier of one rate while it is valid: units with low <= n < high cost `price` each."""

    sku: str
    price_id: str
    valid_from: datetime.datetime
    valid_to: datetime.datetime
    number: int
    low: int
    high: int
    price: Decimal


FOREVER = datetime.datetime(9999, 1, 1, tzinfo=datetime.UTC)


def load(path: Path | None = None) -> Rates:
    place = path or DEFAULT
    try:
        text = place.read_text(encoding="utf-8")
    except OSError as problem:
        raise RatesError(
            f"no rates at {place}: {problem.strerror}. Leave --rates out for the example prices, which {DEFAULT} has."
        ) from None
    return parse(text, where=str(place))


def parse(text: str, *, where: str) -> Rates:
    try:
        rates = msgspec.convert(tomllib.loads(text), type=Rates, builtin_types=(datetime.date,))
    except (tomllib.TOMLDecodeError, msgspec.ValidationError) as problem:
        raise RatesError(f"{where}: {problem}. {DEFAULT} shows how it is written.") from None
    if rates.format != FORMAT:
        raise RatesError(f"{where}: format {rates.format} is not known here, only {FORMAT}.")
    for account in rates.accounts:
        if len(account) != ACCOUNT_DIGITS or not account.isdecimal():
            raise RatesError(
                f'{where}: accounts: {account!r} is none. Write 12 digits in quotes: "000000000000" = "name".'
            )
    for name, card in (("own", rates.own), ("sqs", rates.sqs)):
        for rate in card.rates:
            _check(rate, f"{where}: {name}, {rate.sku} from {rate.valid_from}")
        _check_days(card, f"{where}: {name}")
    return rates


def _check(rate: Rate, where: str) -> None:
    if rate.sku not in SKUS:
        raise RatesError(f"{where}: no such sku. There are {' and '.join(SKUS)}.")
    if not rate.tiers or rate.tiers[-1].to != UNITS_MAX:
        raise RatesError(f"{where}: the last tier has no `to`: it prices whatever comes above the others.")
    ends = [tier.to for tier in rate.tiers]
    if ends[0] <= 0 or any(low >= high for low, high in itertools.pairwise(ends)):
        raise RatesError(f"{where}: every tier's `to` is larger than that before it; here they are {ends}.")
    for tier in rate.tiers:
        price(tier.price, where=where)


def _check_days(card: Card, where: str) -> None:
    days = [(rate.sku, rate.valid_from) for rate in card.rates]
    if twice := sorted({each for each in days if days.count(each) > 1}):
        raise RatesError(
            f"{where}: two rates for {twice[0][0]} from {twice[0][1]}. Keep one, or change its valid_from."
        )


def price(text: str, *, where: str) -> Decimal:
    try:
        value = Decimal(text)
    except ArithmeticError:
        raise RatesError(f'{where}: {text!r} is no price. Write digits and a point, as "0.0000004".') from None
    if not value.is_finite() or value < 0:
        raise RatesError(f"{where}: a price is not negative; here it is {text}.")
    if value != value.quantize(Decimal(1).scaleb(-PRICE_SCALE)) or value >= 10 ** (PRICE_DIGITS - PRICE_SCALE):
        raise RatesError(
            f"{where}: the price {text} has more than {PRICE_DIGITS - PRICE_SCALE} digits before the point or "
            f"{PRICE_SCALE} behind it, and would be rounded."
        )
    return value


def steps(card: Card) -> list[Step]:
    """The card laid out flat: what a price is looked up in."""
    found = []
    for rate in sorted(card.rates, key=lambda each: (each.sku, each.valid_from)):
        later = [each.valid_from for each in card.rates if each.sku == rate.sku and each.valid_from > rate.valid_from]
        low = 0
        for number, tier in enumerate(rate.tiers):
            found.append(
                Step(
                    sku=rate.sku,
                    price_id=f"{rate.sku}/{rate.valid_from}/{number}",
                    valid_from=_midnight(rate.valid_from),
                    valid_to=_midnight(min(later)) if later else FOREVER,
                    number=number,
                    low=low,
                    high=tier.to,
                    price=price(tier.price, where=rate.sku),
                )
            )
            low = tier.to
    return found


def _midnight(day: datetime.date) -> datetime.datetime:
    return datetime.datetime(day.year, day.month, day.day, tzinfo=datetime.UTC)


def cost(card: Card, sku: str, *, at: datetime.datetime, low: int, high: int) -> Decimal:
    """Of units low … high of a month, used at an instant. Negative where `high` is below `low`: given back."""
    valid = [step for step in steps(card) if step.sku == sku and step.valid_from <= at < step.valid_to]
    if not valid:
        raise RatesError(missing(sku, at))
    first, last = min(low, high), max(low, high)
    total = sum((max(0, min(last, step.high) - max(first, step.low)) * step.price for step in valid), Decimal(0))
    return total if low <= high else -total


def require(rates: Rates, first: Mapping[str, datetime.datetime]) -> None:
    """That every sku has a price from when it is used first, on both cards."""
    for sku, at in first.items():
        for card in (rates.own, rates.sqs):
            if not any(rate.sku == sku and _midnight(rate.valid_from) <= at for rate in card.rates):
                raise RatesError(missing(sku, at))


def missing(sku: str, at: datetime.datetime) -> str:
    return (
        f"no rate for {sku} at {at:%Y-%m-%d}. Add one with valid_from = {at:%Y-%m-%d} or earlier to the rates file "
        "(holdfast pipeline bill --rates FILE)."
    )
