"""Judges, cascades and shadows in a whole gateway: real sockets, a real ledger, metrics and spans."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, suppress
from typing import Any

import pytest
import yaml

from gateway.commands import explain
from gateway.price import PICO_USD_PER_USD, Usage
from gateway.types import Operation
from gateway.wire.openai_answer import Answered, Called, StreamWriter, whole_answer

WEATHER = {
    "type": "function",
    "function": {
        "name": "weather",
        "parameters": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
    },
}
GOOD, BAD = '{"city":"Ulm"}', '{"town":"Ulm"}'
PRICE = {"input_usd_per_mtok": 100, "output_usd_per_mtok": 100}


def _calls(arguments: str) -> Callable[[Any, Any], Any]:
    """An upstream that calls the weather tool with these arguments, once for each choice, whole or streamed."""

    async def respond(request: Any, conversation: Any) -> None:
        asked, usage = request.json, Usage(prompt_tokens=10, output_tokens=5)
        called = Called("c1", "weather", arguments)
        n = asked.get("n", 1)
        if not asked.get("stream"):
            choices = [Answered("", "tool_calls", calls=[called])] * n
            await conversation.answer(whole_answer(Operation.CHAT, "a", asked["model"], 0, choices, usage))
            return
        writer = StreamWriter(Operation.CHAT, "a", asked["model"], 0)
        half = len(arguments) // 2
        events = [
            event
            for at in range(n)
            for event in (
                writer.call(at, 0, Called("c1", "weather", arguments[:half])),
                writer.call(at, 0, Called("", "", arguments[half:])),
                writer.finish(at, "tool_calls"),
            )
        ]
        await conversation.stream(*events, writer.usage(usage), writer.done())

    return respond


def _backend(upstream: Any, model: str) -> dict[str, Any]:
    return {"use": "openai_compatible", "base_url": upstream.url, "models": {model: {"price": PRICE}}}


@pytest.fixture
async def front_over(serve: Any, start_gateway: Any) -> AsyncIterator[Callable[..., Any]]:
    """Starts a gateway whose cheap and strong models are these upstreams, with these fields of its one route."""
    async with AsyncExitStack() as stack:

        async def start(cheap: Any, strong: Any, route: dict[str, Any], **more: Any) -> tuple[Any, Any, Any]:
            first = await stack.enter_async_context(serve(cheap))
            second = await stack.enter_async_context(serve(strong))
            backends = {"cheap": _backend(first, "small"), "strong": _backend(second, "large"), **more}
            policy = {"backends": backends, "routes": {"main": {"models": ["*"], **route}}}
            return await start_gateway(policy), first, second

        yield start


CASCADE = {"cascade": [{"targets": ["cheap"], "judge": ["tool_arguments"]}, {"targets": ["strong"]}]}
ASK = {"tools": [WEATHER], "tool_choice": "required"}


async def _settled(front: Any) -> list[dict[str, Any]]:
    """The ledger's requests, when all judging is over and written."""
    afterwards = front.gateway._afterwards
    await afterwards.shadows.settled()
    await afterwards.docket.idle()
    await front.gateway._judged_rows.flush()
    return await front.rows()


async def _judged(front: Any) -> list[dict[str, Any]]:
    columns = ("occasion", "attempt", "backend", "success", "reason", "escalated_for", "cost_pico_usd", "request_id")
    query = f"SELECT {', '.join(columns)} FROM judged_answers ORDER BY judged_unix_s, occasion"  # noqa: S608  # our own
    rows = await front.gateway._tables.rows(query)
    return [dict(zip(columns, row, strict=True)) for row in rows]


@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize("n", [1, 3])
async def test_a_tool_call_that_does_not_fit_goes_further(
    front_over: Any, events_of: Any, stream: bool, n: int
) -> None:
    """The client gets the strong model's call; the ledger has both attempts, what was said, and the sum."""
    front, cheap, strong = await front_over(_calls(BAD), _calls(GOOD), CASCADE)
    response = await front.post({**ASK, "stream": stream, "n": n})
    assert (200, "strong", "tool_arguments", "2") == (
        response.status_code,
        response.headers["x-headrace-backend"],
        response.headers["x-headrace-escalated"],
        response.headers["x-headrace-attempts"],
    )
    assert b"town" not in response.content
    events = [event for event in events_of(response.content) if event != "[DONE]"] if stream else [response.json()]
    assert {*range(n)} == {choice["index"] for event in events for choice in event["choices"]}
    assert (1, 1) == (len(cheap.requests), len(strong.requests))
    (row,) = await _settled(front)
    assert ("ok", 2) == (row["status"], row["attempts"])
    assert [("cheap", 0), ("strong", 1)] == [(one["backend"], one["serves"]) for one in row["attempts_made"]]
    assert "strong" == row["backend"]
    assert 2 * 15 * 100 * PICO_USD_PER_USD // 1_000_000 == row["cost_pico_usd"]
    (judged,) = await _judged(front)
    assert ("cascade", 1, "cheap", 0, "tool_arguments", row["id"]) == (
        judged["occasion"],
        judged["attempt"],
        judged["backend"],
        judged["success"],
        judged["escalated_for"],
        judged["request_id"],
    )
    assert row["attempts_made"][0]["cost_pico_usd"] == judged["cost_pico_usd"]
    query = "SELECT judge, success, reason FROM verdicts"
    ((judge, success, reason),) = await front.gateway._tables.rows(query)
    assert ("tool_arguments", 0) == (judge, success)
    assert "`required` does not hold" in reason
    assert "town" not in reason


