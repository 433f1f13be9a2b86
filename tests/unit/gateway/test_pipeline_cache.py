"""Routes that keep answers, over the real pipeline."""

import asyncio
import hashlib
from decimal import Decimal
from typing import Any

import msgspec
import pytest

from gateway.errors import ConfigurationError
from gateway.stores.rows import REQUEST_COLUMNS, rows_of
from gateway.types import Operation, Status

CACHE = "cache: {ttl_s: 60}"
NO_CACHE = ((b"cache-control", b"no-cache"),)
NO_STORE = ((b"cache-control", b"no-store"),)


def _use(exchange: Any) -> str:
    return str(exchange.answer_headers["x-headrace-cache"])


def _body(operation: Operation) -> dict[str, Any]:
    """Fields of a request whose answer may be kept."""
    fields: dict[Operation, dict[str, Any]] = {
        Operation.CHAT: {"temperature": 0},
        Operation.COMPLETION: {"temperature": 0},
        Operation.EMBEDDING: {"input": "hi"},
        Operation.MESSAGES: {"temperature": 0, "max_tokens": 50},
        Operation.RESPONSE: {"temperature": 0, "input": "hi", "store": False},
    }
    return fields[operation]


STREAMED = (Operation.CHAT, Operation.COMPLETION, Operation.MESSAGES, Operation.RESPONSE)


@pytest.mark.parametrize(
    ("operation", "stream"),
    [*((one, stream) for one in STREAMED for stream in (True, False)), (Operation.EMBEDDING, False)],
)
async def test_who_asks_the_same_again_gets_the_same_bytes(
    open_house: Any, make_exchange: Any, clock: Any, two_backends: Any, operation: Operation, stream: bool
) -> None:
    """Streams as streams and whole as whole, in each client's format; nobody upstream is asked."""
    fields = _body(operation) | ({} if operation is Operation.EMBEDDING else {"stream": stream})
    async with open_house(two_backends(route=CACHE), clock=clock) as house:
        first, again = [await house.serve(_exchange(make_exchange, operation, fields)) for _ in range(2)]
        assert ("miss", "hit", 200) == (_use(first), _use(again), again.status)
        assert first.received == again.received
        assert ("open" in again.calls) == stream == ("close" in again.calls)
        assert 1 == house.backend("first").open_calls
        assert first.answer_headers["content-type"] == again.answer_headers["content-type"]
        assert house.is_quiet()


def _exchange(make_exchange: Any, operation: Operation, fields: dict[str, Any], **more: Any) -> Any:
    if operation in {Operation.EMBEDDING, Operation.RESPONSE}:
        body = msgspec.json.encode({"model": "small", **fields})
        return make_exchange(operation=operation, body=body, **more)
    return make_exchange(operation=operation, **fields, **more)


async def test_a_hit_has_no_attempt_costs_nothing_and_says_what_it_saved(
    open_house: Any, make_exchange: Any, clock: Any, two_backends: Any
) -> None:
    """On the ledger, in its row, and in the answer's headers."""
    async with open_house(two_backends(route=CACHE), clock=clock) as house:
        await house.serve(make_exchange(temperature=0))
        clock.now += 7.5
        again = await house.serve(make_exchange(temperature=0))
        first, hit = house.entries
    assert ("miss", None) == (first.cache, first.saved_usd)
    assert ("hit", (), Decimal(0), first.cost_usd) == (hit.cache, hit.attempts, hit.cost_usd, hit.saved_usd)
    assert (Status.OK, "stop", "main") == (hit.outcome.status, hit.outcome.finish_reason, hit.route)
    row = dict(zip(REQUEST_COLUMNS, rows_of(hit).request_row(), strict=True))
    saved = int(hit.saved_usd * 10**12)
    assert ("hit", saved, 0, 0) == (row["cache"], row["saved_pico_usd"], row["cost_pico_usd"], row["attempts"])
    told = again.answer_headers
    assert ("7", "0", "0", f"{first.cost_usd:f}") == (
        told["age"],
        told["x-headrace-attempts"],
        told["x-headrace-cost-usd"],
        told["x-headrace-saved-usd"],
    )
    assert ("first", "small", hit.arrival.id) == (
        told["x-headrace-backend"],
        told["x-headrace-model"],
        told["x-request-id"],
    )


async def test_an_answer_is_kept_for_its_time_and_no_longer(
    open_house: Any, make_exchange: Any, clock: Any, two_backends: Any
) -> None:
    """From when it was given; being asked for does not renew it."""
    async with open_house(two_backends(route=CACHE), clock=clock) as house:
        uses = []
        for seconds in (0, 40, 19.9, 0.1, 0):
            clock.now += seconds
            uses.append(_use(await house.serve(make_exchange(temperature=0))))
    assert ["miss", "hit", "hit", "miss", "hit"] == uses


