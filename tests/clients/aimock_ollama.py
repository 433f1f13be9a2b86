"""CopilotKit's aimock as an Ollama server that nobody here wrote, and Ollama's client over its other formats.

It needs ``npm install @copilotkit/aimock`` in ``CLIENTS_NODE``. Its Ollama is asked through ``backends/ollama.py`` in
each format of a client; then Ollama's Python library is driven over each of its formats. To ``/api/embed`` aimock
answers as ``/api/embeddings`` does, with one vector, so that only the latter is asked.
"""

import asyncio
import sys
from pathlib import Path
from typing import Any

import anthropic
import ollama
import openai

from tests.clients.aimock import ASKED, KEYS, SAID, SCHEMA, aimock, backends, by_chat, by_messages, by_responses
from tests.clients.scripted import gateway_over, node_folder_with

_TOOL = {"type": "function", "function": {"name": "weather", "parameters": SCHEMA}}


async def by_ollama(client: ollama.AsyncClient) -> None:
    """Ollama's chat and generate: whole, streamed, and a tool in two turns."""
    asked: list[Any] = [{"role": "user", "content": ASKED}]
    assert SAID == (await client.chat("any", asked)).message.content
    assert SAID == "".join(
        [piece.message.content or "" async for piece in await client.chat("any", asked, stream=True)]
    )
    assert SAID == (await client.generate("any", ASKED)).response
    assert SAID == "".join([piece.response async for piece in await client.generate("any", ASKED, stream=True)])
    called = (await client.chat("any", asked, tools=[_TOOL])).message
    streamed = [piece.message async for piece in await client.chat("any", asked, tools=[_TOOL], stream=True)]
    for message in (called, next(it for it in streamed if it.tool_calls)):
        (call,) = message.tool_calls or ()
        assert {"city": "Paris"} == call.function.arguments
        told = {"role": "tool", "tool_name": "weather", "content": "Rain."}
        last = await client.chat("any", [*asked, message, told], tools=[_TOOL])
        assert SAID == last.message.content


async def over_ollama(address: str) -> None:
    """All clients over its Ollama."""
    backend = {"use": "ollama", "base_url": address}
    async with (
        gateway_over({"ollama": backend}, {}) as front,
        openai.AsyncOpenAI(base_url=f"{front}/v1", api_key="x", max_retries=0) as own,
        anthropic.AsyncAnthropic(base_url=front, api_key="x", max_retries=0) as other,
    ):
        client = ollama.AsyncClient(host=front)
        await by_chat(own)
        await by_responses(own)
        await by_messages(other)
        await by_ollama(client)
        assert len((await client.embeddings("any", "a")).embedding) > 1
        await client.close()
    sys.stdout.write("aimock by ollama: chats, Responses, Messages, and Ollama's own with vectors\n")


async def from_ollama(folder: Path) -> None:
    """Ollama's client over each of its other formats."""
    async with aimock(folder) as address:
        for name, backend in backends(address).items():
            async with gateway_over({name: backend}, KEYS) as front:
                client = ollama.AsyncClient(host=front)
                await by_ollama(client)
                await client.close()
            sys.stdout.write(f"Ollama's client over aimock by {name}: whole, streamed, with tools\n")


async def main() -> int:
    """Prints what came of it; 0 where every client heard what aimock's fixtures say."""
    folder = node_folder_with("@copilotkit/aimock")
    if folder is None:
        sys.stdout.write("skipped: @copilotkit/aimock is not in the node_modules of CLIENTS_NODE\n")
        return 0
    async with aimock(folder) as address:
        await over_ollama(address)
    await from_ollama(folder)
    return 0


if __name__ == "__main__":
    sys.exit(asyncio.run(main()))
