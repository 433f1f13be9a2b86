"""CopilotKit's aimock as an upstream that nobody here wrote: OpenAI, Azure, Anthropic, Gemini, Bedrock.

It needs ``npm install @copilotkit/aimock`` in ``CLIENTS_NODE``. Each of its formats is asked through the backend that
speaks it, in each format of a client: whole, streamed, with a tool and with thoughts. Then it throws dice over its
answers, and nobody notices, since there is a second one. It checks no signature of AWS's.
"""

import asyncio
import json
import os
import sys
import tempfile
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import anthropic
import httpx
import openai

from tests.clients.foreign_server import listening
from tests.clients.scripted import gateway_over, node_folder_with

ASKED = "Weather in Paris?"
SAID = "It rains in Paris, as it did on all the days before this one."
PONDERED = "Why does it rain?"
THOUGHT = "Clouds, most likely; they have been there for days."
DICE = ("--chaos-drop", "0.4", "--chaos-ratelimit", "0.4", "--chaos-malformed", "0.5", "--chaos-disconnect", "0.6")
"""Thrown one after the other: 7 answers of 100 are whole."""
REQUESTS_WITH_DICE = 60
KEYS = dict.fromkeys(
    (
        "ANTHROPIC_API_KEY",
        "AWS_ACCESS_KEY_ID",
        "AWS_BEARER_TOKEN_BEDROCK",
        "AWS_SECRET_ACCESS_KEY",
        "AZURE_OPENAI_API_KEY",
        "GEMINI_API_KEY",
    ),
    "x",
)
SCHEMA = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
FIXTURES: list[dict[str, Any]] = [
    {"match": {"hasToolResult": True}, "response": {"content": SAID}},
    {
        "match": {"toolName": "weather"},
        "response": {"toolCalls": [{"name": "weather", "arguments": {"city": "Paris"}}]},
    },
    {"match": {"userMessage": ASKED}, "response": {"content": SAID}},
    {"match": {"userMessage": PONDERED}, "response": {"content": SAID, "reasoning": THOUGHT}},
]


def backends(address: str) -> dict[str, dict[str, Any]]:
    """Its formats, each with the backend that speaks it."""
    return {
        "chat": {"use": "openai_compatible", "base_url": f"{address}/v1"},
        "responses": {
            "use": "openai_compatible",
            "base_url": f"{address}/v1",
            "operations": ["chat", "response", "embedding"],
        },
        "anthropic": {"use": "anthropic", "base_url": f"{address}/v1"},
        "gemini": {"use": "gemini", "base_url": f"{address}/v1beta"},
        "bedrock": {
            "use": "bedrock",
            "region": "eu-central-1",
            "base_url": address,
            "access_key_env": "AWS_ACCESS_KEY_ID",
            "secret_key_env": "AWS_SECRET_ACCESS_KEY",
        },
        "bedrock-by-key": {
            "use": "bedrock",
            "region": "eu-central-1",
            "base_url": address,
            "api_key_env": "AWS_BEARER_TOKEN_BEDROCK",
        },
        "azure": {"use": "azure_openai", "base_url": f"{address}/openai"},
        "azure-deployments": {
            "use": "azure_openai",
            "base_url": f"{address}/openai",
            "api_version": "2024-10-21",
            "api_key_env": "AZURE_OPENAI_API_KEY",
        },
    }


@asynccontextmanager
async def aimock(folder: Path, *options: str, answers: Sequence[Mapping[str, Any]] = FIXTURES) -> AsyncIterator[str]:
    """Its address, with our fixtures."""
    with tempfile.TemporaryDirectory() as name:
        fixtures = Path(name) / "fixtures.json"
        fixtures.write_text(json.dumps({"fixtures": list(answers)}))
        program = folder / "node_modules/@copilotkit/aimock/dist/cli.js"
        command = ("node", str(program), "-p", "0", "-f", str(fixtures), *options)
        environment = {"PATH": os.environ["PATH"], "HOME": name}
        async with listening(*command, environment=environment, pattern=r"listening on (http://\S+)") as address:
            yield address


async def by_chat(client: openai.AsyncOpenAI) -> None:
    """OpenAI's chat: whole, streamed, and a tool in two turns."""
    asked: Any = {"model": "any", "messages": [{"role": "user", "content": ASKED}]}
    assert SAID == (await client.chat.completions.create(**asked)).choices[0].message.content
    async with client.chat.completions.stream(**asked) as stream:
        assert SAID == (await stream.get_final_completion()).choices[0].message.content
    tools = [{"type": "function", "function": {"name": "weather", "parameters": SCHEMA}}]
    called = (await client.chat.completions.create(**asked, tools=tools)).choices[0].message
    async with client.chat.completions.stream(**asked, tools=tools) as stream:
        streamed = (await stream.get_final_completion()).choices[0].message
    for message in (called, streamed):
        (call,) = message.tool_calls
        assert {"city": "Paris"} == json.loads(call.function.arguments)
        told = {"role": "tool", "tool_call_id": call.id, "content": "Rain."}
        turns = [*asked["messages"], message.model_dump(include={"role", "tool_calls"}), told]
        last = await client.chat.completions.create(model="any", messages=turns, tools=tools)
        assert SAID == last.choices[0].message.content


