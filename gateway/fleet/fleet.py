"""Live facts of every backend, learned from our own dispatches, first tokens and ends; and snapshots of them.

It needs nothing from the engines, though what a backend measures itself (``BackendFacts``) takes precedence. Other
replicas of the gateway are heard (``hear``) and told (``tell``), so that each knows the load that all of them make.
"""

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from math import inf
from typing import TYPE_CHECKING

from gateway.facts import BackendFacts
from gateway.fleet.adaptive_limit import AdaptiveLimit
from gateway.fleet.cooling import Cooling
from gateway.fleet.events import FirstToken, FleetEvent
from gateway.fleet.lane import Lane, Look
from gateway.fleet.outliers import without_outliers
from gateway.fleet.peers import Peers
from gateway.fleet.prefix import PrefixIndex
from gateway.fleet.progress import Expectations, Progress
from gateway.fleet.prompt_chain import Chains, SessionChains
from gateway.fleet.room import Places, Rooms
from gateway.fleet.speeds import Speeds
from gateway.fleet.standing import Standing
from gateway.fleet.workload import Workload
from gateway.ports import Backend, Clock, Shared
from gateway.prices.price_book import PriceBook
from gateway.rules.cards import model_at
from gateway.rules.route import Route, Target
from gateway.types import Candidate, Context

if TYPE_CHECKING:  # a flight is told of by its fleet, and belongs to it
    from gateway.fleet.flight import Flight

_MOST_ROUTES_KNOWN = 256
"""Lanes are kept for so many pairs of a route and a model's name, which clients choose."""