@pytest.mark.parametrize("stream", [True, False])
async def test_a_tool_call_that_fits_is_the_cheap_ones(front_over: Any, stream: bool) -> None:
    """Byte for byte what the upstream said, but that the client did not ask for the counts."""
    front, _, strong = await front_over(_calls(GOOD), _calls(GOOD), CASCADE)
    response = await front.post({**ASK, "stream": stream})
    assert (200, "cheap", None, 0) == (
        response.status_code,
        response.headers["x-headrace-backend"],
        response.headers.get("x-headrace-escalated"),
        len(strong.requests),
    )
    assert response.content.count(b"weather") == 1
    series = await front.series()
    for judge in ("all", "tool_arguments"):
        labels = f'backend="cheap",judge="{judge}",occasion="cascade",route="main",verdict="passed"'
        assert 1 == series[f"headrace_verdicts_total{{{labels}}}"]


async def test_the_official_client_notices_nothing_of_a_cascade(front_over: Any) -> None:
    """Streamed and whole, with tools."""
    front, _, _ = await front_over(_calls(BAD), _calls(GOOD), CASCADE)
    ask = {"model": "any", "messages": [{"role": "user", "content": "Weather?"}], **ASK}
    whole = await front.openai().chat.completions.create(**ask)
    assert GOOD == whole.choices[0].message.tool_calls[0].function.arguments
    text = ""
    async for chunk in await front.openai().chat.completions.create(**ask, stream=True):
        for choice in chunk.choices:
            text += "".join(call.function.arguments or "" for call in choice.delta.tool_calls or ())
    assert GOOD == text


async def test_a_hang_up_while_an_answer_is_held_closes_the_upstream(front_over: Any) -> None:
    """At once; the next step is not asked."""

    async def never(_: Any, conversation: Any) -> None:
        await conversation.stream(b'data: {"choices":[{"index":0,"delta":{"content":"one"}}]}\n\n', end=False)
        await conversation.until_closed()

    front, cheap, strong = await front_over(never, _calls(GOOD), CASCADE)
    async with asyncio.TaskGroup() as group:
        asking = group.create_task(_ignored(front.post({**ASK, "stream": True})))
        await cheap.until(lambda seen: seen.answering == 1)
        asking.cancel()
    await cheap.until(lambda seen: seen.open_connections == 0)
    row = await front.row()
    assert ("client_gone", 0) == (row["status"], len(strong.requests))


async def _ignored(call: Any) -> None:
    with suppress(asyncio.CancelledError):
        await call


async def test_answers_are_judged_and_spanned_after_they_were_served(collector: Any, front_over: Any) -> None:
    """By a judge in this process and by a service; the span hangs below the request's, and holds no words."""
    seen: list[Any] = []

    async def judge(request: Any, conversation: Any) -> None:
        seen.append(request)
        await conversation.answer(b'{"success": false, "score": 0.25, "reason": "off_topic"}')

    front, service, _ = await front_over(
        judge,
        _calls(GOOD),
        {"targets": ["strong"], "judge": ["tool_arguments"]},
    )
    policy = yaml.safe_load(front.policy_file.read_text())
    url = service.url.replace("/v1", "/judge")
    policy["routes"]["main"]["judge"].append({"use": "http", "url": url, "send": ["answer"]})
    front.policy_file.write_text(yaml.safe_dump(policy))
    await front.gateway.reload()
    await front.post({**ASK, "messages": [{"role": "user", "content": "xyzzy weather"}]})
    rows = await _settled(front)
    (judged,) = await _judged(front)
    assert ("served", 0, "http: off_topic") == (judged["occasion"], judged["success"], judged["reason"])
    assert GOOD == seen[0].json["choices"][0]["tool_calls"][0]["arguments"]
    assert b"xyzzy" not in seen[0].body
    await collector.until(lambda: {1, 2} <= {span.kind for span in collector.spans})
    span = next(span for span in collector.spans if span.name == "judge main")
    server = next(span for span in collector.spans if span.kind == 2)
    assert (1, server.span_id, server.trace_id) == (span.kind, span.parent_id, span.trace_id)
    assert ("failed", ["tool_arguments: passed", "http: failed"], rows[0]["id"], 0.25) == (
        span.attributes["headrace.judged.verdict"],
        span.attributes["headrace.judged.verdicts"],
        span.attributes["headrace.request.id"],
        span.attributes["headrace.judged.score"],
    )
    assert "Ulm" not in str(span.attributes)


