"""A lane: one target of a route, with its backend's facts and all that is known of it; and the candidate it makes."""

from collections.abc import Sequence

from msgspec import Struct
from msgspec.structs import replace

from gateway.facts import BackendFacts
from gateway.fleet.adaptive_limit import AdaptiveLimit
from gateway.fleet.cooling import Cooling, cooling_key
from gateway.fleet.speeds import ATTENTION_TOKENS
from gateway.fleet.standing import Standing
from gateway.price import Price
from gateway.rules.route import Target
from gateway.types import Candidate

DRAINING = "draining"
"""Why a target that the policy file drains gets nothing new."""


class Look(Struct, frozen=True, gc=False):
    """What is the same for all candidates of a snapshot: the moment, seconds after the arrival, and who rests."""

    prompt_tokens: int
    now_s: float
    elapsed_s: float
    cooling: Cooling


class Lane:
    """What of a candidate stays the same from request to request, until the backend's facts change."""

    __slots__ = (
        "_idle",
        "_load_s",
        "backend",
        "cache",
        "cooling_key",
        "draining",
        "facts",
        "limit",
        "model",
        "standing",
    )

    def __init__(
        self,
        target: Target,
        model: str,
        facts: BackendFacts,
        standing: Standing,
        *,
        limit: AdaptiveLimit | None = None,
        price: Price | None = None,
    ) -> None:
        self.backend = target.backend
        self.draining = target.drain
        self.model = model
        self.facts = facts
        self.standing = standing
        self.limit = limit
        self._idle = _idle(target.backend, model, facts, price)  # a changed copy takes a third of the time of a new one
        self._load_s = facts.models.get(model, facts.unlisted).load_s
        self.cooling_key = cooling_key(target.backend, standing.model)
        self.cache = standing.cache

    def warm_tokens(self, depth: int, ends_bytes: Sequence[int], length_bytes: int, prompt_tokens: int) -> int:
        """How much of the prompt its cache is expected to save it, where it was sent the first ``depth`` chunks."""
        if not depth or not prompt_tokens or not self.facts.keeps_prefixes:
            return 0
        warm_tokens = ends_bytes[depth - 1] * prompt_tokens // length_bytes
        if warm_tokens >= prompt_tokens:  # of what is known to the last word the last token is computed all the same
            warm_tokens = prompt_tokens - 1
        rules = self.facts.prompt_cache
        return rules.hit_tokens(warm_tokens) if rules is not None else warm_tokens

    def candidate(self, look: Look, warm_tokens: int, warmest_tokens: int, in_flight: int) -> Candidate:
        """The snapshot: ``warmest_tokens`` is what the warmest of the other candidates holds."""
        standing, facts, work, prompt_tokens = self.standing, self.facts, self.standing.work, look.prompt_tokens
        cold_tokens = prompt_tokens - warm_tokens
        tokens_per_s = self._reads_tokens_per_s(warm_tokens, cold_tokens)
        told = facts.in_flight
        of_others = told - in_flight if told is not None and told > in_flight else 0  # of whom else the engine serves
        in_flight += of_others
        step_s = work.decoding.seconds_per_token(work.in_flight + of_others + 1, work.kv_tokens + prompt_tokens)
        if facts.seconds_per_token is not None:
            step_s *= facts.seconds_per_token / work.decoding.seconds_per_token(1, prompt_tokens)
        wait_s = work.queued_s(look.now_s) if work.in_flight else self._load_s
        places = self.places
        if places is not None and in_flight >= places:
            wait_s += work.slot_s(in_flight, places, step_s)
        first_token_s = wait_s + cold_tokens / tokens_per_s
        candidate = replace(
            self._idle,
            in_flight=in_flight,
            concurrency=places,
            queued_prefill_tokens=work.queued_prefill_tokens,
            running_output_tokens=work.running_output_tokens,
            warm_tokens=warm_tokens,
            prefill_tokens_per_s=tokens_per_s,
            seconds_per_token=step_s,
            failure_rate=standing.failure_rate(look.now_s) if standing.has_failed else 0.0,
            wait_s=wait_s,
            warm_elsewhere_tokens=warmest_tokens,
            held_tokens=work.kv_tokens,
            waiting=work.waiting,
            first_token_p50_s=look.elapsed_s + first_token_s * work.stretch.p50,
            first_token_p90_s=look.elapsed_s + first_token_s * work.stretch.p90,
        )
        if standing.window.too_long_tokens is not None:  # apart: with more than 15 keywords a call makes a dict of them
            candidate = replace(candidate, too_long_tokens=standing.window.too_long_tokens)
        resting = look.cooling.resting(self.cooling_key)
        if resting is None and facts.down is None and not self.draining and not standing.probing:
            return candidate
        down = self._down(look.cooling, resting)
        return candidate if down is None else replace(candidate, down=down[0], retry_in_s=down[1])

    def _reads_tokens_per_s(self, warm_tokens: int, cold_tokens: int) -> float:
        """What the backend measures itself goes before what was learned."""
        if self.facts.prefill_tokens_per_s is not None:
            return self.facts.prefill_tokens_per_s
        behind = 1 + (warm_tokens + cold_tokens / 2) / ATTENTION_TOKENS
        return 1 / (self.standing.work.prefill.slowness_s * behind)

    @property
    def places(self) -> int | None:
        """How many requests the backend takes at once, whichever model they are for; ``None`` for any number."""
        return self.facts.concurrency if self.limit is None else self.limit.now

    def down(self, cooling: Cooling) -> tuple[str, float | None] | None:
        """Why nothing should go there now, and in how many seconds that is over, where that is known."""
        return self._down(cooling, cooling.resting(self.cooling_key))

    def _down(self, cooling: Cooling, resting: tuple[str, float] | None) -> tuple[str, float | None] | None:
        if self.facts.down is not None:
            return self.facts.down, self.facts.back_in_s
        if self.draining:
            return DRAINING, None
        return resting or cooling.probed(self.standing)


def _idle(backend: str, model: str, facts: BackendFacts, price: Price | None) -> Candidate:
    """The candidate as its backend describes it, with nothing under way."""
    known = facts.models.get(model, facts.unlisted)
    return Candidate(
        backend=backend,
        model=model,
        operations=facts.operations,
        translates=facts.translates,
        capabilities=known.capabilities,
        carries=known.carries,
        refuses=known.refuses,
        context_tokens=known.context_tokens,
        price=price,
        in_flight=0,
        concurrency=facts.concurrency,
        queued_prefill_tokens=0,
        running_output_tokens=0,
        warm_tokens=0,
        prefill_tokens_per_s=1.0,
        seconds_per_token=0.0,
        failure_rate=0.0,
        card=known.card and known.card.brief,  # it is kept with each decision
    )
