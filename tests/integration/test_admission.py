"""Waiting for a place over real sockets: clients that leave, clients that do not read, and files that are read anew."""

import asyncio
import json
from typing import Any

import pytest

BODY = b'{"model":"m","stream":%b,"messages":[{"role":"user","content":"hi"}]}'
LATE = {"use": "fair_queue", "limit": None, "wait_s": 1000.0}


def _routes(names: tuple[str, ...], **fields: Any) -> dict[str, Any]:
    return {name: {"models": [name], "targets": ["b"], "admit": LATE, **fields} for name in names}


async def test_the_place_of_a_client_that_does_not_read_goes_to_who_waits(start_gateway: Any) -> None:
    """After ``client_s``, though the socket is open all the time and the answer has hardly begun."""
    backend = {"use": "fake", "models": ["m"], "concurrency": 1, "text": "word " * 2000, "tokens": 400_000}
    timeouts = {"client_s": 0.2}
    front = await start_gateway({"backends": {"b": backend}, "routes": _routes(("m",), timeouts=timeouts)})
    deaf = await front.raw()
    await deaf.post(BODY % b"true")
    await deaf.head()
    patient = await front.raw()
    await patient.post(b'{"model":"m","max_tokens":3,"messages":[{"role":"user","content":"hi"}]}')
    answer = await patient.answer()
    assert (200, "1") == (answer.status, answer.header("x-headrace-queue-position"))
    assert 0 < int(answer.header("x-headrace-queue-wait-ms"))
    deaf.hang_up()
    rows = await front.rows()
    assert {"client_gone", "ok"} == {row["status"] for row in rows}


async def test_clients_that_leave_while_they_wait_leave_nothing_behind(start_gateway: Any, eventually: Any) -> None:
    """On two routes that share the one place: whoever stays is served, and all counters are back at zero."""
    backend = {"use": "fake", "models": ["m"], "concurrency": 1, "fail": [{"kind": "hang"}]}
    front = await start_gateway({"backends": {"b": backend}, "routes": _routes(("left", "right"))})
    admitters = [route.admitter for route in front.gateway.world.routes]
    holder = await front.raw()
    await holder.post(BODY.replace(b'"m"', b'"left"') % b"false")
    await eventually(lambda: 1 == front.backend("b").open_calls)
    clients = []
    for number in range(20):
        client = await front.raw()
        await client.post(BODY.replace(b'"m"', b'"left"' if number % 2 else b'"right"') % b"false")
        clients.append(client)
    await eventually(lambda: [10, 10] == [admitter.waiting for admitter in admitters])
    for client in clients[:15]:
        client.hang_up()
    await eventually(lambda: 5 == sum(admitter.waiting for admitter in admitters))
    assert 1 == front.backend("b").open_calls
    holder.hang_up()
    answers = await asyncio.gather(*(client.answer() for client in clients[15:]))
    assert [200] * 5 == [answer.status for answer in answers]
    await eventually(lambda: 0 == front.gateway.pipeline.running)
    assert [(0, 0)] * 2 == [(admitter.waiting, admitter.in_flight) for admitter in admitters]
    series = await front.series()
    assert 0 == series['headrace_backend_in_flight{backend="b"}'] == series["headrace_queued"]


@pytest.mark.parametrize("stream", [True, False])
async def test_who_waits_through_a_reload_is_served(start_gateway: Any, eventually: Any, stream: bool) -> None:
    """The route is another one by then, and so is its queue."""
    backend = {"use": "fake", "models": ["m"], "concurrency": 1, "fail": [{"kind": "hang"}]}
    policy = {"backends": {"b": backend}, "routes": _routes(("m",))}
    front = await start_gateway(policy)
    holder, waiting = await front.raw(), await front.raw()
    await holder.post(BODY % b"false")
    await eventually(lambda: 1 == front.backend("b").open_calls)
    await waiting.post(BODY % (b"true" if stream else b"false"))
    before = front.gateway.world.routes[0].admitter
    await eventually(lambda: 1 == before.waiting)
    changed = policy | {"routes": _routes(("m",), admit=LATE | {"wait_s": 999.0})}
    front.policy_file.write_text(json.dumps(changed))
    await front.gateway.reload()
    assert before is not front.gateway.world.routes[0].admitter
    after = await front.raw()
    await after.post(BODY % b"false")
    await eventually(lambda: 1 == front.gateway.world.routes[0].admitter.waiting)
    holder.hang_up()
    heads = [await client.head() for client in (waiting, after)]
    assert [200, 200] == [head.status for head in heads]
