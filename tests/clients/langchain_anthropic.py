"""LangChain's ``ChatAnthropic``: a tool call and a stream, over an upstream of OpenAI's chat."""

import asyncio
import os
import sys
from pathlib import Path

from tests.clients.scripted import Work, gateway_over_chat, python_with, run
from tests.clients.trials import Client

PROGRAM = """
import os
from langchain_anthropic import ChatAnthropic
from langchain_core.tools import tool

@tool
def weather(city: str) -> str:
    "Tells the weather of a city."
    return "Rain."

model = ChatAnthropic(model="any", base_url=os.environ["ADDRESS"], api_key="x", max_tokens=100)
asked = [("user", "Weather in Paris?")]
(call,) = model.bind_tools([weather]).invoke(asked).tool_calls
print(call["name"], call["args"]["city"])
print("".join(piece.text if isinstance(piece.text, str) else piece.text() for piece in model.stream(asked)))
"""
CLIENT = Client(
    name="LangChain, Anthropic",
    package="langchain-anthropic",
    sets='`base_url="http://127.0.0.1:8080"`',
    tried={"messages": ("streamed", "tools")},
)


async def main() -> int:
    """Prints what came of it; 0 where the call and the stream are what the model said."""
    python = python_with("langchain_anthropic")
    if python is None:
        sys.stdout.write("skipped: no Python here has langchain-anthropic\n")
        return 0
    work = Work(tool="weather", arguments={"city": "Paris"}, last="It rains in Paris.")
    async with gateway_over_chat(work) as (address, _):
        environment = {"PATH": os.environ["PATH"], "ADDRESS": address}
        said = await run(python, "-c", PROGRAM, folder=Path.cwd(), environment=environment)
    assert said.splitlines()[-2:] == ["weather Paris", work.last], said
    sys.stdout.write("langchain-anthropic: a call and a stream\n")
    return 0


if __name__ == "__main__":
    sys.exit(asyncio.run(main()))
