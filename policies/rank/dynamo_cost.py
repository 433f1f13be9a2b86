"""The fewest tokens to read and to hold."""

import math
from dataclasses import dataclass

from gateway.types import Bill, Candidate, Context
from policies.rank._lot import lot


@dataclass(frozen=True, kw_only=True)
class DynamoCost:
    """The fewest tokens to read and to hold.

    ::

        read  = queued_prefill_tokens + prompt_tokens - overlap_credit x warm_tokens
        held  = held_tokens + prompt_tokens
        first = the least of  prefill_load_scale x read + held

    The cost of NVIDIA Dynamo's KV router (``lib/kv-router/src/scheduling/selector.rs``) with its defaults and a
    temperature of 0. Dynamo counts in blocks of the engine's cache; divided by their size or not, the order is the
    same. Its guide advises a larger ``prefill_load_scale``, 2 or 3, where the time to the first token matters.

    Equals are ordered by a digest of the request's id and the candidate's name.

    Attributes:
        prefill_load_scale: what a token to read is worth against a token to hold.
        overlap_credit: how much of a match counts, 0 to 1.

    Example::

        rank: {use: dynamo_cost, prefill_load_scale: 3}
    """

    prefill_load_scale: float = 1.0
    overlap_credit: float = 1.0

    def __post_init__(self) -> None:
        if not 0 <= self.prefill_load_scale < math.inf:
            raise ValueError(f"`prefill_load_scale` must not be negative, and is {self.prefill_load_scale}")
        if not 0 <= self.overlap_credit <= 1:
            raise ValueError(f"`overlap_credit` must be from 0 to 1, and is {self.overlap_credit}")

    def order(self, ctx: Context, bills: tuple[Bill, ...]) -> tuple[Bill, ...]:
        """The bills by ascending cost."""
        prompt_tokens = ctx.forecast.prompt_tokens
        request_id = ctx.request.arrival.id

        def cost(candidate: Candidate) -> float:
            credit = self.overlap_credit * min(candidate.warm_tokens, prompt_tokens)
            read = candidate.queued_prefill_tokens + prompt_tokens - credit
            return self.prefill_load_scale * read + candidate.held_tokens + prompt_tokens

        return tuple(sorted(bills, key=lambda bill: (cost(bill.candidate), lot(request_id, bill))))
