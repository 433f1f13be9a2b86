"""Live facts of every backend, learned from our own dispatches, first tokens and ends; and snapshots of them.

It needs nothing from the engines, though what a backend measures itself (``BackendFacts``) takes precedence.
"""

from collections import Counter
from collections.abc import Iterable, Mapping

from gateway.errors import HeadraceError
from gateway.ports import Backend, BackendFacts, Clock, Shared
from gateway.prefix import PrefixIndex, chain
from gateway.route import Route, Target
from gateway.standing import Standing
from gateway.types import Candidate, Context, Usage

WARM_BLOCKS = 100_000
"""Chunks of 2 KB whose whereabouts are remembered: about 50 million tokens of prompts in about 15 MB."""

_LONGEST_COOL_S = 60.0
_TOLERATED_FAILURES = 2


class Flight:
    """One attempt under way, from dispatch to landing; what is given back is given back exactly once."""

    __slots__ = ("_backend", "_chain", "_ctx", "_fleet", "_fresh_tokens", "_standing", "_started_s", "_waiting")

    def __init__(self, fleet: "Fleet", ctx: Context, candidate: Candidate, facts: BackendFacts) -> None:
        self._fleet = fleet
        self._ctx = ctx
        self._backend = candidate.backend
        self._standing = fleet.standing(candidate.backend, candidate.model, facts)
        self._chain = fleet.chain(ctx, candidate.model) if facts.keeps_prefixes else ()
        self._fresh_tokens = max(ctx.forecast.prompt_tokens - candidate.warm_tokens, 0)
        self._started_s = fleet.clock.now_s()
        self._waiting = True
        self._standing.dispatched(self._fresh_tokens, ctx.forecast.output_tokens_p50)
        fleet.in_flight[self._backend] += 1

    def first_token(self, now_s: float) -> None:
        """The prompt is read: it waits no longer, and its prefix is warm there."""
        if not self._waiting:
            return
        self._waiting = False
        self._standing.prefilled(self._fresh_tokens, now_s - self._started_s)
        self._fleet.prefixes.remember(self._chain, self._backend)

    def landed(self, *, usage: Usage | None, decode_s: float | None, error: HeadraceError | None, now_s: float) -> None:
        """The attempt is over. ``decode_s`` is the time from first to last token, where both were seen."""
        # First what is to be given back, then what can be learned: a mistake there must not keep a place for ever.
        gave_up, self._waiting = self._waiting, False
        self._fleet.in_flight[self._backend] -= 1
        self._standing.landed(self._ctx.forecast.output_tokens_p50)
        if gave_up:
            self._standing.gave_up_prefill(self._fresh_tokens)
            if error is None:  # a whole answer: its first token was never seen, its prompt was read all the same
                self._fleet.prefixes.remember(self._chain, self._backend)
        if usage is not None and not usage.estimated and decode_s is not None:
            self._standing.decoded(usage.output_tokens, decode_s)
        self._fleet.judge(self._backend, self._standing, error, dispatched_s=self._started_s, now_s=now_s)


