"""What the scripts of real clients share: an upstream that works with tools as told, and a gateway over it."""

import asyncio
import base64
import os
import shutil
import struct
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import yaml

from gateway.price import Usage
from gateway.types import Operation
from gateway.wire.openai_answer import Answered, Called, StreamWriter, whole_answer
from gateway.wire.openai_embeddings import embeddings_answer
from tests.integration.served_process import serve_process
from tests.loopback import _serve

USAGE = Usage(prompt_tokens=50, output_tokens=10)
VECTOR = (0.5, -0.25)
"""What the upstream makes of every text that is to be embedded."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Work:
    """What the upstream does that is offered ``tool``: it calls it once with ``arguments``, then it says ``last``.

    It calls another tool where it must, and what shall be JSON by a schema is its ``arguments``.
    """

    tool: str
    arguments: Mapping[str, Any]
    last: str = "It is done."


@asynccontextmanager
async def scripted_chat(work: Work) -> AsyncIterator[tuple[str, list[dict[str, Any]]]]:
    """The address of an upstream that speaks OpenAI's chat, up to and including ``/v1``, and the bodies that it got."""
    bodies: list[dict[str, Any]] = []

    async def respond(request: Any, conversation: Any) -> None:
        if not request.body:  # somebody asks which models there are
            await conversation.answer(b"{}", status=404)
            return
        body = request.json
        bodies.append(body)
        if request.path.endswith("/embeddings"):
            await conversation.answer(_embedded(body))
            return
        tool, text = _turn(work, body)
        if body.get("stream"):
            await conversation.stream(*_events(work, tool, text))
        else:
            await conversation.answer(_whole(work, tool, text))

    async with _serve(respond) as upstream:
        yield upstream.url, bodies


@asynccontextmanager
async def gateway_over_chat(work: Work, **policy: Any) -> AsyncIterator[tuple[str, list[dict[str, Any]]]]:
    """The address of a gateway in a process of its own, and the bodies that its upstream got: OpenAI's chat."""
    async with scripted_chat(work) as (upstream, bodies):
        backends = {"scripted": {"use": "openai_compatible", "base_url": upstream}}
        async with gateway_over(backends, {}, **policy) as address:
            yield address, bodies


@asynccontextmanager
async def gateway_over(
    backends: Mapping[str, Any], environment: Mapping[str, str], **policy: Any
) -> AsyncIterator[str]:
    """The address of a gateway in a process of its own, with one route over these backends, in this order."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "policy.yaml"
        routes = {"all": {"models": ["*"], "targets": list(backends)}}
        file.write_text(yaml.safe_dump({"backends": dict(backends), "routes": routes, **policy}))
        async with serve_process(file, environment) as served:
            port = (await served.until_logged(r"running on http://127\.0\.0\.1:(\d+)", within_s=60))[1]
            yield f"http://127.0.0.1:{port}"


def _turn(work: Work, body: Mapping[str, Any]) -> tuple[str | None, str]:
    """The tool that the upstream calls, or else what it says."""
    if not any(message["role"] == "tool" for message in body["messages"]):
        offered = [tool["function"]["name"] for tool in body.get("tools", ())]
        choice = body.get("tool_choice")
        if isinstance(choice, Mapping):
            return choice["function"]["name"], ""
        if work.tool in offered:
            return work.tool, ""
        if choice == "required":
            return offered[0], ""
    shaped = body.get("response_format", {}).get("type", "text") != "text"
    return None, msgspec.json.encode(work.arguments).decode() if shaped else work.last


def _called(work: Work, tool: str) -> Called:
    return Called("call_1", tool, msgspec.json.encode(work.arguments).decode())


def _events(work: Work, tool: str | None, text: str) -> list[bytes]:
    writer = StreamWriter(Operation.CHAT, "chatcmpl-1", "scripted", 1)
    half = len(text) // 2
    said = (
        [writer.call(0, 0, _called(work, tool))] if tool else [writer.text(0, text[:half]), writer.text(0, text[half:])]
    )
    end = writer.finish(0, "tool_calls" if tool else "stop")
    return [writer.opening(0), *said, end, writer.usage(USAGE), writer.done()]


def _whole(work: Work, tool: str | None, text: str) -> bytes:
    answer = Answered(text, "tool_calls" if tool else "stop", calls=[_called(work, tool)] if tool else ())
    return whole_answer(Operation.CHAT, "chatcmpl-1", "scripted", 1, [answer], USAGE)


def _embedded(body: Mapping[str, Any]) -> bytes:
    packed = base64.b64encode(struct.pack("<2f", *VECTOR)).decode()
    vector = packed if body.get("encoding_format") == "base64" else VECTOR
    texts = [body["input"]] if isinstance(body["input"], str) else body["input"]
    return embeddings_answer("scripted", [vector] * len(texts), 3)


def python_with(module: str) -> str | None:
    """An interpreter that has ``module``: this one, or the one in ``CLIENTS_PYTHON``; ``None`` where neither does."""
    for python in (os.environ.get("CLIENTS_PYTHON"), sys.executable):
        if (
            python
            and not subprocess.run([python, "-c", f"import {module}"], capture_output=True, check=False).returncode
        ):
            return python
    return None


def node_folder_with(package: str) -> Path | None:
    """The folder in ``CLIENTS_NODE``, where its ``node_modules`` have ``package``; ``None`` where they do not."""
    folder = Path(os.environ.get("CLIENTS_NODE", "/nowhere"))
    return folder if shutil.which("node") and (folder / "node_modules" / package).is_dir() else None


async def run_node(program: str, folder: Path, environment: Mapping[str, str]) -> str:
    """What a module prints that imports packages of ``folder``.

    Raises:
        RuntimeError: it failed; its words are in the error.
    """
    script = folder / "headrace_client.mjs"
    script.write_text(program)
    try:
        return await run("node", script.name, folder=folder, environment={"PATH": os.environ["PATH"], **environment})
    finally:
        script.unlink()


async def run(*command: str, folder: Path, environment: Mapping[str, str], within_s: float = 120.0) -> str:
    """What a command prints, run in ``folder`` with nothing but this environment.

    Raises:
        RuntimeError: it failed; its words are in the error.
    """
    process = await asyncio.create_subprocess_exec(
        *command,
        cwd=folder,
        env=dict(environment),
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    try:
        async with asyncio.timeout(within_s):
            told, _ = await process.communicate()
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    if process.returncode:
        raise RuntimeError(f"{command[0]} ended with {process.returncode}: {told.decode()}")
    return told.decode()