async def test_a_shadow_is_on_the_ledger_apart(front_over: Any) -> None:
    """Its cost is in no request's, and its answer in nobody's hands."""
    shadow = {"to": "strong", "share": 1, "usd": 1, "judge": ["tool_arguments"], "most_load": 1000}
    front, _, strong = await front_over(_calls(BAD), _calls(GOOD), {"targets": ["cheap"], "shadow": shadow})
    response = await front.post(ASK)
    assert b"town" in response.content
    (row,) = await _settled(front)
    assert (1, 15 * 100 * PICO_USD_PER_USD // 1_000_000) == (row["attempts"], row["cost_pico_usd"])
    (judged,) = await _judged(front)
    assert ("shadow", 0, "strong", 1, row["id"], row["cost_pico_usd"]) == (
        judged["occasion"],
        judged["attempt"],
        judged["backend"],
        judged["success"],
        judged["request_id"],
        judged["cost_pico_usd"],
    )
    assert 1 == len(strong.requests)
    series = await front.series()
    assert 0.0015 == pytest.approx(series['headrace_shadow_cost_usd_total{backend="strong",route="main"}'])
    assert 0.0015 == pytest.approx(series['headrace_cost_usd_total{backend="cheap",model="small"}'])
    assert 'headrace_cost_usd_total{backend="strong",model="large"}' not in series


async def test_explain_tells_what_judges_said_of_a_request(front_over: Any, capsys: pytest.CaptureFixture[str]) -> None:
    """The steps, and of a request that was served each verdict; the decision comes out again."""
    front, _, _ = await front_over(_calls(BAD), _calls(GOOD), CASCADE)
    response = await front.post(ASK)
    await _settled(front)
    arguments = type("Arguments", (), {})()
    arguments.policy, arguments.entry, arguments.request = front.policy_file, response.headers["x-request-id"], None
    arguments.success, arguments.json, arguments.ledger = False, False, front.policy_file.parent / "ledger.sqlite3"
    assert 0 == await asyncio.to_thread(explain.run, arguments)
    said = capsys.readouterr().out
    assert "step 1     cheap: held until `tool_arguments` passes it" in said
    assert "step 2     strong: goes out as it comes" in said
    assert "cascade    cheap/small (attempt 1): failed, score 0; went further for tool_arguments" in said
    assert "the same bills and the same choice" in said


SCHEMA = {
    "type": "object",
    "properties": {"city": {"enum": ["Paris", "Rome"]}, "days": {"type": "integer"}},
    "required": ["city", "days"],
    "additionalProperties": False,
}


@pytest.mark.model
async def test_the_embedded_model_answers_what_it_can(start_gateway: Any, default_model_path: Any) -> None:
    """With its form forced it passes the schema's judge; left to itself it does not, and somebody else answers."""
    local = {"use": "embedded", "model": str(default_model_path), "slots": 1, "context_tokens": 512, "threads": 1}
    strong = {"use": "fake", "text": '{"city":"Rome","days":3}', "models": ["large"]}
    judge = [{"use": "json_schema", "schema": SCHEMA}]
    steps = [{"targets": ["local"], "judge": judge}, {"targets": ["strong/large"]}]
    policy = {"backends": {"local": local, "strong": strong}, "routes": {"main": {"models": ["*"], "cascade": steps}}}
    front = await start_gateway(policy)
    form = {"type": "json_schema", "json_schema": {"name": "trip", "schema": SCHEMA, "strict": True}}
    ask = {"messages": [{"role": "user", "content": "Where to?"}], "max_tokens": 60, "temperature": 0}
    for stream in (True, False):
        forced = await front.post({**ask, "response_format": form, "stream": stream})
        free = await front.post({**ask, "max_tokens": 8, "stream": stream})
        assert ["local", "strong"] == [answer.headers["x-headrace-backend"] for answer in (forced, free)]
        assert "json_schema" == free.headers["x-headrace-escalated"]
