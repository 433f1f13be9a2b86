"""The ``Shared`` port for a gateway that runs alone: a dictionary whose values expire."""

from collections import OrderedDict
from collections.abc import Sequence

from gateway.ports import Clock


class MemoryShared:
    """Values with a time to live, at most ``capacity`` of them; the one that was put longest ago goes first."""

    def __init__(self, clock: Clock, *, capacity: int = 65_536) -> None:
        self._clock = clock
        self._capacity = capacity
        self._values: OrderedDict[str, tuple[str, float]] = OrderedDict()

    def __len__(self) -> int:
        return len(self._values)

    def put(self, key: str, value: str, ttl_s: float) -> None:
        """Remembers ``value`` for ``ttl_s`` seconds; a value that would expire at once is forgotten instead."""
        self._values.pop(key, None)
        if ttl_s <= 0:
            return
        self._values[key] = (value, self._clock.now_s() + ttl_s)
        if len(self._values) > self._capacity:
            self._values.popitem(last=False)

    def get(self, key: str) -> tuple[str, float] | None:
        """The value and the seconds it has left, or ``None``."""
        found = self._values.get(key)
        if found is None:
            return None
        value, expires_s = found
        left_s = expires_s - self._clock.now_s()
        if left_s <= 0:
            del self._values[key]
            return None
        return value, left_s

    def values_under(self, prefix: str) -> Sequence[str]:
        """The values whose keys begin so, those that have expired left out."""
        now_s = self._clock.now_s()
        return [
            value for key, (value, expires_s) in self._values.items() if expires_s > now_s and key.startswith(prefix)
        ]
