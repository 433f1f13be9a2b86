"""OpenAI's Agents SDK: over chats and over Responses, with an upstream of OpenAI's chat."""

import asyncio
import sys

from tests.clients.trials import EVERYTHING, Client, try_python

PROGRAM = """
import asyncio
import os
from agents import Agent, OpenAIChatCompletionsModel, OpenAIResponsesModel, Runner, function_tool, set_tracing_disabled
from openai import AsyncOpenAI
from pydantic import BaseModel

set_tracing_disabled(True)
client = AsyncOpenAI(base_url=os.environ["ADDRESS"] + "/v1", api_key="x")
asked = "Weather in Paris?"
seen = []

class Place(BaseModel):
    city: str

@function_tool
def weather(city: str) -> str:
    "Tells the weather of a city."
    seen.append(city)
    return "Rain."

async def streamed(agent):
    run = Runner.run_streamed(agent, asked)
    said = ""
    async for event in run.stream_events():
        if event.type == "raw_response_event" and event.data.type == "response.output_text.delta":
            said += event.data.delta
    assert said == run.final_output, (said, run.final_output)
    return said

async def tried(path, model):
    agent, armed = Agent(name="plain", model=model), Agent(name="armed", model=model, tools=[weather])
    print(f"{path} whole:", (await Runner.run(agent, asked)).final_output)
    print(f"{path} streamed:", await streamed(agent))
    last = (await Runner.run(armed, asked)).final_output
    print(f"{path} tools: {seen[-1]}, then {last}")
    last = await streamed(armed)
    print(f"{path} streamed tools: {seen[-1]}, then {last}")
    shaped = Agent(name="shaped", model=model, output_type=Place)
    print(f"{path} structured:", (await Runner.run(shaped, asked)).final_output.city)

async def main():
    await tried("chat", OpenAIChatCompletionsModel("any", client))
    await tried("responses", OpenAIResponsesModel("any", client))

asyncio.run(main())
"""
CLIENT = Client(
    name="OpenAI Agents SDK",
    package="openai-agents",
    sets='`AsyncOpenAI(base_url="http://127.0.0.1:8080/v1")` as its default client',
    tried={"chat": EVERYTHING, "responses": EVERYTHING},
)


async def main() -> int:
    """How much it did not say that it should have said."""
    return await try_python(CLIENT, "agents", PROGRAM)


if __name__ == "__main__":
    sys.exit(asyncio.run(main()))
