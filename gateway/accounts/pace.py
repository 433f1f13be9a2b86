"""How fast a tenant may tell of its tasks: a bucket for each, so that none can fill the ledger for the others."""

from collections import OrderedDict

from gateway.errors import LimitExceeded
from gateway.ports import Clock

PER_SECOND = 100.0
MOST_AT_ONCE = 1000.0
_MOST_TENANTS = 10_000


class Pace:
    """Token buckets that fill with ``PER_SECOND`` to ``MOST_AT_ONCE``."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._buckets: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def spend(self, tenant: str) -> None:
        """Takes one.

        Raises:
            LimitExceeded: there is none; ``retry_after_s`` is when there will be.
        """
        now_s = self._clock.now_s()
        left, then_s = self._buckets.pop(tenant, (MOST_AT_ONCE, now_s))
        left = min(left + (now_s - then_s) * PER_SECOND, MOST_AT_ONCE)
        enough = left >= 1
        self._buckets[tenant] = (left - enough, now_s)
        if len(self._buckets) > _MOST_TENANTS:
            self._buckets.popitem(last=False)
        if not enough:
            words = f"a tenant may tell {PER_SECOND:g} outcomes a second"
            raise LimitExceeded(words, retry_after_s=(1 - left) / PER_SECOND)
