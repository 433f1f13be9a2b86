"""Anthropic's Python SDK: a stream, a tool that it runs itself, and a count, over an upstream of OpenAI's chat."""

import asyncio
import sys

import anthropic

from tests.clients.scripted import Work, gateway_over_chat
from tests.clients.trials import Client

CLIENT = Client(
    name="Anthropic SDK for Python",
    package="anthropic",
    sets='`base_url="http://127.0.0.1:8080"`',
    tried={"messages": ("streamed", "tools", "a count of tokens")},
)


async def main() -> int:
    """Prints what came of it; 0 where the tool was run with the arguments that the model gave it."""
    seen: list[str] = []

    @anthropic.beta_async_tool
    async def weather(city: str) -> str:
        """Tells the weather.

        Args:
            city: Where.
        """
        seen.append(city)
        return "Rain."

    work = Work(tool="weather", arguments={"city": "Paris"}, last="It rains in Paris.")
    async with (
        gateway_over_chat(work) as (address, _),
        anthropic.AsyncAnthropic(base_url=address, api_key="x") as client,
    ):
        asked = {"model": "any", "max_tokens": 100, "messages": [{"role": "user", "content": "Weather in Paris?"}]}
        runner = client.beta.messages.tool_runner(**asked, tools=[weather])
        last = await runner.until_done()
        async with client.messages.stream(**asked) as stream:
            text = await stream.get_final_text()
        count = await client.messages.count_tokens(model="any", messages=asked["messages"])
    assert ["Paris"] == seen
    assert work.last == last.content[0].text == text
    assert count.input_tokens > 0
    sys.stdout.write(f"anthropic {anthropic.__version__}: a tool, a stream and a count\n")
    return 0


if __name__ == "__main__":
    sys.exit(asyncio.run(main()))