async def test_clients_may_pass_it_by(open_house: Any, make_exchange: Any, clock: Any, two_backends: Any) -> None:
    """``no-cache`` wants a new answer, which is kept; ``no-store`` leaves nothing behind; ``max-age`` a younger one."""
    async with open_house(two_backends(route=CACHE), clock=clock) as house:

        async def use(*headers: tuple[bytes, bytes]) -> str:
            return _use(await house.serve(make_exchange(headers=headers, temperature=0)))

        assert ["bypass", "miss", "bypass", "bypass", "hit"] == [
            await use(*NO_STORE),
            await use(),
            await use(*NO_STORE),
            await use(*NO_CACHE),
            await use(),
        ]
        clock.now += 30
        assert "miss" == await use((b"cache-control", b"max-age=20"))
        assert "hit" == await use((b"cache-control", b"max-age=20"))


async def test_what_is_drawn_at_random_passes_by_unless_the_route_keeps_it(
    open_house: Any, make_exchange: Any, clock: Any, two_backends: Any
) -> None:
    """A seed will do; ``sampled`` keeps everything."""
    async with open_house(two_backends(route=CACHE), clock=clock) as house:
        uses = [_use(await house.serve(make_exchange(**fields))) for fields in ({}, {"seed": 3}, {"seed": 3})]
    assert ["bypass", "miss", "hit"] == uses
    async with open_house(two_backends(route="cache: {ttl_s: 60, sampled: true}"), clock=clock) as house:
        assert ["miss", "hit"] == [_use(await house.serve(make_exchange())) for _ in range(2)]


@pytest.mark.parametrize(("shared", "expected"), [("", "miss"), (", across_tenants: true", "hit")])
async def test_a_tenants_answers_are_its_own(
    open_house: Any, make_exchange: Any, clock: Any, two_backends: Any, shared: str, expected: str
) -> None:
    """Unless the route says that they are everybody's."""
    keys = {name: hashlib.sha256(name.encode()).hexdigest() for name in ("a", "b")}
    tenants = f"tenants: {{a: {{keys_sha256: [{keys['a']}]}}, b: {{keys_sha256: [{keys['b']}]}}}}"
    policy = two_backends(route=f"cache: {{ttl_s: 60{shared}}}", more=tenants)
    async with open_house(policy, clock=clock) as house:
        uses = [
            _use(await house.serve(make_exchange(headers=[(b"authorization", b"Bearer " + key)], temperature=0)))
            for key in (b"a", b"b", b"a", b"b")
        ]
    assert ["miss", expected, "hit", "hit"] == uses


@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize("kind", ["status", "cut", "error", "reset"])
async def test_what_ended_badly_is_not_kept(
    open_house: Any, make_exchange: Any, clock: Any, two_backends: Any, kind: str, stream: bool
) -> None:
    """Errors before the answer and inside it; the next one asks again."""
    status = ", status: 500" if kind == "status" else ""
    policy = two_backends(f"fail: [{{kind: {kind}{status}}}]", route=f"{CACHE}, attempts: 1")
    async with open_house(policy, clock=clock) as house:
        bad = await house.serve(make_exchange(temperature=0, stream=stream))
        clock.now += 30  # whoever rests has rested
        good = await house.serve(make_exchange(temperature=0, stream=stream))
        again = await house.serve(make_exchange(temperature=0, stream=stream))
    assert Status.OK is not house.entries[0].outcome.status
    assert ("miss", "hit", good.received) == (_use(good), _use(again), again.received)
    assert bad.received != good.received


async def test_an_answer_after_a_failure_elsewhere_is_one_backends_own_and_kept(
    open_house: Any, make_exchange: Any, clock: Any, two_backends: Any, failing: Any
) -> None:
    """The client saw nothing of the failure."""
    async with open_house(two_backends(failing("status", status=500), route=CACHE), clock=clock) as house:
        await house.serve(make_exchange(temperature=0, stream=True))
        again = await house.serve(make_exchange(temperature=0, stream=True))
    assert ("hit", "four five six") == (_use(again), again.text)
    assert "second" == again.answer_headers["x-headrace-backend"]


async def test_an_answer_that_was_gone_on_with_elsewhere_is_not_kept(
    open_house: Any, make_exchange: Any, clock: Any
) -> None:
    """It is two backends', and no one's."""
    can = "capabilities: [continue], price: {input_usd_per_mtok: %d, output_usd_per_mtok: 1}"
    cut = "fail: [{kind: cut, after_chunks: 3}], repeat: true"
    policy = f"""
        backends:
          first: {{use: fake, text: one two three, models: {{small: {{{can % 1}}}}}, {cut}}}
          second: {{use: fake, text: one two three, models: {{small: {{{can % 2}}}}}}}
        routes:
          main: {{models: [small], targets: [first/small, second/small], cost: [money], resume: true, {CACHE}}}
    """
    async with open_house(policy, clock=clock) as house:
        answers = [await house.serve(make_exchange(temperature=0, stream=True)) for _ in range(2)]
    assert 2 == len(house.entries[0].attempts)
    assert Status.OK is house.entries[0].outcome.status
    assert ["miss", "miss"] == [_use(one) for one in answers]


