"""One attempt under way: what the fleet is told of it, from its dispatch to its landing."""

from bisect import bisect_right

from gateway.conversation import prompt_count
from gateway.errors import HeadraceError, UpstreamContextExceeded, UpstreamRateLimited, UpstreamTimeout
from gateway.facts import BackendFacts
from gateway.fleet.events import Dispatched, FirstToken, Landed
from gateway.fleet.fleet import Fleet
from gateway.fleet.prompt_chain import PromptChain
from gateway.fleet.workload import Leg
from gateway.price import Usage
from gateway.types import Candidate, Context


class Flight:
    """One attempt under way, from dispatch to landing; what is given back is given back exactly once."""

    __slots__ = (
        "_added",
        "_backend",
        "_believed",
        "_chain",
        "_distance",
        "_fleet",
        "_leg",
        "_limit",
        "_probes",
        "_sample",
        "_standing",
        "_window_tokens",
        "number",
    )

    def __init__(self, fleet: Fleet, ctx: Context, candidate: Candidate, facts: BackendFacts) -> None:
        now_s = fleet.clock.now_s()
        prompt_tokens = ctx.forecast.prompt_tokens
        fresh_tokens = max(prompt_tokens - candidate.warm_tokens, 0)
        self._fleet = fleet
        self._backend = candidate.backend
        self._window_tokens = 0  # of what is passed on nobody knows how much of it has to fit
        if ctx.request.units is None:
            self._window_tokens = prompt_tokens // prompt_count(ctx.request.prompt) + (ctx.request.max_tokens or 1)
        self._standing = standing = fleet.standing(candidate.backend, candidate.model, facts)
        self._chain: PromptChain | None = fleet.chains.chain(ctx.request) if facts.keeps_prefixes else None
        self._believed = chunks_of(self._chain, candidate.warm_tokens, prompt_tokens) if self._chain else 0
        self._probes = fleet.cooldowns.probes(standing)
        self._distance = self._distance_blocks()
        self._added: tuple[bytes, ...] = ()
        standing.probing += self._probes
        self._leg = Leg(
            prompt_tokens=prompt_tokens,
            fresh_tokens=fresh_tokens,
            output_tokens=ctx.forecast.output_tokens_p50,
            streams=ctx.request.stream and ctx.request.units is None,
        )
        standing.work.dispatched(self._leg, now_s, read_s=fresh_tokens / candidate.prefill_tokens_per_s)
        if self._chain is not None and not standing.warm_at_first_token:
            self._added = fleet.prefixes.sent(self._chain.digests, standing.cache, now_s)
        fleet.in_flight[self._backend] += 1
        fleet.rooms.release(ctx.request.arrival.id)  # what was held for it on the way in is its own place now
        self._limit = fleet.limit(self._backend, facts)
        self._sample = (standing.work.queued_prefill_tokens, fleet.in_flight[self._backend])
        self.number = fleet.took_off(self)
        if fleet.tell is not None:
            fleet.tell(self.told())

    def told(self, *, age_s: float = 0.0) -> Dispatched:
        """What other replicas are told of its dispatch."""
        leg = self._leg
        return Dispatched(
            replica=self._fleet.replica,
            flight=self.number,
            backend=self._backend,
            model=self._standing.model,
            prompt_tokens=leg.prompt_tokens,
            fresh_tokens=leg.fresh_tokens,
            output_tokens=leg.output_tokens,
            streams=leg.streams,
            digests=b"".join(self._chain.digests) if self._chain is not None else b"",
            believed_chunks=self._believed,
            age_s=age_s,
        )

    @property
    def dispatched_s(self) -> float:
        """When it was sent off."""
        return self._leg.dispatched_s

    @property
    def read(self) -> bool:
        """Whether its first token was seen."""
        return self._leg.seen

    def first_token(self, now_s: float) -> None:
        """The prompt is read: it waits no longer, and its prefix is warm there."""
        if self._leg.seen or self._leg.over:
            return
        leg, standing = self._leg, self._standing
        standing.work.first_token(leg, now_s)
        standing.progress.first_token(
            expected_s=leg.wait_s + leg.read_s, actual_s=max(now_s - leg.dispatched_s, 0.0), now_s=now_s
        )
        if self._limit is not None:
            tokens, in_flight = self._sample
            sent_s = self._leg.dispatched_s
            self._limit.succeeded(
                seconds=now_s - sent_s, tokens=tokens, in_flight=in_flight, dispatched_s=sent_s, now_s=now_s
            )
        self._warm(now_s)
        if self._fleet.tell is not None:
            self._fleet.tell(FirstToken(self._fleet.replica, self.number))

    def landed(self, *, usage: Usage | None, decode_s: float | None, error: HeadraceError | None, now_s: float) -> None:
        """The attempt is over. ``decode_s`` is the time from first to last token, where both were seen."""
        # First what is to be given back, then what can be learned: a mistake there must not keep a place for ever.
        fleet, standing = self._fleet, self._standing
        fleet.in_flight[self._backend] -= 1
        fleet.rooms.freed()
        fleet.landed(self.number)
        standing.probing -= self._probes
        standing.work.landed(self._leg, now_s)
        judgement = fleet.cooldowns.judge(
            self._backend, standing, error, dispatched_s=self._leg.dispatched_s, now_s=now_s
        )
        if error is None:
            standing.window.served(self._window_tokens)
        elif isinstance(error, UpstreamContextExceeded) and self._window_tokens:
            standing.window.refused(self._window_tokens)
        if isinstance(error, UpstreamTimeout) and error.blames_backend and self._leg.streams:
            standing.progress.stalled(dispatched_s=self._leg.dispatched_s, now_s=now_s)
        if self._limit is not None and not self._leg.seen and isinstance(error, (UpstreamRateLimited, UpstreamTimeout)):
            self._limit.dropped(dispatched_s=self._leg.dispatched_s, now_s=now_s)
        read = self._leg.seen or error is None  # a whole answer's first token is not seen, its prompt is read
        if not read:
            fleet.prefixes.take_back(self._added, standing.cache)
        elif not self._leg.seen:
            self._warm(now_s)
        self._learn(usage, decode_s, read=read, judgement=judgement)

    def _learn(self, usage: Usage | None, decode_s: float | None, *, read: bool, judgement: int) -> None:
        fleet, standing, found, output_tokens = self._fleet, self._standing, -1, 0
        if usage is not None and not usage.estimated:
            if decode_s is not None:
                output_tokens = usage.output_tokens
                standing.work.wrote(self._leg, output_tokens, decode_s)
            if self._chain is not None and usage.prompt_tokens > 0:
                found = chunks_of(self._chain, usage.cached_tokens, usage.prompt_tokens)
                fleet.found(standing, believed=self._believed, found=found, distance=self._distance)
        if fleet.tell is not None:
            fleet.tell(
                Landed(
                    replica=fleet.replica,
                    flight=self.number,
                    output_tokens=output_tokens,
                    decode_s=decode_s or 0.0,
                    found_chunks=found,
                    read=read,
                    judgement=judgement,
                )
            )

    def _distance_blocks(self) -> int | None:
        """How long ago, in chunks, the backend last read the end of what it is believed to have of the prompt."""
        if self._chain is None or not self._believed:
            return None
        return self._standing.cache.distance_blocks(self._chain.digests[self._believed - 1])

    def _warm(self, now_s: float) -> None:
        if self._chain is not None:
            self._fleet.prefixes.read(self._chain.digests, self._standing.cache, now_s)


def chunks_of(chain: PromptChain, tokens: int, prompt_tokens: int) -> int:
    """How many chunks of the chain ``tokens`` of its ``prompt_tokens`` are, to the nearest one."""
    if tokens <= 0 or prompt_tokens <= 0 or not chain.ends_bytes:
        return 0
    reach_bytes = min(tokens / prompt_tokens, 1.0) * chain.length_bytes
    return bisect_right(chain.ends_bytes, reach_bytes + chain.length_bytes / len(chain.ends_bytes) / 2)
