"""Leaky buckets: how fast an account, a queue or an action may be used.

A request pours its cost into a bucket; the bucket leaks `per_second`, evenly; what does not fit is refused.

Laws
- In any span of t seconds a bucket admits at most burst + per_second · t.
- A refused request pours nothing, into none of its buckets, so refusals do not prolong themselves.
- A bucket that has drained is the same as none, so forgetting it changes nothing; nothing else is ever forgotten. When
  all places are taken by buckets that still hold something, a new one is refused until one of them has drained.
- Time that runs backwards leaks nothing.
- N tables may stand for one, if each pours into its own what the others say that they admitted, also beyond the brim.
  When that takes d seconds at most, all of them together admit in any span of t seconds at most
  N · burst + per_second · (t + (N - 1) · d): a burst may be N times as large, the rate stays what it is.

Levels count millionths of a request and time counts microseconds, so that a rate of one per second leaks one of the
first in one of the second, and everything is an exact integer.
"""

from collections import OrderedDict
from collections.abc import Sequence

from holdfast.core import errors
from holdfast.core.limits import BUCKETS_LOOK, BUCKETS_MAX
from holdfast.core.values import Value

_UNIT = 1_000_000

Name = tuple[str, ...]  # ("account", "000000000000"), ("queue", arn), ("action", "000000000000", "SendMessage")


class RequestThrottled(errors.RequestThrottled, status=403):
    """With the time after which the same request would be admitted, if nothing else comes in between."""

    def __init__(self, message: str, *, retry_after_us: int) -> None:
        super().__init__(message)
        self.retry_after_us = retry_after_us


class Rate(Value, frozen=True):
    """Both in units of cost, usually requests. What costs more than `burst` never fits."""

    per_second: int
    burst: int

    def __post_init__(self) -> None:
        assert min(self.per_second, self.burst) > 0, "a rate must be positive"


Claim = tuple[Name, Rate]
Poured = list[tuple[Name, int]]  # what was admitted, in units of cost


class _Bucket:
    __slots__ = ("at", "level", "name", "rate")

    def __init__(self, name: Name, rate: Rate, at: int) -> None:
        self.name = name
        self.rate = rate
        self.level = 0  # at the instant `at`
        self.at = at

    def leak(self, now_us: int) -> None:
        if now_us > self.at:
            self.level = max(0, self.level - (now_us - self.at) * self.rate.per_second)
            self.at = now_us

    def wait_us(self, poured: int) -> int:
        """How long until so much fits; 0: now."""
        excess = self.level + poured - self.rate.burst * _UNIT
        return -(-excess // self.rate.per_second) if excess > 0 else 0

    def drain_us(self) -> int:
        return -(-self.level // self.rate.per_second)


class Buckets:
    """A bounded table. Owned by one loop."""

    def __init__(self, *, buckets_max: int = BUCKETS_MAX, is_shared: bool = False) -> None:
        self._buckets_max = buckets_max
        self._buckets: OrderedDict[Name, _Bucket] = OrderedDict()  # the next to be looked at is first
        self._untold: dict[Name, int] | None = {} if is_shared else None  # admitted here; other tables do not know it

    def __len__(self) -> int:
        return len(self._buckets)

    def admit(self, claims: Sequence[Claim], now_us: int, *, cost: int = 1) -> None:
        """All of the claims, which name different buckets, or RequestThrottled and none. O(claims)."""
        poured = cost * _UNIT
        buckets = self._find(claims, now_us)
        for bucket, claim in zip(buckets, claims, strict=True):
            if bucket.wait_us(poured):
                raise _throttled(claim, max(each.wait_us(poured) for each in buckets))
        for bucket in buckets:
            if not bucket.level:
                self._buckets[bucket.name] = bucket
            bucket.level += poured
        if self._untold is not None:
            for name, _ in claims:
                self._untold[name] = self._untold.get(name, 0) + cost

    def take_untold(self) -> Poured:
        """What was admitted since the last time, for the other tables."""
        assert self._untold is not None
        taken, self._untold = self._untold, {}
        return list(taken.items())

    def pour(self, claim: Claim, now_us: int, *, cost: int) -> None:
        """Another table has admitted it, so it is not asked whether there is room. Each of them has its places bounded,
        so all together this one's, too."""
        (bucket,) = self._find([claim], now_us, has_room=True)
        self._buckets[bucket.name] = bucket
        bucket.level += cost * _UNIT

    def _find(self, claims: Sequence[Claim], now_us: int, *, has_room: bool = False) -> list[_Bucket]:
        """New ones are not in the table before something is poured into them."""
        find = self._buckets.get
        buckets = [bucket for name, _ in claims if (bucket := find(name)) is not None]
        if len(buckets) < len(claims):
            if not has_room:
                self._make_room(len(claims), now_us)
            buckets = [find(name) or _Bucket(name, rate, now_us) for name, rate in claims]
        for bucket, (_, rate) in zip(buckets, claims, strict=True):
            bucket.leak(now_us)
            bucket.rate = rate
        return buckets

    def _make_room(self, count: int, now_us: int) -> None:
        waits_us = []
        for _ in range(min(BUCKETS_LOOK * count, len(self._buckets))):
            name, bucket = self._buckets.popitem(last=False)
            bucket.leak(now_us)
            if bucket.level:
                self._buckets[name] = bucket
                waits_us.append(bucket.drain_us())
        if len(self._buckets) + count > self._buckets_max:
            wait_us = min(waits_us, default=_UNIT)
            raise RequestThrottled("Too many rates are limited at once. Retry later.", retry_after_us=wait_us)


def _throttled(claim: Claim, wait_us: int) -> RequestThrottled:
    name, rate = claim
    return RequestThrottled(
        f"Request is throttled: the {name[0]} may be used {rate.per_second} times a second, with bursts of "
        f"{rate.burst}. Retry after {-(-wait_us // 1000)} ms.",
        retry_after_us=wait_us,
    )