async def by_responses(client: openai.AsyncOpenAI) -> None:
    """OpenAI's Responses, likewise."""
    asked: Any = {"model": "any", "input": [{"role": "user", "content": ASKED}]}
    assert SAID == (await client.responses.create(**asked)).output_text
    async with client.responses.stream(**asked) as stream:
        assert SAID == (await stream.get_final_response()).output_text
    tools: Any = [{"type": "function", "name": "weather", "parameters": SCHEMA, "strict": False}]
    called = await client.responses.create(**asked, tools=tools)
    async with client.responses.stream(**asked, tools=tools) as stream:
        streamed = await stream.get_final_response()
    for answer in (called, streamed):
        (call,) = (item for item in answer.output if item.type == "function_call")
        assert {"city": "Paris"} == json.loads(call.arguments)
        turns = [
            *asked["input"],
            {"type": "function_call", "call_id": call.call_id, "name": call.name, "arguments": call.arguments},
            {"type": "function_call_output", "call_id": call.call_id, "output": "Rain."},
        ]
        last = await client.responses.create(model="any", input=turns, tools=tools)
        assert SAID == last.output_text


async def by_messages(client: anthropic.AsyncAnthropic) -> None:
    """Anthropic's Messages, likewise."""
    asked: Any = {"model": "any", "max_tokens": 100, "messages": [{"role": "user", "content": ASKED}]}
    assert SAID == (await client.messages.create(**asked)).content[0].text
    async with client.messages.stream(**asked) as stream:
        assert SAID == await stream.get_final_text()
    tools: Any = [{"name": "weather", "input_schema": SCHEMA}]
    called = await client.messages.create(**asked, tools=tools)
    async with client.messages.stream(**asked, tools=tools) as stream:
        streamed = await stream.get_final_message()
    for message in (called, streamed):
        (call,) = (block for block in message.content if block.type == "tool_use")
        assert ({"city": "Paris"}, "tool_use") == (call.input, message.stop_reason)
        use = {"type": "tool_use", "id": call.id, "name": call.name, "input": call.input}
        result = {"type": "tool_result", "tool_use_id": call.id, "content": "Rain."}
        turns: Any = [
            *asked["messages"],
            {"role": "assistant", "content": [use]},
            {"role": "user", "content": [result]},
        ]
        last = await client.messages.create(model="any", max_tokens=100, messages=turns, tools=tools)
        assert SAID == last.content[0].text


async def by_thoughts(client: anthropic.AsyncAnthropic) -> None:
    """What was thought before it was said, by Messages."""
    asked: Any = {"model": "any", "max_tokens": 100, "messages": [{"role": "user", "content": PONDERED}]}
    whole = await client.messages.create(**asked)
    async with client.messages.stream(**asked) as stream:
        streamed = await stream.get_final_message()
    for message in (whole, streamed):
        thought, said = message.content
        assert ("thinking", THOUGHT, "text", SAID) == (thought.type, thought.thinking, said.type, said.text)


async def through(name: str, backend: Mapping[str, Any]) -> None:
    """Asks one of its formats in each format of a client."""
    async with (
        gateway_over({name: backend}, KEYS) as address,
        openai.AsyncOpenAI(base_url=f"{address}/v1", api_key="x", max_retries=0) as own,
        anthropic.AsyncAnthropic(base_url=address, api_key="x", max_retries=0) as other,
    ):
        await by_chat(own)
        await by_responses(own)
        await by_messages(other)
        await by_thoughts(other)
        if name in {"responses", "azure", "azure-deployments"}:
            vectors = await own.embeddings.create(model="any", input=["a", "b"])
            assert all(len(entry.embedding) > 1 for entry in vectors.data)
    sys.stdout.write(f"aimock by {name}: chats, Responses and Messages, whole, streamed, with tools and thoughts\n")


async def with_dice(folder: Path, name: str) -> None:
    """Three of a format that fail more often than not, and a quiet one beside them: every answer is whole."""
    async with AsyncExitStack() as stack:
        wild = [await stack.enter_async_context(aimock(folder, *DICE)) for _ in range(3)]
        quiet = await stack.enter_async_context(aimock(folder))
        targets = {f"number-{number}": backends(address)[name] for number, address in enumerate([*wild, quiet])}
        route = {"models": ["*"], "targets": list(targets), "attempts": len(targets)}
        address = await stack.enter_async_context(gateway_over(targets, KEYS, routes={"all": route}))
        client = openai.AsyncOpenAI(base_url=f"{address}/v1", api_key="x", max_retries=0)
        await stack.enter_async_context(client)
        for number in range(REQUESTS_WITH_DICE):
            asked: Any = {"model": "any", "messages": [{"role": "user", "content": f"{ASKED} {number}"}]}
            if number % 2:
                async with client.chat.completions.stream(**asked) as events:
                    answer = await events.get_final_completion()
            else:
                answer = await client.chat.completions.create(**asked)
            assert SAID == answer.choices[0].message.content
        attempts = [await journalled(address) for address in (*wild, quiet)]
    failed = sum(attempts) - REQUESTS_WITH_DICE
    assert failed > 0, attempts
    sys.stdout.write(
        f"aimock by {name} with dice: {REQUESTS_WITH_DICE} answers, all whole, after {failed} failed attempts\n"
    )


async def journalled(address: str) -> int:
    """How many chats one of them was asked for."""
    async with httpx.AsyncClient() as http:
        journal = (await http.get(f"{address}/__aimock/journal")).json()
    return sum(entry["path"].endswith(("/chat/completions", "/converse", "/converse-stream")) for entry in journal)


async def main() -> int:
    """Prints what came of it; 0 where every client heard what aimock's fixtures say."""
    folder = node_folder_with("@copilotkit/aimock")
    if folder is None:
        sys.stdout.write("skipped: @copilotkit/aimock is not in the node_modules of CLIENTS_NODE\n")
        return 0
    async with aimock(folder) as address:
        for name, backend in backends(address).items():
            await through(name, backend)
    for name in ("chat", "bedrock"):
        await with_dice(folder, name)
    return 0


if __name__ == "__main__":
    sys.exit(asyncio.run(main()))
