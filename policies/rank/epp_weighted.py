"""The best weighted sum of a short queue, a free cache and a long match."""

import math
from dataclasses import dataclass

from gateway.types import Bill, Candidate, Context
from policies.rank._lot import lot


@dataclass(frozen=True, kw_only=True)
class EppWeighted:
    """The best weighted sum of a short queue, a free cache and a long match.

    ::

        queue  = (longest queue - its queue) / (longest - shortest); 1 where all are equal
        kv     = 1 - held_tokens / kv_cache_tokens
        prefix = warm_tokens / prompt_tokens
        first  = the most of  queue_weight x queue + kv_weight x kv + prefix_weight x prefix

    The endpoint picker of the Gateway API Inference Extension and llm-d: ``queue-scorer``,
    ``kv-cache-utilization-scorer`` and ``prefix-cache-scorer`` with the weights of its chart
    (``routerlib/templates/_config.yaml``) and ``max-score-picker``. It asks the engines for their queues and caches
    every 50 ms; here both are what the gateway has sent there itself, which is never older.

    Equals are ordered by a digest of the request's id and the candidate's name.

    Attributes:
        queue_weight: of a short queue.
        kv_weight: of a free cache.
        prefix_weight: of a long match.
        kv_cache_tokens: how many tokens the cache of an engine holds (vLLM logs it as "GPU KV cache size").

    Example::

        rank: {use: epp_weighted, kv_cache_tokens: 500000}
    """

    queue_weight: float = 2.0
    kv_weight: float = 2.0
    prefix_weight: float = 3.0
    kv_cache_tokens: int = 2_560_000

    def __post_init__(self) -> None:
        for name in ("queue_weight", "kv_weight", "prefix_weight"):
            if not 0 <= getattr(self, name) < math.inf:
                raise ValueError(f"`{name}` must not be negative, and is {getattr(self, name)}")
        if self.kv_cache_tokens < 1:
            raise ValueError(f"`kv_cache_tokens` must be at least 1, and is {self.kv_cache_tokens}")

    def order(self, ctx: Context, bills: tuple[Bill, ...]) -> tuple[Bill, ...]:
        """The bills by descending score."""
        queues = [bill.candidate.waiting for bill in bills]
        longest, spread = max(queues, default=0), max(queues, default=0) - min(queues, default=0)
        prompt_tokens = max(ctx.forecast.prompt_tokens, 1)
        request_id = ctx.request.arrival.id

        def score(candidate: Candidate) -> float:
            queue = (longest - candidate.waiting) / spread if spread else 1.0
            kv = 1 - min(candidate.held_tokens / self.kv_cache_tokens, 1.0)
            prefix = min(candidate.warm_tokens / prompt_tokens, 1.0)
            return self.queue_weight * queue + self.kv_weight * kv + self.prefix_weight * prefix

        return tuple(sorted(bills, key=lambda bill: (-score(bill.candidate), lot(request_id, bill))))
