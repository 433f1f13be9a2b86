"""Spans, metrics and rows of requests however they end: one of each, closed once, bounded in number."""

import random
import string
from collections import Counter
from typing import Any

import httpx
import pytest

KEY = "sk-acme-0123456789"
SERVER, CLIENT = 2, 3
TRACE_ID, PARENT_ID = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"


async def _drop(front: Any) -> None:
    async with front.stream() as response:
        await anext(response.aiter_raw())


async def _drop_before_the_first_word(front: Any) -> None:
    with pytest.raises(httpx.ReadTimeout):
        await front.post({"stream": True}, timeout=0.1)
    assert 1 == front.backend("b").open_calls


async def _read(front: Any) -> None:
    await front.post({"stream": True})


async def _shut_down(front: Any) -> None:
    async with front.stream() as response:
        await anext(response.aiter_raw())
        await front.gateway.pipeline.drain(0)


ENDINGS = {
    "read to its end": ([], _read, "ok", 1, False),
    "dropped by the client": ([{"kind": "stall"}], _drop, "client_gone", 1, False),
    "dropped before a word": ([{"kind": "hang"}], _drop_before_the_first_word, "client_gone", 1, False),
    "failed in the middle": ([{"kind": "cut", "after_chunks": 2}], _read, "truncated", 1, True),
    "failed at first": ([{"kind": "status", "status": 500}], _read, "upstream_failed", 1, True),
    "timed out": ([{"kind": "stall", "after_chunks": 2}], _read, "truncated", 1, True),
    "shut down": ([{"kind": "stall"}], _shut_down, "truncated", 1, True),
}


@pytest.mark.parametrize("ending", ENDINGS)
async def test_one_server_span_and_one_client_span_a_try(start_gateway: Any, collector: Any, ending: str) -> None:
    """Whatever ends a stream, its spans are there once, with status and tokens, and no gauge stays up."""
    fail, act, status, attempts, is_fault = ENDINGS[ending]
    timeouts = {"idle_s": 0.1 if ending == "timed out" else 60.0}
    front = await start_gateway({"backends": {"b": {"use": "fake", "fail": fail}}, "defaults": {"timeouts": timeouts}})
    await act(front)
    row = await front.row()
    assert (status, attempts) == (row["status"], row["attempts"])
    series = await front.series()
    assert 0 == series["headrace_in_flight"]
    assert 0 == series['headrace_backend_in_flight{backend="b"}']
    assert 1 == series[f'headrace_requests_total{{operation="chat",route="all",status="{status}"}}']
    await front.stop()
    assert Counter({SERVER: 1, CLIENT: attempts}) == Counter(span.kind for span in collector.spans)
    server = next(span for span in collector.spans if span.kind == SERVER)
    tries = [span for span in collector.spans if span.kind == CLIENT]
    assert is_fault is server.error
    assert {server.span_id} == {span.parent_id for span in tries}
    assert {row["trace_id"]} == {span.trace_id for span in collector.spans}
    assert [a["output_tokens"] for a in row["attempts_made"]] == [
        span.attributes["gen_ai.usage.output_tokens"] for span in tries
    ]


async def test_a_refused_request_has_a_server_span_alone(start_gateway: Any, collector: Any) -> None:
    """A request that was not admitted has its span, and no try."""
    front = await start_gateway({"locked": True})
    await front.post()
    await front.post(b"no JSON", headers={"x-api-key": KEY})
    await front.stop()
    assert [(SERVER, False)] * 2 == [(span.kind, span.error) for span in collector.spans]


async def test_each_abandoned_try_has_its_span(start_gateway: Any, collector: Any) -> None:
    """A failover is two client spans under one server span, of which only the first is an error."""
    free = {"fake": {"price": {"input_usd_per_mtok": 0, "output_usd_per_mtok": 0}}}
    paid = {"fake": {"price": {"input_usd_per_mtok": 9, "output_usd_per_mtok": 9}}}
    broken = {"use": "fake", "fail": [{"kind": "refuse"}], "models": free}
    front = await start_gateway({"backends": {"broken": broken, "well": {"use": "fake", "models": paid}}})
    await front.post()
    await front.stop()
    assert [(CLIENT, True), (CLIENT, False)] == [(s.kind, s.error) for s in collector.spans if s.kind == CLIENT]
    assert [False] == [span.error for span in collector.spans if span.kind == SERVER]


