"""A lane: one target of a route, with its backend's facts and all that is known of it; and the candidate it makes."""

from collections.abc import Sequence

from gateway.cooling import Cooling
from gateway.facts import BackendFacts
from gateway.route import Target
from gateway.standing import Standing
from gateway.types import Candidate, Context


class Lane:
    """What of a candidate stays the same from request to request, until the backend's facts change."""

    __slots__ = ("backend", "cache", "draining", "facts", "known", "model", "standing")

    def __init__(self, target: Target, model: str, facts: BackendFacts, standing: Standing) -> None:
        self.backend = target.backend
        self.draining = target.drain
        self.model = model
        self.facts = facts
        self.known = facts.models.get(model, facts.unlisted)
        self.standing = standing
        self.cache = standing.cache

    def warm_tokens(self, depth: int, ends_bytes: Sequence[int], length_bytes: int, prompt_tokens: int) -> int:
        """How much of the prompt its cache is expected to save it, where it was sent the first ``depth`` chunks."""
        if not depth or not self.facts.keeps_prefixes:
            return 0
        # Of a prompt that is known to the last word, the last token is computed all the same: it makes the first one.
        warm_tokens = min(ends_bytes[depth - 1] * prompt_tokens // length_bytes, max(prompt_tokens - 1, 0))
        rules = self.facts.prompt_cache
        return rules.hit_tokens(warm_tokens) if rules is not None else warm_tokens

    def candidate(
        self, ctx: Context, *, warm_tokens: int, warmest_tokens: int, in_flight: int, now_s: float, cooling: Cooling
    ) -> Candidate:
        """The snapshot: ``warmest_tokens`` is what the warmest of the other candidates holds."""
        facts, known, standing = self.facts, self.known, self.standing
        work = standing.work
        cold_tokens = ctx.forecast.prompt_tokens - warm_tokens
        prefill_tokens_per_s, read_s = self._reading(cold_tokens, warm_tokens)
        seconds_per_token = self._writing(ctx.forecast.prompt_tokens)
        wait_s = work.queued_s(now_s)
        if facts.concurrency is not None and in_flight >= facts.concurrency:
            wait_s += work.slot_s(in_flight, facts.concurrency, seconds_per_token)
        elapsed_s = now_s - ctx.request.arrival.received_s
        stretch, first_token_s = work.stretch, wait_s + read_s
        down, retry_in_s = self._down(cooling)
        return Candidate(
            backend=self.backend,
            model=self.model,
            operations=facts.operations,
            capabilities=known.capabilities,
            carries=known.carries,
            context_tokens=known.context_tokens,
            price=known.price,
            in_flight=in_flight,
            concurrency=facts.concurrency,
            queued_prefill_tokens=work.queued_prefill_tokens,
            running_output_tokens=work.running_output_tokens,
            warm_tokens=warm_tokens,
            prefill_tokens_per_s=prefill_tokens_per_s,
            seconds_per_token=seconds_per_token,
            failure_rate=standing.failure_rate(now_s),
            wait_s=wait_s,
            warm_elsewhere_tokens=warmest_tokens,
            held_tokens=work.kv_tokens,
            waiting=work.waiting,
            first_token_p50_s=elapsed_s + first_token_s * stretch.p50,
            first_token_p90_s=elapsed_s + first_token_s * stretch.p90,
            down=down,
            retry_in_s=retry_in_s,
        )

    def _reading(self, cold_tokens: int, warm_tokens: int) -> tuple[float, float]:
        """Tokens per second, and seconds for this prompt. What the backend measures itself goes first."""
        measured = self.facts.prefill_tokens_per_s
        if measured is not None:
            return measured, cold_tokens / measured
        prefill = self.standing.work.prefill
        if cold_tokens <= 0:
            return 1 / prefill.slowness_s, 0.0
        read_s = prefill.seconds(cold_tokens, warm_tokens)
        return cold_tokens / read_s, read_s

    def _writing(self, prompt_tokens: int) -> float:
        """Seconds per token, with this request beside all that is under way there."""
        work = self.standing.work
        under_load_s = work.decoding.seconds_per_token(work.in_flight + 1, work.kv_tokens + prompt_tokens)
        measured = self.facts.seconds_per_token
        if measured is None:
            return under_load_s
        return (
            measured * under_load_s / work.decoding.seconds_per_token(1, prompt_tokens) if work.in_flight else measured
        )

    def _down(self, cooling: Cooling) -> tuple[str | None, float | None]:
        if self.facts.down is not None:
            return self.facts.down, self.facts.back_in_s
        if self.draining:
            return "draining", None
        return cooling.down(self.backend, self.standing) or (None, None)
