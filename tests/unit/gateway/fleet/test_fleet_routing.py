"""Where requests go: the fleet, the default bill and the decision together, on a clock that tests turn."""

from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest
from msgspec.structs import replace

from gateway.decide import decide, refusal
from gateway.errors import NoCandidate, UpstreamFailed
from gateway.fleet.fleet import Fleet
from gateway.fleet.flight import Flight
from gateway.price import Usage
from gateway.rules.world import World
from gateway.stores.memory import MemoryShared
from gateway.types import ChatRequest, Context, Forecast

SYSTEM = "You are a helpful assistant of a large company. " * 170  # 8 KB: about 2,000 tokens


class Town:
    """Some backends that serve one model, and the requests that come to them."""

    def __init__(self, world: World, make_request: Callable[..., ChatRequest], clock: Any) -> None:
        self.world = world
        self.clock = clock
        self.fleet = Fleet(clock=clock, shared=MemoryShared(clock))
        self.make_request = make_request
        self._number = 0

    def context(self, *texts: str, tenant: str = "acme") -> Context:
        """The next request, a conversation of these texts."""
        self._number += 1
        request = self.make_request(*texts, request_id=f"req-{self._number}", tenant=tenant, stream=True)
        arrival = replace(request.arrival, received_s=self.clock.now_s())
        tokens = max(request.prompt_bytes // 4, 1)
        return Context(
            request=replace(request, arrival=arrival),
            forecast=Forecast(prompt_tokens=tokens, output_tokens_p50=100, output_tokens_p90=300),
            worth=self.world.routes[0].worth,
        )

    def decide(self, ctx: Context) -> Any:
        """What becomes of the request."""
        route = self.world.routes[0]
        return decide(route, ctx, self.fleet.snapshot(route, ctx, self.world.backends))

    def send(self, ctx: Context) -> tuple[str, Flight]:
        """Sends the request where it is cheapest."""
        candidate = self.decide(ctx).order[0].candidate
        facts = self.world.backends[candidate.backend].facts()
        return candidate.backend, Flight(self.fleet, ctx, candidate, facts)

    def serve(self, ctx: Context, *, cached: int | None = None) -> str:
        """Sends the request and answers it at once; where to. ``cached`` is what the engine says it had."""
        backend, flight = self.send(ctx)
        self.clock.now += 0.05
        flight.first_token(self.clock.now_s())
        self.clock.now += 0.05
        tokens = ctx.forecast.prompt_tokens
        usage = None if cached is None else Usage(prompt_tokens=tokens, output_tokens=20, cached_tokens=cached)
        flight.landed(usage=usage, decode_s=0.05, error=None, now_s=self.clock.now_s())
        return backend

    def forget(self, backend: str) -> None:
        """The backend is taken out of the policy, or comes back as another one."""
        self.fleet.forget(backend)


@pytest.fixture
def make_town(make_world: Callable[..., World], make_request: Any, clock: Any) -> Callable[..., Town]:
    """Makes a town with so many equal backends; ``targets`` may say more of them."""

    def make(count: int = 3, targets: str = "") -> Town:
        names = [f"b{number}" for number in range(count)]
        price = "models: {small: {price: {input_usd_per_mtok: 0, output_usd_per_mtok: 0}}}"
        backends = "\n".join(f"  {name}: {{use: fake, {price}}}" for name in names)
        routes = f"routes: {{r: {{models: ['*'], targets: {targets or '[' + ', '.join(names) + ']'}}}}}"
        return Town(make_world(f"backends:\n{backends}\n{routes}"), make_request, clock)

    return make


def _sessions(town: Town, count: int) -> dict[int, str]:
    """Conversations of their own, each with its place after two turns."""
    return {number: [town.serve(town.context(*turns)) for turns in _turns(number, 2)][-1] for number in range(count)}


def _turns(number: int, count: int) -> list[list[str]]:
    words = [f"{number}: {word} " * 400 for word in ("question", "answer", "again", "so", "then")]
    return [words[: 2 * turn + 1] for turn in range(count)]


def test_requests_that_share_a_system_prompt_are_spread(make_town: Callable[..., Town]) -> None:
    """R02a: 500 requests that begin with the same 2,000 tokens, in bursts of ten: nobody has a fifth more than his."""
    town, places = make_town(), Counter[str]()
    for burst in range(50):
        sent = [town.send(town.context(f"{SYSTEM}{burst}/{number} " + "own words " * 200)) for number in range(10)]
        places.update(backend for backend, _ in sent)
        for _, flight in sent:
            town.clock.now += 0.2
            flight.first_token(town.clock.now_s())
            flight.landed(usage=None, decode_s=None, error=None, now_s=town.clock.now_s())
    assert 500 == places.total()
    assert max(places.values()) <= 1.2 * 500 / 3


def test_a_busy_backend_gets_no_prompt_that_is_cold_everywhere(make_town: Callable[..., Town]) -> None:
    """R02b: one is full of prompts of its own; who is new goes to those that are idle."""
    town = make_town()
    first, _ = town.send(town.context("a" * 200_000))
    places = {town.send(town.context(f"{number}" * 2000))[0] for number in range(8)}
    assert {"b0", "b1", "b2"} - {first} == places


def test_among_idle_backends_the_one_with_the_longest_prefix_is_chosen(make_town: Callable[..., Town]) -> None:
    """R02c: also while another one, with a longer one still, is overloaded."""
    town = make_town()
    home = town.serve(town.context(SYSTEM, "short answer", SYSTEM))
    assert home == town.serve(town.context(SYSTEM, "short answer", SYSTEM, "more", "and more"))
    town.send(town.context("z" * 4_000_000))  # wherever it went, it is read there for a quarter of an hour
    busy = next(name for name, work in town.fleet._standings.items() if work.work.queued_prefill_tokens)[0]
    again = town.send(town.context(SYSTEM, "short answer", SYSTEM, "more", "and more", "yet more"))[0]
    assert again == home if busy != home else again != home


def test_a_conversation_stays_where_it_is(make_town: Callable[..., Town]) -> None:
    """Thirty conversations over ten turns, mixed: each is read where it was read before."""
    town = make_town(4)
    homes = _sessions(town, 30)
    moved = sum(
        town.serve(town.context(*turns)) != homes[number] for number in homes for turns in _turns(number, 3)[1:]
    )
    assert 0 == moved
    assert 4 == len(set(homes.values()))


def test_five_hundred_turns_stay_in_one_place(make_town: Callable[..., Town]) -> None:
    """However long a conversation becomes."""
    town, texts, places = make_town(), ["begin " * 100], set()
    for turn in range(500):
        places.add(town.serve(town.context(*texts)))
        texts += [f"answer {turn} " * 20, f"question {turn} " * 20]
    assert 1 == len(places)


def test_a_megabyte_goes_where_it_went_before(make_town: Callable[..., Town]) -> None:
    """And is no heavier to decide on than its chunks."""
    town, prompt = make_town(), "m" * 1_000_000
    assert town.serve(town.context(prompt)) == town.serve(town.context(prompt, "answer", "next"))


def test_a_removed_backend_is_forgotten_at_once_and_only_its_conversations_move(
    make_town: Callable[..., Town],
) -> None:
    """R01d: of N backends one leaves; what was warm elsewhere stays where it is."""
    town = make_town(4)
    homes = _sessions(town, 40)
    leaving = homes[0]
    route = town.world.routes[0]
    left = tuple(target for target in route.targets if target.backend != leaving)
    town.world = _with_targets(town.world, left)
    town.forget(leaving)
    assert all(name != leaving for name, _ in town.fleet._standings)
    after = {number: town.serve(town.context(*_turns(number, 3)[-1])) for number in homes}
    moved = {number for number in homes if homes[number] != after[number]}
    assert {number for number in homes if homes[number] == leaving} == moved
    assert leaving not in after.values()


@pytest.mark.parametrize("how", ["drain: true", "weight: 0"])
def test_a_draining_target_gets_nothing_new_and_the_others_keep_theirs(
    make_town: Callable[..., Town], how: str
) -> None:
    """Its own share of the conversations moves, every one of them and no other."""
    town = make_town(4)
    homes = _sessions(town, 40)
    draining = make_town(4, targets=f"[b1, b2, b3, {{to: b0, {how}}}]")
    town.world = _with_targets(town.world, draining.world.routes[0].targets)
    after = {number: town.serve(town.context(*_turns(number, 3)[-1])) for number in homes}
    moved = {number for number in homes if homes[number] != after[number]}
    assert {number for number in homes if homes[number] == "b0"} == moved
    assert len(moved) <= 40 / 4 * 1.5
    (out,) = town.decide(town.context("hi")).excluded
    assert ("b0", "draining") == (out.candidate.backend, out.reason)


def test_a_backend_that_is_bound_anew_is_cold_and_nobody_else_is(make_town: Callable[..., Town]) -> None:
    """Its name at another address: what it had is gone, its conversations are dealt out anew."""
    town = make_town(4)
    homes = _sessions(town, 40)
    town.forget("b2")
    after = {number: town.serve(town.context(*_turns(number, 3)[-1])) for number in homes}
    assert all(homes[number] in {"b2", place} for number, place in after.items())


def test_what_lands_after_its_backend_was_removed_leaves_no_trace(make_town: Callable[..., Town]) -> None:
    """The attempt ends in its own time."""
    town = make_town()
    backend, flight = town.send(town.context(SYSTEM))
    town.forget(backend)
    flight.first_token(town.clock.now_s())
    flight.landed(usage=None, decode_s=None, error=None, now_s=town.clock.now_s())
    assert 0 == len(town.fleet.prefixes)
    assert 0 == town.fleet.in_flight[backend]


def test_a_backend_that_lies_about_its_cache_harms_itself_alone(make_town: Callable[..., Town]) -> None:
    """It claims nothing, or more than there was: requests are served, the others' pictures stay whole."""
    town = make_town()
    for number in range(60):
        town.serve(town.context(f"{number % 6} " + SYSTEM), cached=(0, 10**9, -5)[number % 3])
    for standing in town.fleet._standings.values():
        assert 64 <= standing.cache.capacity_blocks <= 65_536
    assert 0 == sum(town.fleet.in_flight.values())


@pytest.mark.parametrize("jump_s", [-1e6, 1e6])
def test_a_clock_that_jumps_leaves_everything_usable(make_town: Callable[..., Town], jump_s: float) -> None:
    """In the middle of attempts: counters come back to zero, and no bill is absurd."""
    town = make_town()
    flights = [town.send(town.context(f"{number} {SYSTEM}"))[1] for number in range(9)]
    town.clock.now += jump_s
    for flight in flights:
        flight.first_token(town.clock.now_s())
        flight.landed(usage=None, decode_s=1.0, error=None, now_s=town.clock.now_s())
    for candidate in town.fleet.snapshot(town.world.routes[0], town.context("hi"), town.world.backends):
        assert (0, 0, 0.0) == (candidate.in_flight, candidate.queued_prefill_tokens, candidate.wait_s)
        assert 10 < candidate.prefill_tokens_per_s < 1e7
    town.serve(town.context(SYSTEM))


def test_after_a_rest_one_attempt_at_a_time_finds_out_whether_a_backend_is_well(make_town: Callable[..., Town]) -> None:
    """While it does the others are told when to come back; its success opens the door, its failure closes it."""
    town = make_town(1)
    for _ in range(3):
        _, flight = town.send(town.context("hi"))
        flight.landed(usage=None, decode_s=None, error=UpstreamFailed("x"), now_s=town.clock.now_s())
        town.clock.now += 0.1
    assert not town.decide(town.context("hi")).order
    town.clock.now += 1.0
    _, probe = town.send(town.context("hi"))
    meanwhile = town.decide(town.context("hi"))
    assert ["being tried after failures"] == [out.reason for out in meanwhile.excluded]
    told = refusal(town.world.routes[0], meanwhile)
    assert (NoCandidate, 1.0) == (type(told), told.retry_after_s)
    probe.landed(usage=None, decode_s=None, error=None, now_s=town.clock.now_s())
    assert all(town.send(town.context("hi"))[0] == "b0" for _ in range(5))


def test_a_probe_that_nobody_waits_for_lets_the_next_one_try(make_town: Callable[..., Town]) -> None:
    """An attempt that says nothing of the backend, as a hang-up, must not keep it closed for ever."""
    from gateway.errors import ClientGone

    town = make_town(1)
    for _ in range(3):
        _, flight = town.send(town.context("hi"))
        flight.landed(usage=None, decode_s=None, error=UpstreamFailed("x"), now_s=town.clock.now_s())
    town.clock.now += 1.1
    _, probe = town.send(town.context("hi"))
    probe.landed(usage=None, decode_s=None, error=ClientGone("x"), now_s=town.clock.now_s())
    assert town.decide(town.context("hi")).order


def _with_targets(world: World, targets: Any) -> World:
    from dataclasses import replace as changed

    return changed(world, routes=(changed(world.routes[0], targets=targets),))