@pytest.mark.parametrize("propagate", [False, True])
async def test_trace_context_comes_in_and_goes_out_only_where_wanted(
    gateway_over: Any, collector: Any, propagate: bool
) -> None:
    """A caller's trace is taken up; an upstream hears of it only where that is configured, as the try's own span."""

    async def respond(_: Any, conversation: Any) -> None:
        await conversation.answer(b'{"choices":[{"index":0,"message":{"content":"ok"},"finish_reason":"stop"}]}')

    front, upstream = await gateway_over(respond, propagate_trace=propagate)
    headers = {"traceparent": f"00-{TRACE_ID}-{PARENT_ID}-01", "tracestate": "vendor=1", "baggage": "a=b"}
    await front.post(headers=headers)
    await front.stop()
    server = next(span for span in collector.spans if span.kind == SERVER)
    client = next(span for span in collector.spans if span.kind == CLIENT)
    assert (TRACE_ID, PARENT_ID) == (server.trace_id, server.parent_id)
    went_up = {name: value for name, value in upstream.requests[0].headers if name in headers}
    expected = {"traceparent": f"00-{TRACE_ID}-{client.span_id}-01", "tracestate": "vendor=1"}
    assert (expected if propagate else {}) == went_up


async def test_an_unsampled_trace_is_not_exported(start_gateway: Any, collector: Any) -> None:
    """A caller that does not sample its trace gets no spans; its row has the trace's id all the same."""
    front = await start_gateway()
    await front.post(headers={"traceparent": f"00-{TRACE_ID}-{PARENT_ID}-00"})
    assert TRACE_ID == (await front.row())["trace_id"]
    await front.stop()
    assert [] == collector.spans


async def test_a_request_does_not_inherit_the_trace_of_the_one_before(start_gateway: Any, collector: Any) -> None:
    """Requests on one connection have traces of their own."""
    front = await start_gateway()
    await front.post(headers={"traceparent": f"00-{TRACE_ID}-{PARENT_ID}-01"})
    await front.post()
    await front.stop()
    servers = [span for span in collector.spans if span.kind == SERVER]
    assert 2 == len({span.trace_id for span in servers})
    assert "" == servers[1].parent_id


async def test_cached_tokens_are_part_of_the_input(gateway_over: Any, collector: Any) -> None:
    """The input count includes cached tokens, which are told apart, in row, metric and span alike."""
    usage = b'{"prompt_tokens":1000,"completion_tokens":5,"prompt_tokens_details":{"cached_tokens":900}}'

    async def respond(_: Any, conversation: Any) -> None:
        choice = b'{"choices":[{"index":0,"message":{"content":"ok"},"finish_reason":"stop"}],"usage":%b}'
        await conversation.answer(choice % usage)

    front, _ = await gateway_over(respond, models=["fake"])
    await front.post()
    row, series = await front.row(), await front.series()
    await front.stop()
    client = next(span for span in collector.spans if span.kind == CLIENT)
    assert (1000, 900) == (row["prompt_tokens"], row["cached_tokens"])
    assert (1000, 900) == tuple(
        series[f'headrace_tokens_total{{backend="up",kind="{kind}",model="fake"}}'] for kind in ("input", "cached")
    )
    assert 1000 == client.attributes["gen_ai.usage.input_tokens"]
    assert 900 in client.attributes.values()


async def test_what_clients_choose_makes_no_series(running: Any) -> None:
    """Random models, users, paths and methods leave the number of series where it was."""
    await running.post()
    await running.post(b"no JSON")
    before = await running.series()
    draw = random.Random(7)  # noqa: S311  # the same test every time

    def word() -> str:
        return "".join(draw.choices(string.printable + "模型é", k=12))

    client = await running.raw()
    for _ in range(150):
        await running.post({"model": word(), "user": word(), "metadata": {word(): word()}})
        path = word().encode().hex()
        await client.send(f"{draw.choice(['GET', 'PUT', 'PURGE'])} /{path} HTTP/1.1\r\nhost: h\r\n\r\n".encode())
        assert (await client.answer()).status in {404, 405}
    after = await running.series()
    assert before.keys() == after.keys()
    rows = await running.rows()
    assert 152 == len(rows)
    assert len({row["model"] for row in rows}) > 150
