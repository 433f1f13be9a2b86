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
        request, forecast, warm_tokens = ctx.request, ctx.forecast, candidate.warm_tokens
        prompt_tokens = forecast.prompt_tokens
        fresh_tokens = prompt_tokens - warm_tokens if warm_tokens < prompt_tokens else 0
        self._fleet = fleet
        self._backend = backend = candidate.backend
        self._window_tokens = 0  # of what is passed on nobody knows how much of it has to fit
        if request.units is None:
            self._window_tokens = prompt_tokens // prompt_count(request.prompt) + (request.max_tokens or 1)
        self._standing = standing = fleet.standing(backend, candidate.model, facts)
        self._chain = chain = fleet.chains.chain(request) if facts.keeps_prefixes else None
        self._believed, self._distance = 0, None
        if chain is not None and warm_tokens:
            self._believed = chunks_of(chain, warm_tokens, prompt_tokens)
            self._distance = self._distance_blocks(chain)
        self._probes = standing.failures_in_a_row > 0 and fleet.cooldowns.probes(standing)
        if self._probes:
            standing.probing += 1
        self._leg = leg = Leg(
            prompt_tokens=prompt_tokens,
            fresh_tokens=fresh_tokens,
            output_tokens=forecast.output_tokens_p50,
            streams=request.stream and request.units is None,
        )
        work = standing.work
        work.dispatched(leg, now_s, read_s=fresh_tokens / candidate.prefill_tokens_per_s)
        self._added: tuple[bytes, ...] = ()
        if chain is not None and not standing.warm_at_first_token:
            self._added = fleet.prefixes.sent(chain.digests, standing.cache, now_s)
        fleet.in_flight[backend] += 1
        fleet.rooms.release(request.arrival.id)  # what was held for it on the way in is its own place now
        self._limit = fleet.limit(backend, facts) if facts.adaptive is not None else None
        self._sample = (work.queued_prefill_tokens, fleet.in_flight[backend]) if self._limit is not None else (0, 0)
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
        fleet, standing, leg = self._fleet, self._standing, self._leg
        fleet.in_flight[self._backend] -= 1
        fleet.rooms.freed()
        fleet.landed(self.number)
        if self._probes:
            standing.probing -= 1
        standing.work.landed(leg, now_s)
        judgement = fleet.cooldowns.judge(self._backend, standing, error, dispatched_s=leg.dispatched_s, now_s=now_s)
        if error is None:
            standing.window.served(self._window_tokens)
        else:
            self._failed(error, now_s)
        read = leg.seen or error is None  # a whole answer's first token is not seen, its prompt is read
        if not read:
            fleet.prefixes.take_back(self._added, standing.cache)
        elif not leg.seen:
            self._warm(now_s)
        self._learn(usage, decode_s, read=read, judgement=judgement)

    def _failed(self, error: HeadraceError, now_s: float) -> None:
        leg, standing = self._leg, self._standing
        if isinstance(error, UpstreamContextExceeded) and self._window_tokens:
            standing.window.refused(self._window_tokens)
        if isinstance(error, UpstreamTimeout) and error.blames_backend and leg.streams:
            standing.progress.stalled(dispatched_s=leg.dispatched_s, now_s=now_s)
        if self._limit is not None and not leg.seen and isinstance(error, (UpstreamRateLimited, UpstreamTimeout)):
            self._limit.dropped(dispatched_s=leg.dispatched_s, now_s=now_s)

    def _learn(self, usage: Usage | None, decode_s: float | None, *, read: bool, judgement: int) -> None:
        fleet, standing, found, output_tokens = self._fleet, self._standing, -1, 0
        if usage is not None and not usage.estimated:
            if decode_s is not None:
                output_tokens = usage.output_tokens
                standing.work.wrote(self._leg, output_tokens, decode_s)
            if self._chain is not None and usage.prompt_tokens > 0:
                found = chunks_of(self._chain, usage.cached_tokens, usage.prompt_tokens)
                if found or self._believed:
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

    def _distance_blocks(self, chain: PromptChain) -> int | None:
        """How long ago, in chunks, the backend last read the end of what it is believed to have of the prompt."""
        return self._standing.cache.distance_blocks(chain.digests[self._believed - 1]) if self._believed else None

    def _warm(self, now_s: float) -> None:
        if self._chain is not None:
            self._fleet.prefixes.read(self._chain.digests, self._standing.cache, now_s)


def chunks_of(chain: PromptChain, tokens: int, prompt_tokens: int) -> int:
    """How many chunks of the chain ``tokens`` of its ``prompt_tokens`` are, to the nearest one."""
    if tokens <= 0 or prompt_tokens <= 0 or not chain.ends_bytes:
        return 0
    reach_bytes = min(tokens / prompt_tokens, 1.0) * chain.length_bytes
    return bisect_right(chain.ends_bytes, reach_bytes + chain.length_bytes / len(chain.ends_bytes) / 2)
