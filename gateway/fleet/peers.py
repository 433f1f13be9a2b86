"""The other replicas of the gateway, as they are heard: what they have in flight counts here as our own does."""

from collections import Counter
from collections.abc import Callable
from math import inf

from gateway.fleet.events import DIGEST_BYTES, LEASE_S, Alive, Dispatched, FirstToken, FleetEvent, Landed, Left
from gateway.fleet.prefix import PrefixIndex
from gateway.fleet.standing import Standing
from gateway.fleet.workload import Leg

_MOST_FLIGHTS = 20_000
"""Of one replica; beyond that it is not believed to be one of ours."""


class _PeerFlight:
    __slots__ = ("added", "backend", "believed", "digests", "distance", "leg", "standing")

    def __init__(self, backend: str, standing: Standing, leg: Leg, digests: tuple[bytes, ...]) -> None:
        self.backend = backend
        self.standing = standing
        self.leg = leg
        self.digests = digests
        self.added: tuple[bytes, ...] = ()
        self.believed = 0
        self.distance: int | None = None


class _Peer:
    __slots__ = ("flights", "heard_s")

    def __init__(self, heard_s: float) -> None:
        self.flights: dict[int, _PeerFlight] = {}
        self.heard_s = heard_s


class Peers:
    """Keeps a lease for each replica: one that falls silent takes its attempts in flight with it.

    Args:
        standing: the record of a backend and a model, or ``None`` for a backend that is not in the policy here.
        prefixes: where prompts are warm.
    """

    def __init__(self, standing: Callable[[str, str], Standing | None], prefixes: PrefixIndex) -> None:
        self.in_flight: Counter[str] = Counter()
        self._standing = standing
        self._prefixes = prefixes
        self._peers: dict[str, _Peer] = {}
        self._next_expiry_s = inf

    def __len__(self) -> int:
        return len(self._peers)

    def hear(self, event: FleetEvent, now_s: float) -> None:
        """Takes an event into the view. What was heard before, or tells of nothing that is known, changes nothing."""
        if isinstance(event, Left):
            self._lose(event.replica, now_s)
            return
        peer = self._peers.get(event.replica)
        if peer is None:
            peer = self._peers[event.replica] = _Peer(now_s)
            self._next_expiry_s = min(self._next_expiry_s, now_s + LEASE_S)
        peer.heard_s = now_s
        if isinstance(event, Dispatched):
            self._dispatched(peer, event, now_s)
        elif isinstance(event, FirstToken):
            flight = peer.flights.get(event.flight)
            if flight is not None and not flight.leg.seen:
                flight.standing.work.first_token(flight.leg, now_s)
                self._warm(flight, now_s)
        elif isinstance(event, Landed):
            flight = peer.flights.pop(event.flight, None)
            if flight is not None:
                self._landed(flight, event, now_s)
        elif not isinstance(event, Alive):
            raise TypeError(f"{type(event).__name__} is no event of a fleet")

    def expire(self, now_s: float) -> None:
        """Gives up replicas that have been silent for too long."""
        if now_s < self._next_expiry_s:
            return
        for name in [name for name, peer in self._peers.items() if now_s - peer.heard_s >= LEASE_S]:
            self._lose(name, now_s)
        self._next_expiry_s = min((peer.heard_s + LEASE_S for peer in self._peers.values()), default=inf)

    def _dispatched(self, peer: _Peer, event: Dispatched, now_s: float) -> None:
        standing = self._standing(event.backend, event.model)
        if standing is None or event.flight in peer.flights or len(peer.flights) >= _MOST_FLIGHTS:
            return
        leg = Leg(
            prompt_tokens=event.prompt_tokens,
            fresh_tokens=event.fresh_tokens,
            output_tokens=event.output_tokens,
            streams=event.streams,
        )
        ends = range(DIGEST_BYTES, len(event.digests) + 1, DIGEST_BYTES)
        flight = _PeerFlight(
            event.backend, standing, leg, tuple([event.digests[end - DIGEST_BYTES : end] for end in ends])
        )
        read_s = standing.work.prefill.seconds(leg.fresh_tokens, leg.prompt_tokens - leg.fresh_tokens)
        standing.work.dispatched(leg, now_s - event.age_s, read_s=read_s)
        if event.believed_chunks and event.believed_chunks <= len(flight.digests):
            flight.believed = event.believed_chunks
            flight.distance = standing.cache.distance_blocks(flight.digests[event.believed_chunks - 1])
        if not standing.warm_at_first_token:
            flight.added = self._prefixes.sent(flight.digests, standing.cache, now_s)
        peer.flights[event.flight] = flight
        self.in_flight[event.backend] += 1

    def _landed(self, flight: _PeerFlight, event: Landed, now_s: float) -> None:
        standing, leg = flight.standing, flight.leg
        self._give_back(flight, now_s)
        if event.read:
            self._warm(flight, now_s)
        else:
            self._prefixes.take_back(flight.added, standing.cache)
        if event.judgement > 0:
            standing.succeeded(now_s)
        elif event.judgement < 0:
            standing.failed(dispatched_s=leg.dispatched_s, now_s=now_s)
        if event.output_tokens and event.decode_s > 0:
            standing.work.wrote(leg, event.output_tokens, event.decode_s)
        if event.found_chunks >= 0 and standing.cache.learn(
            believed_blocks=flight.believed, found_blocks=event.found_chunks, distance_blocks=flight.distance
        ):
            self._prefixes.clear(standing.cache)

    def _lose(self, replica: str, now_s: float) -> None:
        peer = self._peers.pop(replica, None)
        for flight in peer.flights.values() if peer is not None else ():
            self._give_back(flight, now_s)

    def _give_back(self, flight: _PeerFlight, now_s: float) -> None:
        flight.standing.work.landed(flight.leg, now_s)
        self.in_flight[flight.backend] -= 1

    def _warm(self, flight: _PeerFlight, now_s: float) -> None:
        self._prefixes.read(flight.digests, flight.standing.cache, now_s)
