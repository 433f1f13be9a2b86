"""The least predicted latency among those that hold most of the prompt, unless they are much slower."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from hashlib import blake2b

from gateway.types import Bill, Candidate, Context

_DRAWS = 2**64


@dataclass(frozen=True, kw_only=True)
class LlmdLatencyAffinity:
    """The least predicted latency among those that hold most of the prompt, unless they are much slower.

    ::

        ttft   = wait_s + (prompt_tokens - warm_tokens) / prefill_tokens_per_s
        sticky = warm_tokens >= affinity_threshold x prompt_tokens
        kept   = the sticky ones, unless the best of them is max_ttft_penalty_s behind the best of the others;
                 else, for a share of requests, and where none is sticky: all
        first  = of those kept, the idle ones first, then the least of
                 ttft_weight x ttft + tpot_weight x seconds_per_token, each scaled to 0 to 1 over those kept

    llm-d's ``prefix-cache-affinity-filter`` and ``latency-scorer`` with their defaults, the filter's gate as its
    example for predicted latency has it. llm-d asks a model that it trains beside the router for both latencies; here
    they are the gateway's own predictions. Which request explores is drawn from its id.

    Attributes:
        affinity_threshold: the share of the prompt that makes a candidate sticky.
        exploration_share: the share of requests that look at all.
        max_ttft_penalty_s: how much later the first token may come for a warm cache's sake.
        ttft_weight: of the time to the first token.
        tpot_weight: of the time per token after that.

    Example::

        rank: {use: llmd_latency_affinity, max_ttft_penalty_s: 2}
    """

    affinity_threshold: float = 0.8
    exploration_share: float = 0.01
    max_ttft_penalty_s: float = 5.0
    ttft_weight: float = 0.8
    tpot_weight: float = 0.2

    def __post_init__(self) -> None:
        for name in ("affinity_threshold", "exploration_share"):
            if not 0 <= getattr(self, name) <= 1:
                raise ValueError(f"`{name}` must be from 0 to 1, and is {getattr(self, name)}")
        for name in ("max_ttft_penalty_s", "ttft_weight", "tpot_weight"):
            if not 0 <= getattr(self, name) < math.inf:
                raise ValueError(f"`{name}` must not be negative, and is {getattr(self, name)}")

    def order(self, ctx: Context, bills: tuple[Bill, ...]) -> tuple[Bill, ...]:
        """Those that are kept by latency, then the others by latency."""
        request_id = ctx.request.arrival.id
        prompt_tokens = ctx.forecast.prompt_tokens

        def ttft_s(candidate: Candidate) -> float:
            cold_tokens = max(prompt_tokens - candidate.warm_tokens, 0)
            return candidate.wait_s + cold_tokens / candidate.prefill_tokens_per_s

        least_tokens = max(self.affinity_threshold * prompt_tokens, 1)
        sticky = [bill for bill in bills if bill.candidate.warm_tokens >= least_tokens]
        others = [bill for bill in bills if bill.candidate.warm_tokens < least_tokens]
        if self._keeps_all(request_id, [[ttft_s(bill.candidate) for bill in group] for group in (sticky, others)]):
            return self._by_latency(bills, ttft_s, request_id)
        return self._by_latency(sticky, ttft_s, request_id) + self._by_latency(others, ttft_s, request_id)

    def _keeps_all(self, request_id: str, ttfts_s: Sequence[Sequence[float]]) -> bool:
        sticky_s, others_s = ttfts_s
        if not sticky_s or not others_s:
            return True
        if int.from_bytes(_digest(request_id), "big") < self.exploration_share * _DRAWS:
            return True
        return min(sticky_s) - min(others_s) > self.max_ttft_penalty_s

    def _by_latency(
        self, bills: Sequence[Bill], ttft_s: Callable[[Candidate], float], request_id: str
    ) -> tuple[Bill, ...]:
        ttft = _scaled([ttft_s(bill.candidate) for bill in bills])
        tpot = _scaled([bill.candidate.seconds_per_token for bill in bills])
        latency = {
            id(bill): self.ttft_weight * first + self.tpot_weight * each
            for bill, first, each in zip(bills, ttft, tpot, strict=True)
        }

        def key(bill: Bill) -> tuple[bool, float, bytes]:
            candidate = bill.candidate
            lot = _digest(request_id, candidate.backend, candidate.model)
            return candidate.in_flight > 0, latency[id(bill)], lot

        return tuple(sorted(bills, key=key))


def _scaled(numbers: Sequence[float]) -> list[float]:
    """From 0 for the least to 1 for the most; all 0 where they are equal, so that they do not count."""
    least, most = min(numbers, default=0.0), max(numbers, default=0.0)
    return [(number - least) / (most - least) if most > least else 0.0 for number in numbers]


def _digest(*names: str) -> bytes:
    return blake2b("\0".join(names).encode("utf-8", "surrogatepass"), digest_size=8).digest()