async def test_an_answer_that_is_too_long_is_served_and_not_kept(
    open_house: Any, make_exchange: Any, clock: Any, two_backends: Any
) -> None:
    """``most_answer_bytes`` bounds what one answer may take."""
    policy = two_backends("tokens: 2000", route="cache: {ttl_s: 60, most_answer_bytes: 1024}")
    async with open_house(policy, clock=clock) as house:
        answers = [await house.serve(make_exchange(temperature=0)) for _ in range(2)]
    assert [("miss", 200)] * 2 == [(_use(one), one.status) for one in answers]


async def test_who_does_not_read_a_kept_stream_is_given_up(
    open_house: Any, make_exchange: Any, clock: Any, two_backends: Any
) -> None:
    """As a client is that does not read any other; its connection is not held for ever."""
    policy = two_backends(route=f"{CACHE}, timeouts: {{client_s: 0.01}}")
    async with open_house(policy, clock=clock) as house:
        await house.serve(make_exchange(temperature=0, stream=True))
        stuck = make_exchange(temperature=0, stream=True)
        stuck.reading.clear()
        serving = house.begin(stuck)
        await asyncio.wait_for(stuck.blocked.wait(), 10)
        stuck.blocked.clear()
        await asyncio.wait_for(stuck.blocked.wait(), 10)  # the last words to it, which it does not read either
        stuck.reading.set()
        await asyncio.wait_for(serving, 10)
        assert (Status.CLIENT_GONE, "hit") == (house.entries[1].outcome.status, house.entries[1].cache)


async def test_a_backend_that_is_another_one_now_has_given_nothing(
    open_house: Any, make_exchange: Any, make_world: Any, clock: Any, two_backends: Any
) -> None:
    """A reload that leaves a route and its backends as they are keeps the answers; a changed backend's are gone."""
    policy = two_backends(route=CACHE)
    async with open_house(policy, clock=clock) as house:
        await house.serve(make_exchange(temperature=0))
        same = make_world(policy, old=house.world)
        assert same.routes[0] is house.world.routes[0]
        changed = make_world(two_backends("tokens: 5", route=CACHE), old=house.world)
        assert changed.routes[0] is house.world.routes[0]
        house.world.backends["first"] = changed.backends["first"]
        await changed.backends["first"].start("first", house.backend("second")._calls.world)
        answer = await house.serve(make_exchange(temperature=0))
    assert ("miss", 5) == (_use(answer), answer.json["usage"]["completion_tokens"])


async def test_a_hit_waits_for_no_place(open_house: Any, make_exchange: Any, clock: Any, two_backends: Any) -> None:
    """All places are taken, and who asks the same again is served all the same."""
    admit = "admit: {use: fixed_concurrency, limit: 1, queue: 0}"
    async with open_house(two_backends(route=f"{CACHE}, {admit}"), clock=clock) as house:
        await house.serve(make_exchange(temperature=0))
        slow = make_exchange(seed=1, stream=True)
        slow.reading.clear()
        serving = house.begin(slow)
        await asyncio.wait_for(slow.blocked.wait(), 10)
        full = await house.serve(make_exchange(seed=2))
        hit = await house.serve(make_exchange(temperature=0))
        slow.reading.set()
        await asyncio.wait_for(serving, 10)
    assert (503, 200, "hit") == (full.status, hit.status, _use(hit))


async def test_other_routes_say_nothing_of_caches(
    open_house: Any, make_exchange: Any, clock: Any, two_backends: Any
) -> None:
    """Nothing is kept that nobody asked to keep."""
    async with open_house(two_backends(), clock=clock) as house:
        answers = [await house.serve(make_exchange(temperature=0)) for _ in range(2)]
    assert all("x-headrace-cache" not in one.answer_headers for one in answers)
    assert ["", ""] == [entry.cache for entry in house.entries]


def test_a_cascade_keeps_nothing(make_world: Any) -> None:
    """Its answers are judged before they are shown; a mistake in the file says so."""
    policy = """
        backends: {a: {use: fake, models: [m]}, b: {use: fake, models: [m]}}
        defaults: {cache: {ttl_s: 60}}
        routes:
          r:
            models: [m]
            cascade: [{targets: [a/m], judge: [non_empty]}, {targets: [b/m]}]
    """
    with pytest.raises(ConfigurationError, match="a route with a `cascade` keeps no answers"):
        make_world(policy)
