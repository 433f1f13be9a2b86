"""The longest match while loads are balanced, the fewest requests when they are not."""

import math
from dataclasses import dataclass, field

from gateway.types import Bill, Context
from policies.rank._lot import lot

_Name = tuple[str, str]
_NAMES_KEPT = 4096


class _Trees:
    """How many tokens of prompts each candidate's tree has grown by. A request counts when the next one comes."""

    __slots__ = ("_fresh", "_request_id", "_tokens")

    def __init__(self) -> None:
        self._tokens: dict[_Name, int] = {}
        self._request_id = ""
        self._fresh: tuple[_Name, int] | None = None

    def begin(self, request_id: str, most_tokens: int) -> None:
        """Another request, or the same one again, which changes nothing."""
        if request_id == self._request_id or self._fresh is None:
            return
        name, tokens = self._fresh
        self._fresh = None
        if name not in self._tokens and len(self._tokens) >= _NAMES_KEPT:
            self._tokens.clear()
        self._tokens[name] = min(self._tokens.get(name, 0) + tokens, most_tokens)

    def sent(self, request_id: str, bill: Bill, tokens: int) -> None:
        """The request goes there, with so many tokens that the tree does not have."""
        self._request_id = request_id
        self._fresh = (bill.candidate.backend, bill.candidate.model), tokens

    def size_tokens(self, bill: Bill) -> int:
        """The candidate's tree."""
        return self._tokens.get((bill.candidate.backend, bill.candidate.model), 0)


@dataclass(frozen=True, kw_only=True)
class SglangCacheAware:
    """The longest match while loads are balanced, the fewest requests when they are not.

    ::

        unbalanced = most - least > balance_abs_threshold  and  most > balance_rel_threshold x least
        unbalanced:                               first = the least in_flight
        else, longest match > cache_threshold:    first = the longest match
        else:                                     first = the smallest tree

    The ``cache_aware`` policy of SGLang's router (``sgl-router/src/policies/cache_aware.rs``) with the defaults of its
    command line (``router_args.py``). ``most`` and ``least`` are requests under way, and the match is the share of the
    prompt that the candidate is expected to hold. Its tree is all that it was sent and did not have, up to the size at
    which the router begins to evict. Below an imbalance of ``balance_abs_threshold`` requests, a match of a third of
    the prompt outweighs any queue.

    Each replica of the gateway has trees of its own. Equals are ordered by a digest of the request's id and the
    candidate's name.

    Attributes:
        cache_threshold: the match from which on it decides, 0 to 1.
        balance_abs_threshold: the difference of requests that is still balance.
        balance_rel_threshold: the ratio of requests that is still balance.
        max_tree_tokens: the largest tree; the router's default is 2^26 characters.

    Example::

        rank: {use: sglang_cache_aware, cache_threshold: 0.5}
    """

    cache_threshold: float = 0.3
    balance_abs_threshold: int = 64
    balance_rel_threshold: float = 1.5
    max_tree_tokens: int = 16_777_216
    _trees: _Trees = field(init=False, repr=False, compare=False, default_factory=_Trees)

    def __post_init__(self) -> None:
        if not 0 <= self.cache_threshold <= 1:
            raise ValueError(f"`cache_threshold` must be from 0 to 1, and is {self.cache_threshold}")
        if self.balance_abs_threshold < 0:
            raise ValueError(f"`balance_abs_threshold` must not be negative, and is {self.balance_abs_threshold}")
        if not 1 <= self.balance_rel_threshold < math.inf:
            raise ValueError(f"`balance_rel_threshold` must be at least 1, and is {self.balance_rel_threshold}")
        if self.max_tree_tokens < 1:
            raise ValueError(f"`max_tree_tokens` must be at least 1, and is {self.max_tree_tokens}")

    def order(self, ctx: Context, bills: tuple[Bill, ...]) -> tuple[Bill, ...]:
        """The bills in the order of the rule that applies."""
        if not bills:
            return bills
        loads = [bill.candidate.in_flight for bill in bills]
        most, least = max(loads), min(loads)
        matched_tokens = max(bill.candidate.warm_tokens for bill in bills)
        unbalanced = most - least > self.balance_abs_threshold and most > self.balance_rel_threshold * least
        matched = matched_tokens > self.cache_threshold * ctx.forecast.prompt_tokens
        request_id, trees = ctx.request.arrival.id, self._trees
        trees.begin(request_id, self.max_tree_tokens)

        def key(bill: Bill) -> tuple[int, bytes]:
            candidate = bill.candidate
            place = lot(request_id, bill)
            if unbalanced:
                return candidate.in_flight, place
            return (-candidate.warm_tokens if matched else trees.size_tokens(bill)), place

        order = tuple(sorted(bills, key=key))
        trees.sent(request_id, order[0], max(ctx.forecast.prompt_tokens - order[0].candidate.warm_tokens, 0))
        return order