class Fleet:
    """All backends as the gateway sees them. One instance outlives every reload of the policy file.

    Args:
        clock: the time.
        shared: where cool-downs are kept.
        chains: makes the digests of prompts.
        replica: this gateway's name among its replicas.
        tell: takes what the other replicas should know, at once and without waiting; ``None`` where there are none.
        prices: what models cost where their backends do not say.
    """

    def __init__(
        self,
        *,
        clock: Clock,
        shared: Shared,
        chains: Chains | None = None,
        replica: str = "",
        tell: Callable[[FleetEvent], None] | None = None,
        prices: PriceBook | None = None,
    ) -> None:
        self.clock = clock
        self.prefixes = PrefixIndex()
        self.chains = chains or SessionChains()
        self.cooldowns = Cooling(shared)
        self.replica = replica
        self.prices = prices or PriceBook()
        self.tell = tell
        self.in_flight: defaultdict[str, int] = defaultdict(int)
        self._flights: dict[int, Flight] = {}
        self._flown = 0
        self._away: set[str] = set()
        self._standings: dict[tuple[str, str], Standing] = {}
        self._pools: dict[str, tuple[Speeds, Expectations]] = {}
        self._lanes: dict[tuple[int, str], tuple[Route, list[Lane]]] = {}
        self._serving: frozenset[str] | None = None
        self._limits: dict[str, AdaptiveLimit] = {}
        self._peers = Peers(self._served, self.prefixes)
        self.rooms = Rooms(self._places)

    # ---- what is known ----------------------------------------------------------------------------------------------

    def standing(self, backend: str, model: str, facts: BackendFacts) -> Standing:
        """All that is known of a model at a backend, made on first sight.

        Bounded: models that the backend's facts do not list share one record, since clients choose their names.
        """
        listed = model if model in facts.models else ""
        standing = self._standings.get((backend, listed)) or self.named(backend, listed)
        if facts.prompt_cache is not None:
            standing.cache.ttl_s = facts.prompt_cache.ttl_s
            standing.warm_at_first_token = facts.prompt_cache.at_first_token
        return standing

    def named(self, backend: str, model: str) -> Standing:
        """The same, by the name under which it is kept."""
        known = self._standings.get((backend, model))
        if known is None:
            speeds, common = self._pools.setdefault(model, (Speeds(), Expectations()))
            cache = self.prefixes.open()
            known = Standing(model=model, cache=cache, work=Workload(speeds), progress=Progress(common))
            self._standings[backend, model] = known
        return known

    def _served(self, backend: str, model: str) -> Standing | None:
        return None if self._serving is not None and backend not in self._serving else self.named(backend, model)

    def cooling(self, backend: str, facts: BackendFacts) -> str | None:
        """Why the backend rests, where all of its models do."""
        self._notice_those_away({backend: facts})
        found = [self._why_not(backend, model) for model in facts.models or ("",)]
        return found[0] if all(found) else None

    def _why_not(self, backend: str, model: str) -> str | None:
        rest, known = self.cooldowns.rests(backend, model), self._standings.get((backend, model))
        return rest[0] if rest is not None else (known.progress.reason or None) if known is not None else None

    def serves(self, backends: Collection[str]) -> None:
        """These are the backends of the policy: all others are forgotten, and not heard of any more."""
        self._serving = frozenset(backends)
        for name in {name for name, _ in self._standings} - self._serving:
            self.forget(name)

    def forget(self, backend: str) -> None:
        """The backend has left: nothing is known of it any more. Who comes under its name is another one."""
        for key in [key for key in self._standings if key[0] == backend]:
            standing = self._standings.pop(key)
            self.prefixes.close(standing.cache)
            standing.work.leave()
            self.cooldowns.begin_anew(*key)
        self._away.discard(backend)
        self._limits.pop(backend, None)
        self._lanes.clear()

    def limit(self, backend: str, facts: BackendFacts) -> AdaptiveLimit | None:
        """The concurrency that is being found out for a backend; ``None`` where it is said, or nobody wants to know."""
        bounds = facts.adaptive
        if bounds is None:
            return None
        known = self._limits.get(backend)
        if known is None or known.bounds != bounds:
            known = self._limits[backend] = AdaptiveLimit(bounds)
        return known

    def taken(self, backend: str, facts: BackendFacts) -> int:
        """How many places of a backend are taken: ours, other replicas', and what it says itself where that is more."""
        known = self.in_flight.get(backend, 0) + self._peers.in_flight.get(backend, 0)
        return max(known, facts.in_flight or 0)

    def found(self, standing: Standing, *, believed: int, found: int, distance: int | None) -> None:
        """An engine says how many chunks of a prompt it had: see ``BackendCache.learn``."""
        if standing.cache.learn(believed_blocks=believed, found_blocks=found, distance_blocks=distance):
            self.prefixes.clear(standing.cache)

    # ---- the snapshot -----------------------------------------------------------------------------------------------

    def snapshot(self, route: Route, ctx: Context, backends: Mapping[str, Backend]) -> tuple[Candidate, ...]:
        """One candidate per target of the route, as things stand now."""
        now_s = self.clock.now_s()
        self._peers.expire(now_s)
        lanes = self._lanes_of(route, ctx.request.model, backends)
        chain, prompt_tokens = self.chains.chain(ctx.request), ctx.forecast.prompt_tokens
        look = Look(prompt_tokens, now_s, now_s - ctx.request.arrival.received_s, self.cooldowns)
        ours, theirs = self.in_flight.get, self._peers.in_flight.get
        if len(lanes) == 1:
            lane = lanes[0]
            depth = self.prefixes.depth(chain.digests, lane.cache, now_s)
            tokens = lane.warm_tokens(depth, chain.ends_bytes, chain.length_bytes, prompt_tokens) if depth else 0
            return (lane.candidate(look, tokens, 0, ours(lane.backend, 0) + theirs(lane.backend, 0)),)
        depths = self.prefixes.depths(chain.digests, [lane.cache for lane in lanes], now_s)
        warm = [
            lane.warm_tokens(depth, chain.ends_bytes, chain.length_bytes, prompt_tokens) if depth else 0
            for lane, depth in zip(lanes, depths, strict=True)
        ]
        second, warmest = _two_warmest(warm)
        found = tuple(
            [
                lane.candidate(
                    look,
                    tokens,
                    second if tokens == warmest else warmest,
                    ours(lane.backend, 0) + theirs(lane.backend, 0),
                )
                for lane, tokens in zip(lanes, warm, strict=True)
            ]
        )
        return without_outliers(lanes, found, now_s)

    def _places(self, route: Route, backends: Mapping[str, Backend]) -> Iterator[Places]:
        """Of each backend of a route: its free places, and how long it takes nothing. See ``gateway.fleet.room``."""
        self._peers.expire(self.clock.now_s())
        seen: dict[str, Places] = {}
        for lane in self._lanes_of(route, route.models[0], backends):
            down = lane.down(self.cooldowns)
            if down is not None:
                seen.setdefault(lane.backend, (0, inf if down[1] is None else down[1]))
            elif lane.places is None:
                seen[lane.backend] = (None, None)
            else:
                free = lane.places - self.taken(lane.backend, lane.facts)
                seen[lane.backend] = (min(free, 1) if self.cooldowns.probes(lane.standing) else free, None)
        yield from seen.values()

    def _lanes_of(self, route: Route, asked: str, backends: Mapping[str, Backend]) -> list[Lane]:
        known = self._lanes.get((id(route), asked))
        if known is None or known[0] is not route:
            lanes = [self._lane(route, target, asked, backends[target.backend].facts()) for target in route.targets]
            if len(self._lanes) >= _MOST_ROUTES_KNOWN:
                self._lanes.clear()
            self._lanes[id(route), asked] = (route, lanes)
            self._notice_those_away({lane.backend: lane.facts for lane in lanes})
            return lanes
        lanes = known[1]
        for lane in lanes:
            facts = backends[lane.backend].facts()
            if facts is not lane.facts:
                at = lanes.index(lane)
                lanes[at] = self._lane(route, route.targets[at], asked, facts)
                self._notice_those_away({lane.backend: facts})
        return lanes

    def _lane(self, route: Route, target: Target, asked: str, facts: BackendFacts) -> Lane:
        model = model_at(target, facts, asked)
        standing, limit = self.standing(target.backend, model, facts), self.limit(target.backend, facts)
        price = self.prices.price(facts, model) or route.assumed_price
        return Lane(target, model, facts, standing, limit=limit, price=price)

    def _notice_those_away(self, facts: Mapping[str, BackendFacts]) -> None:
        """A backend that was down comes back as another one: with a cold cache, and with a clean record."""
        for name, known in facts.items():
            if known.down is None and name in self._away:
                self._away.discard(name)
                self._begin_anew(name)
            elif known.down is not None and name not in self._away:
                self._away.add(name)
                for standing in self._of(name):
                    self.prefixes.clear(standing.cache)

    def _begin_anew(self, backend: str) -> None:
        now_s = self.clock.now_s()
        for standing in self._of(backend):
            standing.begin_anew(now_s)
            self.cooldowns.begin_anew(backend, standing.model)

    def _of(self, backend: str) -> Iterable[Standing]:
        return [standing for (name, _), standing in self._standings.items() if name == backend]

    # ---- the other replicas -----------------------------------------------------------------------------------------

    def hear(self, event: FleetEvent) -> None:
        """Takes what another replica tells into this one's view."""
        self._peers.hear(event, self.clock.now_s())

    def under_way(self) -> tuple[FleetEvent, ...]:
        """What a replica that joins has missed of this one: its attempts in flight."""
        now_s = self.clock.now_s()
        events: list[FleetEvent] = []
        for number, flight in self._flights.items():
            events.append(flight.told(age_s=now_s - flight.dispatched_s))
            if flight.read:
                events.append(FirstToken(self.replica, number))
        return tuple(events)

    def took_off(self, flight: "Flight") -> int:
        """Gives a flight its number."""
        self._flown += 1
        if self.tell is not None:
            self._flights[self._flown] = flight
        return self._flown

    def landed(self, number: int) -> None:
        """The flight is over."""
        self._flights.pop(number, None)


def _two_warmest(warm: list[int]) -> tuple[int, int]:
    """The second largest and the largest, which may be the same."""
    second, warmest = 0, 0
    for tokens in warm:
        if tokens > second:
            second, warmest = (warmest, tokens) if tokens > warmest else (tokens, warmest)
    return second, warmest
