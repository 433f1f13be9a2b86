"""Codex, non-interactively: a small coding task through tool calls, over an upstream that speaks OpenAI's chat.

Run by ``make clients``. It needs the command line: ``npm install @openai/codex``, found as ``codex`` or in ``CODEX``.
"""

import asyncio
import os
import shutil
import sys
import tempfile
from pathlib import Path

from tests.clients.scripted import Work, gateway_over_chat, run
from tests.clients.trials import Client

CONFIGURATION = """
model = "any"
model_provider = "headrace"

[model_providers.headrace]
name = "Headrace"
base_url = "{address}/v1"
env_key = "HEADRACE_KEY"
wire_api = "responses"
"""
CLIENT = Client(
    name="Codex",
    package="npm @openai/codex",
    sets='a provider in `config.toml`: `base_url = "http://127.0.0.1:8080/v1"`, `wire_api = "responses"`',
    tried={"responses": ("a coding task through its tools",)},
)


async def main() -> int:
    """Prints what came of it; 0 where the file is there that was asked for."""
    codex = os.environ.get("CODEX") or shutil.which("codex")
    if codex is None:
        sys.stdout.write("skipped: there is no `codex` here\n")
        return 0
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        work = Work(tool="exec_command", arguments={"cmd": "echo hello > hello.txt"})
        async with gateway_over_chat(work) as (address, bodies):
            (folder / "config.toml").write_text(CONFIGURATION.format(address=address))
            environment = {"PATH": os.environ["PATH"], "HOME": name, "CODEX_HOME": name, "HEADRACE_KEY": "dummy"}
            asked = "Write hello.txt, which says hello."
            options = ("exec", "--skip-git-repo-check", "--sandbox", "danger-full-access", asked)
            said = await run(codex, *options, folder=folder, environment=environment)
        assert "hello\n" == (folder / "hello.txt").read_text()
        assert work.last in said
        results = [message for body in bodies for message in body["messages"] if message["role"] == "tool"]
        assert results
        sys.stdout.write(f"codex: {len(bodies)} requests, {len(results)} results of tools\n")
    return 0


if __name__ == "__main__":
    sys.exit(asyncio.run(main()))
