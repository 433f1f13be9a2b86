"""The ``llm`` command line: prompts, functions and schemas, over an upstream of OpenAI's chat."""

import asyncio
import sys

from tests.clients.trials import Client, try_python

PROGRAM = """
import json
import os
import subprocess
import sys
from pathlib import Path

model = f'''
- model_id: headrace
  model_name: any
  api_base: {os.environ["ADDRESS"]}/v1
  supports_tools: true
  supports_schema: true
'''
Path("extra-openai-models.yaml").write_text(model)
environment = {**os.environ, "LLM_USER_PATH": os.getcwd()}

def told(*options):
    command = [sys.executable, "-m", "llm", "prompt", "-m", "headrace", "--key", "x", "Weather in Paris?", *options]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, stdin=subprocess.DEVNULL)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()

schema = '{"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}'
weather = 'def weather(city: str) -> str:\\n    open("seen", "w").write(city)\\n    return "Rain."'
for how, options in (("", ["--no-stream"]), ("streamed ", [])):
    print(f"chat {how or 'whole'}:".replace(" :", ":"), told(*options))
    last = told("--functions", weather, *options)
    print(f"chat {how}tools: {Path('seen').read_text()}, then {last}")
    print(f"chat {how}structured:", json.loads(told("--schema", schema, *options))["city"])
"""
CLIENT = Client(
    name="llm",
    package="llm",
    sets="`api_base: http://127.0.0.1:8080/v1` in `extra-openai-models.yaml`",
    tried={"chat": ("whole", "streamed", "tools", "streamed tools", "structured", "streamed structured")},
)


async def main() -> int:
    """How much it did not say that it should have said."""
    return await try_python(CLIENT, "llm", PROGRAM)


if __name__ == "__main__":
    sys.exit(asyncio.run(main()))
