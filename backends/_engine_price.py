"""What an answer of the embedded engine costs: its part of the hours of the machine."""

from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from typing import ClassVar

from embedded_engine.messages import Ready
from gateway.price import MILLION, Price

_SECONDS_PER_HOUR = 3600


@dataclass(frozen=True, kw_only=True)
class EnginePrice(Price):
    """What a token is expected to cost at the speeds that were measured at load, for a request that is alone."""

    source: ClassVar[str] = "engine"


def engine_price(usd_per_hour: Decimal, ready: Ready) -> EnginePrice:
    """The price by which answers are expected to cost what they do; ``usd_for`` is what they cost."""
    usd_per_second = usd_per_hour / _SECONDS_PER_HOUR
    return EnginePrice(
        input_usd_per_mtok=usd_per_second / Decimal(ready.self_test.prefill_tokens_per_s) * MILLION,
        output_usd_per_mtok=usd_per_second * Decimal(ready.self_test.decode_s_per_token) * MILLION,
    )


def usd_for(usd_per_hour: Decimal, busy_s: float) -> Decimal:
    """US dollars for seconds of the machine."""
    return usd_per_hour * Decimal(busy_s) / _SECONDS_PER_HOUR


class BusyMeter:
    """Divides the time in which the engine has something to do among the requests in it, at every moment equally.

    So the parts add up to the time that it was busy. ``in_flight`` is how many requests the engine has, whoever sent
    them, where it tells: of several processes that share it each sees its own. The time that passes while nothing is
    in it is nobody's.
    """

    def __init__(self, now_s: Callable[[], float], in_flight: Callable[[], int | None]) -> None:
        self._now_s = now_s
        self._in_flight = in_flight
        self._ours = 0
        self._at_s = 0.0
        self._share_s = 0.0

    def enter(self) -> float:
        """A request goes in; what it must show when it leaves."""
        self._advance()
        self._ours += 1
        return self._share_s

    def leave(self, entered: float) -> float:
        """It is out; its part of the time in between, in seconds."""
        self._advance()
        self._ours -= 1
        return self._share_s - entered

    def _advance(self) -> None:
        now_s = self._now_s()
        if self._ours:
            self._share_s += (now_s - self._at_s) / max(self._ours, self._in_flight() or 0)
        self._at_s = now_s
