"""Clients that leave, backends that fail or ask for patience, and connections that close just then."""

import asyncio
from typing import Any

import httpx
import msgspec
import pytest

ENDPOINTS = ["/v1/chat/completions", "/v1/completions"]
WORDS = "one two three four five"
DONE = b"data: [DONE]\n\n"


def _event(path: str = ENDPOINTS[0], *, text: str = "", reason: str | None = None, **delta: Any) -> bytes:
    choice: dict[str, Any] = {"index": 0, "finish_reason": reason}
    if path == ENDPOINTS[0]:
        choice["delta"] = {**({"content": text} if text else {}), **delta}
    else:
        choice["text"] = text
    return b"data: " + msgspec.json.encode({"id": "u", "model": "m", "choices": [choice]}) + b"\n\n"


WHOLE = msgspec.json.encode({"choices": [{"index": 0, "message": {"content": "ok"}, "finish_reason": "stop"}]})


@pytest.mark.parametrize("path", ENDPOINTS)
@pytest.mark.parametrize("deltas", [0, 1, 3])
async def test_leaving_a_stream_closes_the_upstream(gateway_over: Any, path: str, deltas: int) -> None:
    """The upstream's connection closes as the client goes, wherever the stream was; nobody blames it."""
    closed = asyncio.Event()

    async def respond(_: Any, conversation: Any) -> None:
        await conversation.stream(*(_event(path, text="word") for _ in range(deltas)), end=False)
        await conversation.until_closed()
        closed.set()

    front, upstream = await gateway_over(respond)
    client = await front.raw()
    body = {"model": "m", "stream": True, "prompt": "p", "messages": [{"role": "user", "content": "p"}]}
    await client.post(msgspec.json.encode(body), path=path)
    await upstream.until(lambda up: len(up.requests) == 1)
    if deltas:
        await client.head()
    client.hang_up()
    async with asyncio.timeout(1):
        await closed.wait()
    row = await front.row()
    assert ("client_gone", 499) == (row["status"], row["http_status"])
    (attempt,) = row["attempts_made"]
    assert ("client_gone", 1, deltas) == (attempt["status"], attempt["estimated"], attempt["output_tokens"])


async def test_leaving_while_waiting_for_a_place_gives_it_up(start_gateway: Any, eventually: Any) -> None:
    """A client that leaves the queue is gone from it, and was never sent anywhere."""
    backends = {"b": {"use": "fake", "fail": [{"kind": "hang"}]}}
    admit = {"use": "fixed_concurrency", "limit": 1}
    front = await start_gateway({"backends": backends, "defaults": {"admit": admit}})
    first = asyncio.create_task(front.post())
    await eventually(lambda: front.backend("b").open_calls == 1)
    second = asyncio.create_task(front.post())
    admitter = front.gateway.world.routes[0].admitter
    await eventually(lambda: admitter.waiting == 1)
    second.cancel()
    await eventually(lambda: admitter.waiting == 0)
    first.cancel()
    await eventually(lambda: front.gateway.pipeline.running == 0)
    assert 1 == front.backend("b").open_calls
    assert [("client_gone", 0), ("client_gone", 1)] == [(row["status"], row["attempts"]) for row in await front.rows()]


async def test_leaving_in_the_middle_of_the_body_is_recorded(running: Any) -> None:
    """A client that goes while it sends its body is one row, and nobody was asked for anything."""
    client = await running.raw()
    await client.send(b'POST /v1/chat/completions HTTP/1.1\r\nhost: h\r\ncontent-length: 100\r\n\r\n{"model"')
    client.hang_up()
    row = await running.row()
    assert ("client_gone", 499, 0) == (row["status"], row["http_status"], row["attempts"])


@pytest.mark.parametrize("path", ENDPOINTS)
async def test_leaving_a_whole_answer_ends_its_generation(gateway_over: Any, eventually: Any, path: str) -> None:
    """A client that gives up and asks again never has two generations running."""
    most_at_once = 0

    async def respond(_: Any, conversation: Any) -> None:
        nonlocal most_at_once
        most_at_once = max(most_at_once, upstream.open_connections)
        await conversation.until_closed()

    front, upstream = await gateway_over(respond)
    for number in range(1, 6):
        asking = asyncio.create_task(front.post(path=path))
        await upstream.until(lambda up, number=number: len(up.requests) == number)
        asking.cancel()
        async with asyncio.timeout(1):
            await upstream.until(lambda up: up.open_connections == 0)
    await eventually(lambda: front.gateway.pipeline.running == 0)
    assert 1 == most_at_once
    assert [499] * 5 == [row["http_status"] for row in await front.rows()]
    assert 0 == front.gateway._fleet.in_flight["up"]


FAULTS = {
    "refuses": [{"kind": "refuse"}],
    "answers 500": [{"kind": "status", "status": 500}],
    "says only who speaks": [{"kind": "cut", "after_chunks": 0}],
    "sends nothing": [{"kind": "empty"}],
    "sends garbage": [{"kind": "garbage"}],
    "is out of quota": [{"kind": "status", "status": 402}],
}


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("fault", FAULTS)
async def test_another_backend_takes_over_while_nothing_was_seen(start_gateway: Any, stream: bool, fault: str) -> None:
    """A failure before the first visible token is repaired in silence; each try is on the ledger, paid once."""
    price = {"input_usd_per_mtok": 1, "output_usd_per_mtok": 1}
    broken = {"use": "fake", "fail": FAULTS[fault], "models": {"fake": {"price": {**price, "input_usd_per_mtok": 0}}}}
    well = {"use": "fake", "text": WORDS, "models": {"fake": {"price": price}}}
    front = await start_gateway({"backends": {"broken": broken, "well": well}})
    response = await front.post({"stream": stream})
    assert (200, "well", "2") == (
        response.status_code,
        response.headers["x-headrace-backend"],
        response.headers["x-headrace-attempts"],
    )
    assert int(stream) == response.text.count('"role":"assistant","content":""')
    row = await front.row()
    first, second = row["attempts_made"]
    assert ("ok", "broken", "well") == (row["status"], first["backend"], second["backend"])
    assert row["cost_pico_usd"] == first["cost_pico_usd"] + second["cost_pico_usd"]


