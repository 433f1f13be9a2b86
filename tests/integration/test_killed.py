"""What a ``kill -9`` of the server leaves on its ledger."""

import asyncio
import signal
from typing import Any

from tests.integration.served_process import serve_process

BODY = b'{"model":"fake","stream":%s,"messages":[{"role":"user","content":"hi"}]}'
QUICK = {"use": "fake", "tokens": 3, "seconds_per_token": 0.0}
CLIENTS, ANSWERS_EACH = 8, 12


async def _ask(served: Any) -> None:
    """So many answers on one connection, streamed and whole by turns, each read to its end."""
    client = await served.connect()
    for number in range(ANSWERS_EACH):
        await client.post(BODY % (b"true" if number % 2 else b"false"))
        assert 200 == (await client.answer()).status


async def test_every_answer_that_was_complete_is_on_the_ledger(start_process: Any) -> None:
    """Once each, after the next start; most of them were in the spool alone."""
    served = await start_process({"backends": {"fake": QUICK}})
    await asyncio.gather(*[_ask(served) for _ in range(CLIENTS)])
    assert 200 == await served.get("/healthz")
    served.signal(signal.SIGKILL)
    assert -signal.SIGKILL == await served.exit_code()
    async with serve_process(served.policy_file, {}) as again:
        assert 200 == await again.get("/healthz")
        again.signal(signal.SIGTERM)
        assert 0 == await again.exit_code()
    assert [("ok", 200)] * (CLIENTS * ANSWERS_EACH) == again.rows()
