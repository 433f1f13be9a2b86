"""LLMock as an upstream that nobody here wrote: it breaks answers on purpose, and judges whoever asked.

It needs ``pip install llmock`` in an environment of its own, whose command is in ``LLMOCK``. The client is OpenAI's
SDK with its own retries; LLMock's verdict is about all that it saw of both.
"""

import asyncio
import os
import shutil
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import httpx
import openai

from tests.clients.foreign_server import listening
from tests.clients.scripted import gateway_over, run

SAID = "It rains in Paris, as it did on all the days before this one."
RETRIES = 3
FAULTS: Mapping[str, Mapping[str, Any]] = {
    "nothing": {"type": "delay", "seconds": 0},
    "a limit": {"type": "fail", "status": 429, "retry_after": 1, "times": 2},
    "an outage": {"type": "fail", "status": 503, "times": 1},
    "a request that is wrong": {"type": "fail", "status": 400, "times": 1},
    "a connection that is dropped": {"type": "stream_fault", "kind": "disconnect", "after_chunks": 3},
    "a stream that ends early": {"type": "stream_fault", "kind": "truncate", "after_chunks": 3},
    "a chunk that is no JSON": {"type": "stream_fault", "kind": "malformed", "after_chunks": 3},
}
"""What befalls each call. A wrong request fails at the client; of a broken stream it is told, and asks anew."""


async def heard(client: openai.AsyncOpenAI, asked: Any, *, streamed: bool) -> str | None:
    """What the client hears in the end; it asks anew when a stream breaks before its end."""
    for _ in range(RETRIES):
        try:
            if not streamed:
                return (await client.chat.completions.create(**asked)).choices[0].message.content
            async with client.chat.completions.stream(**asked) as stream:
                return (await stream.get_final_completion()).choices[0].message.content
        except openai.APIStatusError:
            return None
        except openai.APIError:
            continue
    return None


async def under_faults(upstream: str, address: str) -> None:
    """Each fault once for a whole answer, where it can befall one, and once for a stream."""
    async with (
        httpx.AsyncClient(base_url=upstream) as control,
        openai.AsyncOpenAI(base_url=f"{address}/v1", api_key="x", max_retries=RETRIES) as client,
    ):
        for fault, behaviour in FAULTS.items():
            for streamed in (False, True):
                if behaviour["type"] == "stream_fault" and not streamed:
                    continue
                reply = {"type": "reply", "text": SAID}
                queued = await control.post("/_llmock/scenario", json={"behaviors": [behaviour, reply]})
                queued.raise_for_status()
                asked = {"model": "any", "messages": [{"role": "user", "content": f"{fault} {streamed}"}]}
                said = await heard(client, asked, streamed=streamed)
                assert said if fault != "a request that is wrong" else said is None, (fault, streamed, said)
                if behaviour["type"] != "stream_fault" and said is not None:
                    assert SAID == said
                (await control.delete("/_llmock/scenario")).raise_for_status()


async def main() -> int:
    """Prints LLMock's verdict; 0 where it is content, warnings included."""
    llmock = os.environ.get("LLMOCK") or shutil.which("llmock")
    if llmock is None:
        sys.stdout.write("skipped: there is no `llmock` here\n")
        return 0
    with tempfile.TemporaryDirectory() as name:
        environment = {"PATH": os.environ["PATH"], "HOME": name}
        command = (llmock, "serve", "--port", "0")
        async with (
            listening(*command, environment=environment, pattern=r"running on (http://\S+)") as upstream,
            gateway_over({"llmock": {"use": "openai_compatible", "base_url": f"{upstream}/v1"}}, {}) as address,
        ):
            await under_faults(upstream, address)
            report = ("report", "--strict", "--url", upstream)
            sys.stdout.write(await run(llmock, *report, folder=Path(name), environment=environment))
    return 0


if __name__ == "__main__":
    sys.exit(asyncio.run(main()))
