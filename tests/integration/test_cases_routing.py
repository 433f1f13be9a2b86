"""Backends that leave, are blamed for what they did not do, or come back."""

import asyncio
from typing import Any

import msgspec
import pytest
import yaml

WORDS = "one two three"
FREE = {"fake": {"price": {"input_usd_per_mtok": 0, "output_usd_per_mtok": 0}}}
PAID = {"fake": {"price": {"input_usd_per_mtok": 9, "output_usd_per_mtok": 9}}}
ROUTE = {"models": ["*"], "targets": ["up"]}


def _write(front: Any, policy: dict[str, Any]) -> None:
    front.policy_file.write_text(yaml.safe_dump(policy), encoding="utf-8")


async def test_a_removed_backend_gets_nothing_new_and_finishes_its_streams(start_gateway: Any, eventually: Any) -> None:
    """After a reload without it a backend is not asked again; what runs there ends in its own time."""
    leaving = {"use": "fake", "text": WORDS, "seconds_per_token": 0.05, "models": FREE}
    backends = {"leaving": leaving, "staying": {"use": "fake", "models": PAID}}
    front = await start_gateway({"backends": backends})
    removed = front.backend("leaving")
    async with front.stream() as response:
        pieces = response.aiter_raw()
        first = await anext(pieces)
        policy = {"backends": {"staying": backends["staying"]}, "routes": {"all": {**ROUTE, "targets": ["staying"]}}}
        _write(front, policy)
        await front.gateway.reload()
        assert ["staying"] * 10 == [(await front.post()).headers["x-headrace-backend"] for _ in range(10)]
        rest = first + b"".join([piece async for piece in pieces])
    assert rest.endswith(b"data: [DONE]\n\n")
    assert 1 == removed.open_calls
    await eventually(lambda: removed._calls.world is None)
    assert {"ready": True, "backends": {"staying": "up"}} == (await front.http.get("/readyz")).json()


async def test_a_kept_backend_is_not_restarted_by_a_reload(start_gateway: Any) -> None:
    """What a reload does not change goes on as the same instance."""
    backends = {"a": {"use": "fake"}, "b": {"use": "fake", "text": "before"}}
    front = await start_gateway({"backends": backends})
    a, b = front.backend("a"), front.backend("b")
    backends["b"]["text"] = "after"
    _write(front, {"backends": backends, "routes": {"all": {**ROUTE, "targets": ["a", "b"]}}})
    await front.gateway.reload()
    assert front.backend("a") is a
    assert front.backend("b") is not b


@pytest.mark.parametrize("text", ["", "backends: [", "backends: {}", "backends: {a: {use: fake, txt: hi}}", "\x00"])
async def test_a_bad_file_changes_nothing(start_gateway: Any, caplog: Any, text: str) -> None:
    """A file that is wrong in any way keeps the old world whole, and is complained of in the log."""
    front = await start_gateway()
    before = front.gateway.world
    front.policy_file.write_text(text, encoding="utf-8")
    await front.gateway.reload()
    assert front.gateway.world is before
    assert 1 == sum("was not reloaded" in record.getMessage() for record in caplog.records)
    assert 200 == (await front.post()).status_code


async def test_reloading_under_load_loses_nobody(start_gateway: Any) -> None:
    """Requests and reloads at the same time all come to their answers."""
    backend = {"use": "fake", "text": WORDS, "seconds_per_token": 0.001}
    front = await start_gateway({"backends": {"a": backend}})

    async def reload(number: int) -> None:
        _write(
            front,
            {"backends": {f"a{number % 2}": backend}, "routes": {"all": {**ROUTE, "targets": [f"a{number % 2}"]}}},
        )
        await front.gateway.reload()

    jobs = [job for number in range(10) for job in (front.post(), front.post({"stream": True}), reload(number))]
    answers = [response for response in await asyncio.gather(*jobs) if response is not None]
    assert [200] * 20 == [response.status_code for response in answers]
    assert all("error" not in response.text for response in answers)


