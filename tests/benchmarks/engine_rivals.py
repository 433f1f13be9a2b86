"""The servers that the engine's benchmark compares: the engine itself and llama.cpp's own, each in its own process."""

import asyncio
import json
import sys
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, aclosing, asynccontextmanager
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Protocol

import httpx
from proc import cpu_s

from embedded_engine.client import EngineProcess
from embedded_engine.messages import Done, Generate, Text
from embedded_engine.settings import EngineSettings
from embedded_engine.speculative import Speculative
from embedded_engine.turns import ChatMessage

__all__ = ["Answer", "Rival", "closed_loop", "headrace", "llama_server"]

SERVER = Path(__file__).with_name("llama_server.py")
_scopes = count()


@dataclass(frozen=True, slots=True)
class Answer:
    """One request's tokens, and the seconds after its start at which its texts came."""

    tokens: int
    times_s: tuple[float, ...]


class Rival(Protocol):
    """Something that answers prompts."""

    async def ask(self, prompt: str, max_tokens: int) -> Answer:
        """Greedy, with nothing remembered of earlier prompts."""
        ...

    def cpu_s(self) -> float:
        """CPU seconds of its process since its start."""
        ...


@dataclass(frozen=True, slots=True)
class _Headrace:
    engine: EngineProcess
    speculates: bool

    async def ask(self, prompt: str, max_tokens: int) -> Answer:
        request = Generate(
            messages=(ChatMessage(role="user", content=prompt),),
            max_tokens=max_tokens,
            temperature=0,
            scope=f"benchmark {next(_scopes)}",
            speculative=Speculative(enabled=self.speculates),
        )
        started_s, times_s, tokens = time.perf_counter(), [], 0
        async with aclosing(self.engine.generate(request)) as events:
            async for event in events:
                if isinstance(event, Text):
                    times_s.append(time.perf_counter() - started_s)
                elif isinstance(event, Done):
                    tokens = event.completion_tokens
        return Answer(tokens, tuple(times_s))

    def cpu_s(self) -> float:
        return cpu_s(self.engine.pid)


@asynccontextmanager
async def headrace(model: str, *, threads: int, slots: int) -> AsyncIterator[dict[str, Rival]]:
    """The engine, with speculation and without: one process, since a request may say no for itself."""
    settings = EngineSettings(model_path=model, threads=threads, slots=slots, context_tokens=2048, kv_tokens=16384)
    engine = await EngineProcess.start(settings)
    try:
        await engine.ready()
        yield {"headrace": _Headrace(engine, speculates=True), "headrace, plain": _Headrace(engine, speculates=False)}
    finally:
        await engine.close()


@dataclass(frozen=True, slots=True)
class _LlamaServer:
    client: httpx.AsyncClient
    pid: int

    async def ask(self, prompt: str, max_tokens: int) -> Answer:
        body = {
            "messages": [{"role": "user", "content": prompt}],
            "max_tokens": max_tokens,
            "temperature": 0,
            "stream": True,
            "cache_prompt": False,
            "stream_options": {"include_usage": True},
        }
        started_s, times_s, tokens = time.perf_counter(), [], 0
        async with self.client.stream("POST", "/v1/chat/completions", json=body) as response:
            response.raise_for_status()
            async for line in response.aiter_lines():
                if not line.startswith("data: ") or line == "data: [DONE]":
                    continue
                chunk = json.loads(line[6:])
                if any(choice["delta"].get("content") for choice in chunk["choices"]):
                    times_s.append(time.perf_counter() - started_s)
                if chunk.get("usage"):
                    tokens = chunk["usage"]["completion_tokens"]
        return Answer(tokens, tuple(times_s))

    def cpu_s(self) -> float:
        return cpu_s(self.pid)


@asynccontextmanager
async def llama_server(model: str, *, threads: int, parallel: int, draft: str, unified: bool) -> AsyncIterator[Rival]:
    """llama.cpp's server with one way of drafting."""
    options = ["--threads", str(threads), "--parallel", str(parallel), "--draft", draft]
    async with AsyncExitStack() as stack:
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, str(SERVER), model, *options, *(["--unified"] if unified else [])),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.DEVNULL,
        )
        stack.push_async_callback(process.wait)
        stack.callback(process.kill)
        if process.stdout is None:
            raise RuntimeError("the server has no output")
        address = (await process.stdout.readline()).decode().strip()
        if not address:
            raise RuntimeError(f"llama.cpp's server did not start with {draft}")
        fresh = httpx.Limits(max_keepalive_connections=0)  # it closes connections that were idle for a while
        client = await stack.enter_async_context(httpx.AsyncClient(base_url=address, timeout=600, limits=fresh))
        yield _LlamaServer(client, process.pid)


async def closed_loop(rival: Rival, prompts: Sequence[str], *, callers: int, max_tokens: int) -> list[Answer]:
    """All prompts, so many at a time."""
    waiting = list(reversed(prompts))
    answers: list[Answer] = []

    async def call() -> None:
        while waiting:
            answers.append(await rival.ask(waiting.pop(), max_tokens))

    await asyncio.gather(*(call() for _ in range(callers)))
    return answers