async def test_a_backend_that_hangs_is_given_up(start_gateway: Any) -> None:
    """A stream without a first token in time goes to another backend, and the first is told to stop."""
    free = {"price": {"input_usd_per_mtok": 0, "output_usd_per_mtok": 0}}
    backends = {
        "silent": {"use": "fake", "fail": [{"kind": "hang"}], "models": {"fake": free}},
        "well": {"use": "fake", "models": {"fake": {"price": {"input_usd_per_mtok": 1, "output_usd_per_mtok": 1}}}},
    }
    front = await start_gateway({"backends": backends, "defaults": {"timeouts": {"first_token_s": 0.05}}})
    response = await front.post({"stream": True})
    assert "well" == response.headers["x-headrace-backend"]
    assert (1, 1) == (front.backend("silent").open_calls, front.backend("silent").closed_calls)


async def test_a_first_piece_without_words_is_not_an_answer_yet(gateway_over: Any, events_of: Any) -> None:
    """Opening frames are held back until there are words, so that a second try does not open twice."""

    async def respond(_: Any, conversation: Any) -> None:
        await conversation.stream(_event(role="assistant", content=""), end=False)
        if len(upstream.requests) == 1:
            conversation.reset()
            return
        await conversation.send(
            *(b"%x\r\n%b\r\n" % (len(e), e) for e in (_event(text="Hi"), _event(reason="stop"), DONE))
        )
        await conversation.send(b"0\r\n\r\n")

    policy = {"routes": {"all": {"models": ["*"], "targets": ["up/first", "up/second"]}}}
    front, upstream = await gateway_over(respond, policy=policy)
    *chunks, last = events_of((await front.post({"stream": True})).content)
    assert {"first", "second"} == {request.json["model"] for request in upstream.requests}
    assert [{"role": "assistant", "content": ""}, {"content": "Hi"}, {}] == [c["choices"][0]["delta"] for c in chunks]
    assert "[DONE]" == last


SEEN = {
    "a word": _event(text="Hi"),
    "a tool call": _event(tool_calls=[{"index": 0, "id": "c", "function": {"name": "f", "arguments": "{"}}]),
    "a thought": _event(reasoning_content="Hm"),
}


@pytest.mark.parametrize("seen", SEEN)
async def test_what_was_seen_is_never_said_again(gateway_over: Any, events_of: Any, seen: str) -> None:
    """After the first visible piece a failure is one error, and no other backend is asked."""

    async def respond(_: Any, conversation: Any) -> None:
        await conversation.stream(SEEN[seen], end=False)
        conversation.reset()

    policy = {"routes": {"all": {"models": ["*"], "targets": ["up/first", "up/second"]}}}
    front, upstream = await gateway_over(respond, policy=policy)
    _, error = events_of((await front.post({"stream": True})).content)
    assert "upstream_truncated" == error["error"]["code"]
    assert 1 == len(upstream.requests)
    assert ["truncated"] == [attempt["status"] for attempt in (await front.row())["attempts_made"]]


@pytest.mark.parametrize("attempts", [1, 2, 3])
async def test_the_number_of_tries_is_bounded(start_gateway: Any, attempts: int) -> None:
    """With all backends failing, the client's own retries included, nobody is asked more often than the limit."""
    broken = {"use": "fake", "fail": [{"kind": "status", "status": 500}], "repeat": True}
    backends = dict.fromkeys(("a", "b", "c", "d"), broken)
    front = await start_gateway({"backends": backends, "defaults": {"attempts": attempts}})
    response = await front.post()
    assert (500 <= response.status_code, str(attempts)) == (True, response.headers["x-headrace-attempts"])
    assert attempts == sum(front.backend(name).open_calls for name in backends)


@pytest.mark.parametrize(
    ("after_s", "phrase"), [({"first_token_s": 0.05}, "no token within"), ({"total_s": 0.05}, "did not finish within")]
)
async def test_a_backend_without_a_sign_is_a_504(start_gateway: Any, after_s: dict[str, float], phrase: str) -> None:
    """An upstream that stays silent is a 504 that says what was waited for."""
    front = await start_gateway(
        {"backends": {"b": {"use": "fake", "fail": [{"kind": "hang"}]}}, "defaults": {"timeouts": after_s}}
    )
    response: httpx.Response = await front.post({"stream": True})
    assert (504, "upstream_timeout") == (response.status_code, response.json()["error"]["code"])
    assert phrase in response.json()["error"]["message"]
    assert 1 == front.backend("b").closed_calls


async def test_a_stream_that_falls_silent_ends_with_an_error(start_gateway: Any, events_of: Any) -> None:
    """Silence in the middle of a stream is one error in it."""
    backends = {"b": {"use": "fake", "text": WORDS, "fail": [{"kind": "stall", "after_chunks": 2}]}}
    front = await start_gateway({"backends": backends, "defaults": {"timeouts": {"idle_s": 0.05}}})
    *_, error = events_of((await front.post({"stream": True})).content)
    assert "upstream_timeout" == error["error"]["code"]
    assert "truncated" == (await front.row())["status"]
