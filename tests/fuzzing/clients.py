"""Clients of a case, what serves them, and what must hold whatever they do."""

import re
from collections.abc import Callable
from functools import partial
from typing import Any

import httptools

from gateway.transport.server import protocol_class
from gateway.transport.server_limits import ServerLimits
from tests.fuzzing.case import READ_BYTES, Case, failures_of, flood
from tests.memory_server import Kitchen, MemoryConnection, refuses, streams

LIMITS = ServerLimits(max_header_bytes=512, max_body_bytes=512, body_timeout_s=5, max_headers=8, head_timeout_s=5)
LARGE = b"x" * 100_000
MOST_UNSENT_BYTES = len(LARGE) + 70_000
"""One answer, and what a transport holds anyway."""
MOST_HELD_BYTES = 64 * 1024 + READ_BYTES
MOST_FAREWELL_KB = 256 + READ_BYTES // 1024
LONG_S = 100


async def _large(exchange: Any) -> None:
    await exchange.body()
    await exchange.answer(200, (), LARGE)


class _Late(Kitchen):
    """Asks for no body before it may."""

    def __init__(self) -> None:
        super().__init__(self._late, slow=True)

    async def _late(self, exchange: Any) -> None:
        await self.resume.wait()
        await exchange.answer(200, (), await exchange.body())


class _Broken(Kitchen):
    """Leaves every answer in its middle."""

    async def handle(self, exchange: Any) -> None:
        """See ``Pipeline.handle``, which never does this."""
        self.exchanges.append(exchange)
        try:
            await exchange.body()
            await exchange.open(200, ())
            raise ZeroDivisionError
        finally:
            self.ends.append("broken")


SERVICES: dict[str, Callable[[], Kitchen]] = {
    "whole": Kitchen,
    "slow": partial(Kitchen, slow=True),
    "late": _Late,
    "stream": partial(Kitchen, streams),
    "refuse": partial(Kitchen, refuses),
    "large": partial(Kitchen, _large),
    "breaks": _Broken,
}


async def serve(case: Case) -> list[bytes] | None:
    """The statuses of the final answers; ``None`` where the application had a part in them."""
    kitchen = SERVICES[case.service]()
    called = []

    async def app(scope: Any, _: Any, send: Any) -> None:
        called.append(scope)
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"4")]})
        await send({"type": "http.response.body", "body": b"site"})

    client = MemoryConnection(protocol_class(kitchen, LIMITS), app)
    try:
        failures = await failures_of(_play_client(case, kitchen, client))
        _check_end(client, kitchen, failures)
    finally:
        for task in client.state.tasks:
            task.cancel()
    statuses = re.findall(rb"HTTP/1\.1 ([2345]\d\d) ", client.received)
    sent = b"".join(str(data).encode("latin-1") for verb, data in case.steps if verb == "send")
    assert len(statuses) <= len(re.findall(rb"[\r\n]", sent)) + 1, "more answers than requests"
    if b"HEAD" not in sent:
        _check_answers(client.received)
    return None if called else statuses


def _check_end(client: MemoryConnection, kitchen: Kitchen, failures: list[object]) -> None:
    assert not failures, failures
    assert client.transport.closing, "the connection stays"
    assert client.transport.lost, "the connection is not let go of"
    assert not client.state.tasks, "somebody waits for ever"
    assert not client.state.connections, "uvicorn still has it"
    assert len(kitchen.exchanges) == len(kitchen.ends), "an exchange has no end"
    assert all(len(exchange.headers) <= LIMITS.max_headers for exchange in kitchen.exchanges if exchange._served)
    assert all(timer.cancelled() for timer in client.loop.timers), "a timer holds the connection"


def _check_answers(received: bytes) -> None:
    """Whoever reads HTTP can read what was written, and nothing stands after the last word."""

    class Reader:
        def on_message_complete(self) -> None:
            """Nothing to note: it is enough that it is one."""

    parser = httptools.HttpResponseParser(Reader())
    try:
        parser.feed_data(received)
    except httptools.HttpParserError as error:
        raise AssertionError(f"the client cannot read its answers: {error}") from error


async def _play_client(case: Case, kitchen: Kitchen, client: MemoryConnection) -> None:
    for verb, argument in case.steps:
        if verb == "send":
            await client.send(str(argument).encode("latin-1"))
        elif verb == "flood":
            parted = client.transport.wrote_eof
            await client.send(*flood(argument))
            assert client.transport.closing or not parted or int(argument) <= MOST_FAREWELL_KB, "a long farewell"
        else:
            await _step(kitchen, client, verb, int(argument))
        assert client.transport.unsent_bytes <= MOST_UNSENT_BYTES, "too much is kept for a client that reads nothing"
        for exchange in kitchen.exchanges:
            assert sum(map(len, exchange.pieces)) <= MOST_HELD_BYTES, "too much is kept of a body"
    await _end(case, kitchen, client)


async def _step(kitchen: Kitchen, client: MemoryConnection, verb: str, number: int) -> None:
    transport = client.transport
    if verb == "advance":
        client.loop.advance(number)
    elif verb == "hold":
        transport.taking = False
    elif verb == "take" and transport.unsent_bytes:
        transport.take(min(number, transport.unsent_bytes))
    elif verb == "leave" and not transport.lost:
        client.protocol.eof_received()
        transport.unsent_bytes = 0
        transport.close()
    elif verb == "resume":
        kitchen.resume.set()
    elif verb == "shutdown" and not transport.closing:
        client.protocol.shutdown()
    await client.settle()


async def _end(case: Case, kitchen: Kitchen, client: MemoryConnection) -> None:
    """All that may wait comes to its end: by itself, save for a stream, whose time the pipeline keeps."""
    kitchen.resume.set()
    await client.settle()
    for _ in range(6):
        if case.service in {"stream", "breaks"}:
            client.transport.taking = True
            if client.transport.unsent_bytes:
                client.transport.take(client.transport.unsent_bytes)
            await client.settle()
        client.loop.advance(LONG_S)
        await client.settle()
