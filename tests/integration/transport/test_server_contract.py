"""One contract for both implementations of the ``Exchange`` seam, on real sockets: what a client sees and costs."""

import asyncio
from typing import Any

import msgspec
import pytest

from tests.integration.seams import SEAMS, choose_seam

CHAT = b'{"model":"fake","messages":[{"role":"user","content":"hi"}]}'
STREAMED_CHAT = CHAT[:-1] + b',"stream":true}'
HEAD = b"POST /v1/chat/completions HTTP/1.1\r\nhost: h\r\n"


@pytest.fixture(params=SEAMS, autouse=True)
def _seam(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    choose_seam(request.param, monkeypatch)


@pytest.fixture
async def queueing(start_gateway: Any) -> Any:
    """A gateway over a backend that hangs at its first call, and admits one request at a time."""
    backends = {"b": {"use": "fake", "fail": [{"kind": "hang"}]}}
    return await start_gateway({"backends": backends, "defaults": {"admit": {"use": "fixed_concurrency", "limit": 1}}})


def _streaming(texts: int) -> Any:
    """An upstream that sends ``texts`` pieces of 16 KB and then waits for its client to go."""
    closed = asyncio.Event()
    text = "x" * 16_384
    event = b"data: " + msgspec.json.encode({"choices": [{"index": 0, "delta": {"content": text}}]}) + b"\n\n"

    async def respond(_: Any, conversation: Any) -> None:
        try:
            await conversation.stream(*(event for _ in range(texts)), end=False)
            await conversation.until_closed()
        finally:
            closed.set()

    return respond, closed


async def test_a_whole_answer_has_its_length_and_a_date(running: Any) -> None:
    """A whole answer says how long it is, when it was made, and keeps the connection."""
    client = await running.raw()
    await client.post(CHAT)
    answer = await client.answer()
    assert 200 == answer.status
    assert str(len(answer.body)) == answer.header("content-length")
    assert answer.header("date").endswith("GMT")
    assert "" == answer.header("connection")
    assert "stop" == answer.json["choices"][0]["finish_reason"]


async def test_a_stream_comes_in_chunks_to_its_end(running: Any, events_of: Any) -> None:
    """A streamed answer is chunked, ends with the end mark, and leaves the connection for the next request."""
    client = await running.raw()
    for _ in range(2):
        await client.post(STREAMED_CHAT)
        answer = await client.answer()
        assert ("chunked", "") == (answer.header("transfer-encoding"), answer.header("content-length"))
        assert "[DONE]" == events_of(answer.body)[-1]


async def test_an_error_keeps_the_connection(running: Any) -> None:
    """What is no JSON is a 400 with a length; the next request on the connection is served."""
    client = await running.raw()
    await client.post(b"no JSON")
    assert 400 == (await client.answer()).status
    await client.post(CHAT)
    assert 200 == (await client.answer()).status


@pytest.mark.parametrize("deltas", [0, 1])
async def test_leaving_a_stream_closes_the_upstream(gateway_over: Any, deltas: int) -> None:
    """A client that leaves before the first byte or in the middle ends the upstream's work, and is on the ledger."""
    respond, closed = _streaming(deltas)
    front, upstream = await gateway_over(respond)
    client = await front.raw()
    await client.post(STREAMED_CHAT)
    await upstream.until(lambda up: len(up.requests) == 1)
    if deltas:
        await client.head()
    client.hang_up()
    async with asyncio.timeout(1):
        await closed.wait()
    assert "client_gone" == (await front.row())["status"]


async def test_closing_the_writing_side_is_leaving(gateway_over: Any) -> None:
    """A client that half-closes cannot be told from one that closed, and is taken for gone."""
    respond, closed = _streaming(1)
    front, _ = await gateway_over(respond)
    client = await front.raw()
    await client.post(STREAMED_CHAT)
    await client.head()
    client.writer.write_eof()
    async with asyncio.timeout(1):
        await closed.wait()
    assert "client_gone" == (await front.row())["status"]


async def test_leaving_the_queue_gives_the_place_up(queueing: Any, eventually: Any) -> None:
    """A client that leaves while it waits for its turn is recorded, and nothing is sent for it."""
    first, second = await queueing.raw(), await queueing.raw()
    await first.post(CHAT)
    await eventually(lambda: queueing.backend("b").open_calls == 1)
    await second.post(CHAT)
    await eventually(lambda: queueing.gateway.pipeline.running == 2)
    second.hang_up()
    await eventually(lambda: queueing.gateway.pipeline.running == 1)
    row = await queueing.row()
    assert ("client_gone", []) == (row["status"], row["attempts_made"])


async def test_a_client_that_does_not_read_holds_the_upstream_back(gateway_over: Any, eventually: Any) -> None:
    """Back-pressure goes all the way to the upstream, and nothing is lost when the client reads on."""
    event = b"data: " + msgspec.json.encode({"choices": [{"index": 0, "delta": {"content": "x" * 65_536}}]}) + b"\n\n"
    last = b'data: {"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}\n\ndata: [DONE]\n\n'
    conversations = []

    async def respond(_: Any, conversation: Any) -> None:
        conversations.append(conversation)
        await conversation.stream(*[event] * 300, last)

    front, _ = await gateway_over(respond)
    client = await front.raw(receive_buffer_bytes=4096, read_limit=4096)
    await client.post(STREAMED_CHAT)
    await client.head()
    (connection,) = front.server.server_state.connections
    await eventually(
        lambda: connection.flow.write_paused and conversations[0].writer.transport.get_write_buffer_size() > 0
    )
    received = b"".join([piece async for piece in client.chunks()])
    assert event * 300 + last == received


async def test_pipelined_requests_are_answered_in_order(running: Any) -> None:
    """Requests of both kinds that are sent ahead are answered one after the other, other routes among them."""
    client = await running.raw()
    length = b"content-length: %d\r\n\r\n" % len(CHAT)
    streamed = b"content-length: %d\r\n\r\n" % len(STREAMED_CHAT)
    await client.send(
        HEAD + length + CHAT + b"GET /healthz HTTP/1.1\r\nhost: h\r\n\r\n" + HEAD + streamed + STREAMED_CHAT,
        HEAD + length + CHAT,
    )
    answers = [await client.answer() for _ in range(4)]
    assert [200] * 4 == [answer.status for answer in answers]
    kinds = [answer.body[:5] for answer in answers]
    assert [b'{"id"', b'{"sta', b"data:", b'{"id"'] == kinds


@pytest.mark.parametrize("_seam", ["protocol"], indirect=True)  # uvicorn hears nothing while it does not read
async def test_leaving_with_requests_waiting_ends_the_one_under_way(queueing: Any, eventually: Any) -> None:
    """A client that pipelined and leaves is noticed, whatever it has sent ahead."""
    client = await queueing.raw()
    await client.post(CHAT)
    await eventually(lambda: queueing.backend("b").open_calls == 1)
    await client.post(CHAT)
    client.hang_up()
    await eventually(lambda: queueing.backend("b").closed_calls == 1, within_s=1)


@pytest.mark.parametrize("body", [CHAT, STREAMED_CHAT])
async def test_http_1_0(running: Any, body: bytes) -> None:
    """A client of HTTP/1.0 sees no chunks, and its answer ends with the connection."""
    client = await running.raw()
    await client.send(b"POST /v1/chat/completions HTTP/1.0\r\ncontent-length: %d\r\n\r\n" % len(body) + body)
    answer = await client.answer()
    assert (200, "", "close") == (answer.status, answer.header("transfer-encoding"), answer.header("connection"))
    assert answer.body.endswith(b"data: [DONE]\n\n") or answer.json["choices"]
    assert b"" == await client.until_closed()


async def test_connection_close_is_kept_to(running: Any) -> None:
    """A client that asks for it sees the connection end with the answer, and nothing after it is served."""
    client = await running.raw()
    await client.post(CHAT, headers="connection: close\r\n")
    assert "close" == (await client.answer()).header("connection")
    assert b"" == await client.until_closed()


@pytest.mark.parametrize("method", [b"HEAD", b"GET", b"PUT", b"OPTIONS"])
async def test_other_methods_are_a_405(running: Any, method: bytes) -> None:
    """The inference routes take POST alone; HEAD gets no body."""
    client = await running.raw()
    await client.send(method + b" /v1/chat/completions HTTP/1.1\r\nhost: h\r\n\r\n")
    answer = await client.head()
    assert 405 == answer.status
    if method == b"HEAD":
        await client.send(b"GET /healthz HTTP/1.1\r\nhost: h\r\n\r\n")
        assert 200 == (await client.head()).status


@pytest.mark.parametrize(
    "target",
    [b"/v1/chat/completions?x=y", b"/v1/chat%2Fcompletions", b"http://h/v1/chat/completions", b"/v1/completions"],
)
async def test_targets_in_all_their_forms(running: Any, target: bytes) -> None:
    """A query, percent-encoding and the absolute form lead to the same route."""
    body = (
        CHAT.replace(b'"messages":[{"role":"user","content":"hi"}]', b'"prompt":"p"')
        if target.endswith(b"v1/completions")
        else CHAT
    )
    client = await running.raw()
    await client.send(b"POST %b HTTP/1.1\r\nhost: h\r\ncontent-length: %d\r\n\r\n%b" % (target, len(body), body))
    assert 200 == (await client.answer()).status


async def test_the_end_of_a_drain_ends_a_stream_in_band(start_gateway: Any, events_of: Any) -> None:
    """A stream that a drain cuts off ends with an error event, in whole chunks, and the connection closes."""
    front = await start_gateway({"backends": {"b": {"use": "fake", "tokens": 100, "seconds_per_token": 0.05}}})
    client = await front.raw()
    await client.post(STREAMED_CHAT)
    await client.head()
    stopping = asyncio.create_task(front.gateway.pipeline.drain(0))
    pieces = [piece async for piece in client.chunks()]
    await stopping
    assert "error" in events_of(b"".join(pieces))[-1]
    await client.post(CHAT)
    assert 503 == (await client.answer()).status
