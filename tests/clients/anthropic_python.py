"""Anthropic's Python SDK: a stream, a tool that it runs itself, a batch and a count, over one of OpenAI's chat."""

import asyncio
import sys

import anthropic

from tests.clients.scripted import Work, gateway_over_chat
from tests.clients.trials import Client

CLIENT = Client(
    name="Anthropic SDK for Python",
    package="anthropic",
    sets='`base_url="http://127.0.0.1:8080"`',
    tried={"messages": ("streamed", "tools", "batches", "a count of tokens")},
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
        batch = await client.messages.batches.create(requests=[{"custom_id": "one", "params": asked}])
        while batch.processing_status != "ended":
            await asyncio.sleep(0.05)
            batch = await client.messages.batches.retrieve(batch.id)
        results = [one async for one in await client.messages.batches.results(batch.id)]
        count = await client.messages.count_tokens(model="any", messages=asked["messages"])
    assert ["Paris"] == seen
    assert work.last == last.content[0].text == text
    assert count.input_tokens > 0
    assert [("one", work.last)] == [(one.custom_id, one.result.message.content[0].text) for one in results]
    sys.stdout.write(f"anthropic {anthropic.__version__}: a tool, a stream, a batch and a count\n")
    return 0


if __name__ == "__main__":
    sys.exit(asyncio.run(main()))
