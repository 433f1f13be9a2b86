"""Answers that are given again, over real sockets: the same bytes on both transports, and what is booked of them."""

import asyncio
from typing import Any

import pytest

from tests.integration.seams import SEAMS, choose_seam

CACHED = {"all": {"models": ["*"], "targets": ["up"], "cache": {"ttl_s": 60, "most_answer_bytes": 8 * 2**20}}}


@pytest.fixture(params=SEAMS)
async def front(request: Any, start_gateway: Any, monkeypatch: pytest.MonkeyPatch) -> Any:
    """A gateway whose one route keeps its answers."""
    choose_seam(request.param, monkeypatch)
    models = {"m": {"price": {"input_usd_per_mtok": 1, "output_usd_per_mtok": 1}}}
    backend = {"use": "fake", "models": models, "text": "word " * 100, "tokens": 5_000}
    return await start_gateway({"backends": {"up": backend}, "routes": CACHED})


async def test_streams_and_whole_answers_come_again_byte_for_byte(front: Any) -> None:
    """A long stream, too; on the ledger's disk and in the metrics stands what was not paid again."""
    body = {"model": "m", "temperature": 0}
    streams = []
    for _ in range(2):
        async with front.stream(body) as response:
            streams.append((response.headers["x-headrace-cache"], await response.aread()))
    whole = [await front.post(body) for _ in range(2)]
    assert [("miss", streams[0][1]), ("hit", streams[0][1])] == streams
    assert len(streams[0][1]) > 2**18
    assert ["miss", "hit"] == [one.headers["x-headrace-cache"] for one in whole]
    assert whole[0].content == whole[1].content
    rows = await front.rows()
    assert ["miss", "hit", "miss", "hit"] == [row["cache"] for row in rows]
    assert [0, 0] == [row["cost_pico_usd"] for row in rows if row["cache"] == "hit"]
    saved = sum(row["saved_pico_usd"] or 0 for row in rows)
    assert saved == sum(row["cost_pico_usd"] for row in rows) > 0
    series = await front.series()
    assert 2 == series['headrace_cache_requests_total{result="hit",route="all"}']
    assert saved / 10**12 == pytest.approx(series['headrace_cache_saved_usd_total{route="all"}'])


async def test_who_leaves_in_the_middle_leaves_the_answer_for_the_next(front: Any, eventually: Any) -> None:
    """A hang-up ends the one request alone; of an answer that nobody took to its end nothing is kept."""
    body = b'{"model":"m","temperature":0,"stream":true,"messages":[{"role":"user","content":"hi"}]}'
    impatient = await front.raw(receive_buffer_bytes=4096)
    await impatient.post(body)
    await impatient.head()
    impatient.hang_up()
    await eventually(lambda: front.gateway.pipeline.running == 0)
    async with front.stream({"model": "m", "temperature": 0}) as response:
        await response.aread()
    leaver = await front.raw(receive_buffer_bytes=4096)
    await leaver.post(body)
    await leaver.head()
    leaver.hang_up()
    await eventually(lambda: front.gateway.pipeline.running == 0)
    async with front.stream({"model": "m", "temperature": 0}) as response:
        assert ("hit", True) == (response.headers["x-headrace-cache"], (await response.aread()).endswith(b"[DONE]\n\n"))


async def test_the_official_client_reads_an_answer_twice(front: Any) -> None:
    """Asked side by side, too: each is answered, and the last one's answer is kept."""
    client = front.openai()
    asked = {"model": "m", "temperature": 0, "messages": [{"role": "user", "content": "hi"}]}
    first = await asyncio.gather(*(client.chat.completions.create(**asked) for _ in range(3)))
    again = await client.chat.completions.create(**asked)
    assert again.choices[0].message.content == first[0].choices[0].message.content
    assert again.id in {one.id for one in first}


async def test_a_hit_is_a_step_of_its_task(start_gateway: Any) -> None:
    """Whoever loops over the same question comes to the end of its budget all the same."""
    routes = {"all": {**CACHED["all"], "task": {"steps": 2}}}
    front = await start_gateway({"backends": {"up": {"use": "fake", "models": ["m"]}}, "routes": routes})
    headers = {"x-headrace-task": "t-1"}
    answers = [await front.post({"model": "m", "temperature": 0}, headers=headers) for _ in range(3)]
    assert ["miss", "hit"] == [one.headers["x-headrace-cache"] for one in answers[:2]]
    assert answers[2].is_client_error
