"""opencode, non-interactively: a small coding task through tool calls, over an upstream that speaks OpenAI's chat.

It needs the command line: ``npm install opencode-ai``, found as ``opencode`` or in ``OPENCODE``.
"""

import asyncio
import os
import shutil
import sys
import tempfile
from pathlib import Path

import msgspec

from tests.clients.scripted import Work, gateway_over_chat, run
from tests.clients.trials import Client

WRITTEN = 'print("hello")\n'
CLIENT = Client(
    name="opencode",
    package="npm opencode-ai",
    sets="a provider in `opencode.json`: `npm: @ai-sdk/openai-compatible`, `options.baseURL: http://127.0.0.1:8080/v1`",
    tried={"chat": ("a coding task through its tools",)},
)


def configuration(address: str) -> bytes:
    """What ``opencode.json`` says: one provider with one model, and nothing that would ask anybody else."""
    provider = {
        "npm": "@ai-sdk/openai-compatible",
        "options": {"baseURL": f"{address}/v1", "apiKey": "dummy"},
        "models": {"any": {}},
    }
    return msgspec.json.encode(
        {"provider": {"headrace": provider}, "share": "disabled", "autoupdate": False, "permission": "allow"}
    )


async def main() -> int:
    """Prints what came of it; 0 where the file is there that was asked for."""
    opencode = os.environ.get("OPENCODE") or shutil.which("opencode")
    if opencode is None:
        sys.stdout.write("skipped: there is no `opencode` here\n")
        return 0
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        work = Work(tool="write", arguments={"filePath": str(folder / "hello.py"), "content": WRITTEN})
        environment = {"PATH": os.environ["PATH"], "HOME": name, "OPENCODE_DISABLE_MODELS_FETCH": "1"}
        version = await run(opencode, "--version", folder=folder, environment=environment)
        async with gateway_over_chat(work) as (address, bodies):
            (folder / "opencode.json").write_bytes(configuration(address))
            options = ("run", "--model", "headrace/any", "Write hello.py, which prints hello.")
            said = await run(opencode, *options, folder=folder, environment=environment)
        assert WRITTEN == (folder / "hello.py").read_text(), said
        assert work.last in said
        results = [message for body in bodies for message in body["messages"] if message["role"] == "tool"]
        assert results
        sys.stdout.write(f"opencode {version.strip()}: {len(bodies)} requests, {len(results)} results of tools\n")
    return 0


if __name__ == "__main__":
    sys.exit(asyncio.run(main()))
