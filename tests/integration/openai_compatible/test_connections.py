"""What is opened, used again and closed, and when."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from backends.openai_compatible import OpenAICompatible
from gateway.errors import UpstreamError, UpstreamTimeout, UpstreamUnreachable

Connect = Callable[..., Any]


@pytest.mark.parametrize("pieces", [1, 2, 3])
async def test_cancelling_a_stream_closes_the_upstream_at_once(
    connect: Connect, events: Any, make_call: Any, recording_sink: Any, pieces: int
) -> None:
    """When the client leaves in the middle of a stream, the upstream sees its socket close."""
    closed = asyncio.Event()

    async def respond(request: Any, conversation: Any) -> None:
        await conversation.stream(*events(request)[:pieces], end=False)
        await conversation.until_closed()
        closed.set()

    async with connect(respond) as (backend, upstream):
        call = make_call(stream=True)
        sink = recording_sink(call)
        sending = asyncio.ensure_future(backend.send(call, sink))
        await sink.pushed.wait()
        sending.cancel()
        with pytest.raises(asyncio.CancelledError):
            await sending
        await closed.wait()
        await upstream.until(lambda it: it.open_connections == 0)


async def test_a_call_that_has_no_answer_yet_closes_the_upstream_too(
    connect: Connect, make_call: Any, recording_sink: Any
) -> None:
    """Five impatient calls for a whole answer, one after the other, never leave more than one generation alive."""
    most = 0

    async def respond(_: Any, conversation: Any) -> None:
        nonlocal most
        most = max(most, upstream.open_connections)
        await conversation.until_closed()

    async with connect(respond) as (backend, upstream):
        for number in range(1, 6):
            call = make_call()
            sending = asyncio.ensure_future(backend.send(call, recording_sink(call)))
            await upstream.until(lambda it, number=number: len(it.requests) == number)
            sending.cancel()
            with pytest.raises(asyncio.CancelledError):
                await sending
            await upstream.until(lambda it: it.open_connections == 0)
    assert 1 == most


@pytest.mark.parametrize("stream", [True, False])
async def test_cancelling_at_any_moment_leaves_nothing_behind(
    connect: Connect, make_call: Any, recording_sink: Any, stream: bool
) -> None:
    """However far a call has come when it is cancelled, the only connection that is allowed serves the next."""
    async with connect(max_connections=1) as (backend, _):
        finished = False
        steps = 0
        while not finished:
            call = make_call(stream=stream)
            sending = asyncio.ensure_future(backend.send(call, recording_sink(call)))
            for _ in range(steps):
                await asyncio.sleep(0)
            finished = sending.done()
            sending.cancel()
            await asyncio.gather(sending, return_exceptions=True)
            after = make_call(stream=stream)
            assert "stop" == (await backend.send(after, recording_sink(after))).reason
            steps += 1
    assert steps > 3


async def test_a_second_cancel_does_not_stop_the_close(
    connect: Connect, events: Any, make_call: Any, recording_sink: Any
) -> None:
    """A caller that cancels again while the connection is being closed leaves it no less closed."""

    async def respond(request: Any, conversation: Any) -> None:
        await conversation.stream(events(request)[0], end=False)
        await conversation.until_closed()

    async with connect(respond) as (backend, upstream):
        call = make_call(stream=True)
        sink = recording_sink(call)
        sending = asyncio.ensure_future(backend.send(call, sink))
        await sink.pushed.wait()
        for _ in range(5):
            sending.cancel()
            await asyncio.sleep(0)
        await asyncio.gather(sending, return_exceptions=True)
        await upstream.until(lambda it: it.open_connections == 0)


async def test_an_idle_connection_that_the_server_closed_is_not_used(
    connect: Connect, body: Any, make_call: Any, recording_sink: Any
) -> None:
    """A server may close an idle connection at any time; the next request takes a new one and does not fail."""

    async def respond(request: Any, conversation: Any) -> None:
        await conversation.answer(body(request))
        conversation.writer.close()

    async with connect(respond) as (backend, upstream):
        for number in range(1, 4):
            call = make_call()
            await backend.send(call, recording_sink(call))
            await upstream.until(lambda it: it.open_connections == 0)
            assert number == upstream.connections


async def test_an_idle_connection_expires_before_the_servers_own_limit(
    connect: Connect, make_call: Any, recording_sink: Any
) -> None:
    """A connection older than ``keep_alive_s`` is not used again, however alive it is."""
    async with connect(keep_alive_s=1e-9) as (backend, upstream):
        for _ in range(3):
            call = make_call()
            await backend.send(call, recording_sink(call))
        assert 3 == upstream.connections
    assert OpenAICompatible(base_url="http://a/v1").keep_alive_s < 5


async def test_idle_connections_are_closed_though_nobody_asks_any_more(
    connect: Connect, make_call: Any, recording_sink: Any
) -> None:
    """After a burst, the connections that were kept are closed by themselves."""
    async with connect(keep_alive_s=0.01) as (backend, upstream):
        calls = [make_call() for _ in range(5)]
        await asyncio.gather(*(backend.send(call, recording_sink(call)) for call in calls))
        await upstream.until(lambda it: it.open_connections == 0)
        assert len(upstream.requests) == 5


async def test_a_connection_closed_on_arrival_fails_once(connect: Connect, make_call: Any, recording_sink: Any) -> None:
    """A server that hangs up as the request arrives may have begun with it: it is not sent twice."""

    async def respond(_: Any, conversation: Any) -> None:
        conversation.writer.close()

    async with connect(respond) as (backend, upstream):
        call = make_call()
        with pytest.raises(UpstreamUnreachable, match="without an answer") as caught:
            await backend.send(call, recording_sink(call))
        assert (1, True) == (len(upstream.requests), caught.value.retryable)


async def test_nobody_listens(connect: Connect, make_call: Any, recording_sink: Any, surroundings: Any) -> None:
    """A port where nobody listens is told as that, without its address."""
    async with connect() as (_, upstream):
        address = upstream.url
    backend = OpenAICompatible(base_url=address)
    await backend.start("pool", surroundings())
    call = make_call()
    with pytest.raises(UpstreamUnreachable, match="connection refused") as caught:
        await backend.send(call, recording_sink(call))
    await backend.close()
    assert "pool" == caught.value.backend
    assert "127.0.0.1" not in caught.value.message


async def test_no_free_connection(connect: Connect, make_call: Any, recording_sink: Any) -> None:
    """When our own limit is reached, the call fails after the connect timeout, and the backend is not blamed."""

    async def respond(_: Any, conversation: Any) -> None:
        await conversation.until_closed()

    async with connect(respond, max_connections=1, connect_timeout_s=0.02) as (backend, upstream):
        first = asyncio.ensure_future(backend.send(call := make_call(), recording_sink(call)))
        await upstream.until(lambda it: len(it.requests) == 1)
        with pytest.raises(UpstreamUnreachable, match="connections to the upstream are in use") as caught:
            await backend.send(call, recording_sink(call))
        first.cancel()
        await asyncio.gather(first, return_exceptions=True)
    assert not caught.value.blames_backend
    assert not isinstance(caught.value, UpstreamTimeout)


async def test_a_closed_backend_serves_nothing(connect: Connect, make_call: Any, recording_sink: Any) -> None:
    """After ``close``, which may be called twice, a call fails like any other without a connection."""
    async with connect() as (backend, upstream):
        await backend.close()
        await backend.close()
        call = make_call()
        with pytest.raises(UpstreamUnreachable, match="is closed"):
            await backend.send(call, recording_sink(call))
        assert 0 == upstream.connections


@pytest.mark.parametrize("stream", [True, False])
async def test_closing_ends_the_calls_under_way(
    connect: Connect, events: Any, make_call: Any, recording_sink: Any, stream: bool
) -> None:
    """``close`` leaves no connection behind: a call that is still under way fails, and its upstream sees the end."""

    async def respond(request: Any, conversation: Any) -> None:
        if stream:
            await conversation.stream(events(request)[0], end=False)
        await conversation.until_closed()

    async with connect(respond) as (backend, upstream):
        call = make_call(stream=stream)
        sending = asyncio.ensure_future(backend.send(call, recording_sink(call)))
        await upstream.until(lambda it: it.answering == 1)
        await backend.close()
        with pytest.raises(UpstreamError):
            await sending
        await upstream.until(lambda it: it.open_connections == 0)