class Fleet:
    """All backends as the gateway sees them. One instance outlives every reload of the policy file."""

    def __init__(self, *, clock: Clock, shared: Shared) -> None:
        self.clock = clock
        self.prefixes = PrefixIndex(WARM_BLOCKS)
        self._shared = shared
        self.in_flight: Counter[str] = Counter()
        self._away: set[str] = set()
        self._standings: dict[tuple[str, str], Standing] = {}
        self._last_chain: tuple[str, str, tuple[bytes, ...]] = ("", "", ())

    def standing(self, backend: str, model: str, facts: BackendFacts) -> Standing:
        """The live numbers of a model at a backend, made on first sight.

        Bounded: models that the backend's facts do not list share one record, since clients choose their names.
        """
        listed = model if model in facts.models else ""
        known = self._standings.get((backend, listed))
        if known is None:
            known = self._standings[backend, listed] = Standing(model=listed)
        return known

    def chain(self, ctx: Context, model: str) -> tuple[bytes, ...]:
        """The prefix digests of the request, kept for the moment in which several candidates ask for the same."""
        request_id, last_model, digests = self._last_chain
        if (request_id, last_model) != (ctx.request.arrival.id, model):
            digests = chain(ctx.request, model)
            self._last_chain = (ctx.request.arrival.id, model, digests)
        return digests

    def snapshot(self, route: Route, ctx: Context, backends: Mapping[str, Backend]) -> tuple[Candidate, ...]:
        """One candidate per target of the route, as things stand now."""
        now_s = self.clock.now_s()
        facts = {target.backend: backends[target.backend].facts() for target in route.targets}
        self._notice_those_away(facts)
        named = [
            (target.backend, _model_at(target, facts[target.backend], ctx.request.model)) for target in route.targets
        ]
        warm = self._warm_bytes(ctx, [pair for pair in named if facts[pair[0]].keeps_prefixes])
        return tuple(
            [
                self._candidate(ctx, backend, model, facts[backend], warm.get((backend, model), 0), now_s)
                for backend, model in named
            ]
        )

    def _warm_bytes(self, ctx: Context, named: Iterable[tuple[str, str]]) -> Mapping[tuple[str, str], int]:
        """How much of the prompt each backend and model has been sent before; one walk per model."""
        by_model: dict[str, list[str]] = {}
        for backend, model in named:
            by_model.setdefault(model, []).append(backend)
        found: dict[tuple[str, str], int] = {}
        for model, backends in by_model.items():
            digests = self.chain(ctx, model)
            if digests:
                for backend, warm_bytes in self.prefixes.warm_bytes(digests, backends).items():
                    found[backend, model] = warm_bytes
        return found

    def forget(self, backend: str) -> None:
        """The backend has left or starts anew: nothing is warm there any more."""
        self.prefixes.forget(backend)

    def cooling(self, backend: str, facts: BackendFacts) -> str | None:
        """Why the backend rests, where all of its models do."""
        self._notice_those_away({backend: facts})
        found = [self._shared.get(_cool_key(backend, model)) for model in facts.models or ("",)]
        reasons = [cooling[0] for cooling in found if cooling is not None]
        return reasons[0] if len(reasons) == len(found) else None

    def _notice_those_away(self, facts: Mapping[str, BackendFacts]) -> None:
        """A backend that was down comes back as another one: with a cold cache, and with a clean record.

        Walking over the index once for that is enough.
        """
        for name, known in facts.items():
            if known.down is None and name in self._away:
                self._away.discard(name)
                self._begin_anew(name)
            elif known.down is not None and name not in self._away:
                self._away.add(name)
                self.prefixes.forget(name)

    def _begin_anew(self, backend: str) -> None:
        now_s = self.clock.now_s()
        for (name, model), standing in self._standings.items():
            if name == backend:
                standing.begin_anew(now_s)
                self._shared.put(_cool_key(backend, model), "", 0)

    def _candidate(
        self, ctx: Context, backend: str, model: str, facts: BackendFacts, warm_bytes: int, now_s: float
    ) -> Candidate:
        known = facts.models.get(model, facts.unlisted)
        standing = self.standing(backend, model, facts)
        down, retry_in_s = self._down(backend, facts, standing)
        prompt_bytes = max(ctx.request.prompt_bytes, 1)
        return Candidate(
            backend=backend,
            model=model,
            operations=facts.operations,
            capabilities=known.capabilities,
            carries=known.carries,
            context_tokens=known.context_tokens,
            price=known.price,
            in_flight=self.in_flight[backend],
            concurrency=facts.concurrency,
            queued_prefill_tokens=standing.queued_prefill_tokens,
            running_output_tokens=standing.running_output_tokens,
            warm_tokens=min(warm_bytes * ctx.forecast.prompt_tokens // prompt_bytes, ctx.forecast.prompt_tokens),
            prefill_tokens_per_s=facts.prefill_tokens_per_s or standing.prefill_tokens_per_s,
            seconds_per_token=facts.seconds_per_token or standing.seconds_per_token,
            failure_rate=standing.failure_rate(now_s),
            down=down,
            retry_in_s=retry_in_s,
        )

    def _down(self, backend: str, facts: BackendFacts, standing: Standing) -> tuple[str | None, float | None]:
        if facts.down is not None:
            return facts.down, facts.back_in_s
        cooling = self._shared.get(_cool_key(backend, standing.model))
        return (cooling[0], cooling[1]) if cooling else (None, None)

    def judge(
        self, backend: str, standing: Standing, error: HeadraceError | None, *, dispatched_s: float, now_s: float
    ) -> None:
        """Takes an ended attempt into the backend's record, and cools it where the error asks for that.

        A client's own error, a hang-up and our own bugs say nothing about a backend.
        """
        if error is None:
            standing.succeeded(now_s)
        elif error.blames_backend:
            goes_on = standing.failed(dispatched_s=dispatched_s, now_s=now_s)
            cool_s = _cool_s(error, standing.failures_in_a_row if goes_on else 0)
            cooling = self._shared.get(_cool_key(backend, standing.model))
            if cool_s > (cooling[1] if cooling else 0.0):
                self._shared.put(_cool_key(backend, standing.model), f"cooling after {error.code}", cool_s)


def _cool_key(backend: str, model: str) -> str:
    return f"cooling/{backend}/{model}"


def _cool_s(error: HeadraceError, failures_in_a_row: int) -> float:
    """How long a backend rests: what it asked for, else longer with every failure in a row. Slowness has no haste."""
    back_off_s = 0.0
    if failures_in_a_row > _TOLERATED_FAILURES:
        back_off_s = min(2.0 ** (failures_in_a_row - _TOLERATED_FAILURES - 1), _LONGEST_COOL_S)
    asked_s = error.rest_s if error.retry_after_s is None else error.retry_after_s
    return max(asked_s, back_off_s)


def _model_at(target: Target, facts: BackendFacts, asked: str) -> str:
    """The model's name at the target: the one it names, else the one asked for, else the backend's only one."""
    if target.model is not None:
        return target.model
    if asked not in facts.models and len(facts.models) == 1:
        return next(iter(facts.models))
    return asked
