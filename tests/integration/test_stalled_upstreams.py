"""A stream that stalls is cut at the idle limit with an honest end, over either kind of connection to the upstream."""

import asyncio
from typing import Any

import pytest

CHUNK = b'data: {"id":"c","created":1,"model":"m","choices":[{"index":0,"delta":{"content":"%b"}}]}\n\n'
TIMEOUTS = {"first_token_s": 5.0, "idle_s": 0.1, "total_s": 10.0}


@pytest.mark.parametrize("transport", ["own", "httpx"])
@pytest.mark.parametrize("said", [1, 3])
async def test_a_stream_that_stalls_is_cut_and_says_so(
    gateway_over: Any, events_of: Any, transport: str, said: int
) -> None:
    """What came is there, then an error in the client's format and no end mark; the upstream is let go of at once."""
    left = asyncio.Event()

    async def respond(_: Any, conversation: Any) -> None:
        await conversation.stream(*(CHUNK % b"word%d" % number for number in range(said)), end=False)
        await conversation.until_closed()
        left.set()

    front, upstream = await gateway_over(respond, policy={"defaults": {"timeouts": TIMEOUTS}}, transport=transport)
    *chunks, error = events_of((await front.post({"stream": True})).content)
    assert [f"word{number}" for number in range(said)] == [chunk["choices"][0]["delta"]["content"] for chunk in chunks]
    assert "upstream_timeout" == error["error"]["code"]
    await asyncio.wait_for(left.wait(), 5)
    row = await front.row()
    (attempt,) = row["attempts_made"]
    assert ("truncated", "truncated", "UpstreamTimeout") == (row["status"], attempt["status"], attempt["error"])
    assert 1 == len(upstream.requests)