@pytest.mark.parametrize("status", [400, 404, 405, 409, 413, 422])
async def test_what_the_request_is_to_blame_for_rests_no_backend(gateway_over: Any, status: int) -> None:
    """An upstream's 4xx, twenty in a row, never takes it out of service."""
    answer = msgspec.json.encode({"choices": [{"index": 0, "message": {"content": "ok"}, "finish_reason": "stop"}]})

    async def respond(request: Any, conversation: Any) -> None:
        bad = request.json["max_tokens"] == 1
        await conversation.answer(b'{"error":{"message":"no"}}' if bad else answer, status=status if bad else 200)

    front, upstream = await gateway_over(respond)
    for _ in range(20):
        assert (await front.post({"max_tokens": 1})).status_code >= 400
    assert 200 == (await front.post({"max_tokens": 2})).status_code
    assert 21 == len(upstream.requests)


async def test_bad_bodies_long_prompts_and_hang_ups_rest_no_backend(start_gateway: Any, eventually: Any) -> None:
    """Clients' own faults, and our own, leave a backend as healthy as it was."""
    stalls: list[Any] = [{"kind": "stall"}] * 20
    models = {"fake": {"context_tokens": 100}}
    front = await start_gateway({"backends": {"b": {"use": "fake", "fail": stalls, "models": models}}})
    for number in range(20):
        assert 400 == (await front.post({"max_tokens": 0})).status_code
        response = await front.post({"messages": [{"role": "user", "content": "long " * 500}]})
        assert (400, "context_length_exceeded") == (response.status_code, response.json()["error"]["code"])
        async with front.stream({"max_tokens": 5}) as stream:
            assert 200 == stream.status_code
        await eventually(lambda number=number: front.backend("b").closed_calls == number + 1)
    assert 200 == (await front.post({"max_tokens": 5})).status_code


async def test_one_failing_model_does_not_rest_another(gateway_over: Any) -> None:
    """Health is kept for each model of a backend by itself."""
    answer = msgspec.json.encode({"choices": [{"index": 0, "message": {"content": "ok"}, "finish_reason": "stop"}]})

    async def respond(request: Any, conversation: Any) -> None:
        broken = request.json["model"] == "broken"
        await conversation.answer(b"" if broken else answer, status=500 if broken else 200)

    routes = {name: {"models": [name], "targets": [f"up/{name}"]} for name in ("broken", "well")}
    front, upstream = await gateway_over(respond, policy={"routes": routes}, models=["broken", "well"])
    statuses = [(await front.post({"model": "broken"})).status_code for _ in range(5)]
    assert [502, 502, 502, 503, 503] == statuses
    assert 200 == (await front.post({"model": "well"})).status_code
    assert 4 == len(upstream.requests)


async def test_a_backend_that_recovers_is_used_again(start_gateway: Any, eventually: Any) -> None:
    """After failures a backend rests for a while; then it is tried again and, being well, stays."""
    fail = [{"kind": "status", "status": 500}] * 3
    front = await start_gateway({"backends": {"b": {"use": "fake", "fail": fail}}})
    assert [502, 502, 502] == [(await front.post()).status_code for _ in range(3)]
    resting = await front.post()
    assert (503, "no_candidate", "1") == (
        resting.status_code,
        resting.json()["error"]["code"],
        resting.headers["retry-after"],
    )
    assert 3 == front.backend("b").open_calls
    shared = front.gateway._fleet.cooldowns._shared
    await eventually(lambda: shared.get("cooling/b/fake") is None)
    assert [200, 200] == [(await front.post()).status_code for _ in range(2)]


async def test_all_backends_down_is_a_prompt_503(start_gateway: Any) -> None:
    """With every backend resting the client hears when to come back, at once, and nobody is asked."""
    broken = {"use": "fake", "fail": [{"kind": "status", "status": 429, "retry_after_s": 7}], "repeat": True}
    front = await start_gateway({"backends": {"a": broken, "b": broken, "c": broken}})
    await front.post()
    response = await front.post()
    assert (503, "7") == (response.status_code, response.headers["retry-after"])
    assert 3 == sum(front.backend(name).open_calls for name in "abc")
    assert 200 == (await front.http.get("/healthz")).status_code


async def test_slowness_is_not_death(start_gateway: Any) -> None:
    """A slow answer counts as an answer."""
    slow = {"use": "fake", "text": WORDS, "first_token_s": 0.02, "seconds_per_token": 0.01}
    front = await start_gateway({"backends": {"b": slow}})
    responses = await asyncio.gather(*(front.post() for _ in range(30)))
    assert [200] * 30 == [response.status_code for response in responses]
    assert 200 == (await front.post()).status_code
