"""Claude Code, non-interactively: a small coding task through tool calls, over an upstream that speaks OpenAI's chat.

Run by ``make clients``. It needs the command line: ``npm install @anthropic-ai/claude-code``, found as ``claude`` or in
``CLAUDE``.
"""

import asyncio
import os
import shutil
import sys
import tempfile
from pathlib import Path

from tests.clients.scripted import Work, gateway_over_chat, run
from tests.clients.trials import Client

PROGRAM = 'print("hello")\n'
CLIENT = Client(
    name="Claude Code",
    package="npm @anthropic-ai/claude-code",
    sets="`ANTHROPIC_BASE_URL=http://127.0.0.1:8080`, `ANTHROPIC_AUTH_TOKEN`",
    tried={"messages": ("a coding task through its tools",)},
)


async def main() -> int:
    """Prints what came of it; 0 where the file is there that was asked for."""
    claude = os.environ.get("CLAUDE") or shutil.which("claude")
    if claude is None:
        sys.stdout.write("skipped: there is no `claude` here\n")
        return 0
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        work = Work(tool="Write", arguments={"file_path": str(folder / "hello.py"), "content": PROGRAM})
        async with gateway_over_chat(work) as (address, bodies):
            environment = {
                "PATH": os.environ["PATH"],
                "HOME": name,
                "ANTHROPIC_BASE_URL": address,
                "ANTHROPIC_AUTH_TOKEN": "dummy",
                "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
            }
            asked = "Write hello.py, which prints hello."
            options = ("-p", asked, "--permission-mode", "acceptEdits", "--model", "any")
            said = await run(claude, *options, folder=folder, environment=environment)
        assert PROGRAM == (folder / "hello.py").read_text()
        assert work.last in said
        results = [message for body in bodies for message in body["messages"] if message["role"] == "tool"]
        assert results
        sys.stdout.write(f"claude code: {len(bodies)} requests, {len(results)} results of tools\n")
    return 0


if __name__ == "__main__":
    sys.exit(asyncio.run(main()))
