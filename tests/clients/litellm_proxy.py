"""LiteLLM's proxy as an upstream that nobody here wrote, and as a client: behind a gateway, and in front of one.

It needs ``litellm[proxy]`` in an environment of its own: ``make peers ARGS=litellm`` makes one, or ``LITELLM`` names
the command. Each of OpenAI's and Anthropic's clients asks through both, whole, streamed and with a tool.
"""

import asyncio
import os
import shutil
import socket
import sys
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import anthropic
import httpx
import openai
import yaml

from tests.clients.aimock import SAID, by_chat, by_messages, by_responses
from tests.clients.scripted import Work, gateway_over, scripted_chat

KEY = "sk-litellm"
PEER = Path(__file__).parents[1] / "benchmarks" / "bin" / "peers" / "litellm" / "bin" / "litellm"
WORK = Work(tool="weather", arguments={"city": "Paris"}, last=SAID)
START_S = 120.0


def command() -> str | None:
    """The proxy, where it is installed."""
    return os.environ.get("LITELLM") or shutil.which("litellm") or (str(PEER) if PEER.exists() else None)


@asynccontextmanager
async def proxy(program: str, upstream: str) -> AsyncIterator[str]:
    """Its address, over an upstream of OpenAI's chat."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    with tempfile.TemporaryDirectory() as name:
        file = Path(name) / "litellm.yaml"
        there = {"model": "openai/any", "api_base": upstream, "api_key": "x"}
        models = [{"model_name": "any", "litellm_params": there}]
        settings = {"telemetry": False, "num_retries": 0}
        file.write_text(
            yaml.safe_dump(
                {"model_list": models, "general_settings": {"master_key": KEY}, "litellm_settings": settings}
            )
        )
        alone = {"LITELLM_LOCAL_MODEL_COST_MAP": "True", "LITELLM_TELEMETRY": "False", "LITELLM_LOG": "ERROR"}
        process = await asyncio.create_subprocess_exec(
            *(program, "--config", str(file), "--host", "127.0.0.1", "--port", str(port)),
            env={"PATH": os.environ["PATH"], "HOME": name, **alone},
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.DEVNULL,
            stderr=asyncio.subprocess.DEVNULL,
        )
        try:
            address = f"http://127.0.0.1:{port}"
            await _ready(address)
            yield address
        finally:
            process.terminate()
            await process.wait()


async def _ready(address: str) -> None:
    async with asyncio.timeout(START_S), httpx.AsyncClient() as http:
        while True:
            try:
                if (await http.get(f"{address}/health/liveliness")).is_success:
                    return
            except httpx.TransportError:
                pass
            await asyncio.sleep(0.2)


async def ask(address: str, key: str) -> None:
    """All that aimock is asked: chats, Responses and Messages."""
    async with (
        openai.AsyncOpenAI(base_url=f"{address}/v1", api_key=key, max_retries=0) as own,
        anthropic.AsyncAnthropic(base_url=address, api_key=key, max_retries=0) as other,
    ):
        await by_chat(own)
        await by_responses(own)
        await by_messages(other)


async def main() -> int:
    """0 where every client heard what the upstream said."""
    program = command()
    if program is None:
        sys.stdout.write("skipped: LiteLLM's proxy is not installed here\n")
        return 0
    async with scripted_chat(WORK) as (upstream, _), proxy(program, upstream) as address:
        backend = {"use": "openai_compatible", "base_url": f"{address}/v1", "api_key_env": "LITELLM_KEY"}
        async with gateway_over({"litellm": backend}, {"LITELLM_KEY": KEY}) as front:
            await ask(front, "x")
    sys.stdout.write("LiteLLM's proxy behind a gateway: chats, Responses and Messages, whole, streamed, with tools\n")
    async with scripted_chat(WORK) as (upstream, _):
        backend = {"use": "openai_compatible", "base_url": upstream}
        async with gateway_over({"up": backend}, {}) as front, proxy(program, f"{front}/v1") as address:
            await ask(address, KEY)
    sys.stdout.write("LiteLLM's proxy in front of a gateway: likewise\n")
    return 0


if __name__ == "__main__":
    sys.exit(asyncio.run(main()))
