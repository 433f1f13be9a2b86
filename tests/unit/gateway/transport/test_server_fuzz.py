"""Any bytes, cut anywhere: nothing is raised, each exchange ends once, and no connection stays for ever."""

import asyncio
import re

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gateway.transport.server import protocol_class
from gateway.transport.server_limits import ServerLimits
from tests.memory_server import Kitchen, MemoryConnection, refuses, site, streams

LIMITS = ServerLimits(max_header_bytes=512, max_body_bytes=512, body_timeout_s=5, max_headers=8, head_timeout_s=5)
LONG_S = 100.0

_WORDS = st.sampled_from(
    [
        b"POST /v1/chat/completions HTTP/1.1\r\n",
        b"POST /v1/completions?a=b HTTP/1.0\r\n",
        b"GET /site HTTP/1.1\r\n",
        b"HEAD /v1/chat/completions HTTP/1.1\r\n",
        b"host: h\r\n",
        b"content-length: 5\r\n",
        b"content-length: 600\r\n",
        b"transfer-encoding: chunked\r\n",
        b"expect: 100-continue\r\n",
        b"connection: close\r\n",
        b"connection: upgrade\r\nupgrade: h2c\r\n",
        b"content-encoding: gzip\r\n",
        b"\r\n",
        b"hello",
        b"5\r\nhello\r\n",
        b"0\r\n\r\n",
        b"x" * 600,
        b"\x1f\x8b\x08",
    ]
)
_CHAT = st.just(b"POST /v1/chat/completions HTTP/1.1\r\nhost: h\r\ncontent-length: 5\r\n\r\nhello")
_STREAMS = st.lists(st.one_of(_WORDS, _WORDS, _CHAT, st.binary(max_size=20)), max_size=24).map(b"".join)


async def _live(data: bytes, cuts: list[int], kitchen: Kitchen, *, leaves: bool) -> None:
    failures: list[object] = []
    loop = asyncio.get_running_loop()
    loop.set_exception_handler(lambda _, context: failures.append(context))
    client = MemoryConnection(protocol_class(kitchen, LIMITS), site)
    places = sorted({cut for cut in cuts if cut < len(data)})
    await client.send(*(data[start:end] for start, end in zip([0, *places], [*places, len(data)], strict=True)))
    if leaves:
        await client.leave()
    for _ in range(3):  # a late head, what it is answered with, what is never read of that
        client.loop.advance(LONG_S)
        await client.settle()
    kitchen.resume.set()
    await client.settle()
    client.loop.advance(LONG_S)
    await client.settle()
    assert client.transport.closing, "the connection stays"
    assert not client.state.tasks, "somebody waits for ever"
    assert len(kitchen.exchanges) == len(kitchen.ends)
    assert not failures
    assert len(re.findall(rb"HTTP/1.1 [2345]", client.received)) <= data.count(b"\n") + 1


@pytest.mark.parametrize("kitchen", ["whole", "slow", "stream", "refuse"])
@given(data=_STREAMS, cuts=st.lists(st.integers(1, 400), max_size=6), leaves=st.booleans())
@settings(max_examples=500, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow])
def test_any_bytes(kitchen: str, data: bytes, cuts: list[int], *, leaves: bool) -> None:
    """Requests, pieces of requests and noise, in any order and any cut, to any kind of service."""

    async def run() -> None:
        serve = {"stream": streams, "refuse": refuses}.get(kitchen)
        await _live(data, cuts, Kitchen(serve, slow=kitchen == "slow"), leaves=leaves)

    asyncio.run(run())
