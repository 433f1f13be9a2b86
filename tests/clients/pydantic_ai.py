"""Pydantic AI: agents over chats and over Responses, over an upstream of OpenAI's chat."""

import asyncio
import sys

from tests.clients.trials import EVERYTHING, Client, try_python

PROGRAM = """
import asyncio
import os
from pydantic import BaseModel
from pydantic_ai import Agent, Embedder, NativeOutput, ToolOutput
from pydantic_ai.embeddings.openai import OpenAIEmbeddingModel
from pydantic_ai.models.openai import OpenAIChatModel, OpenAIResponsesModel
from pydantic_ai.providers.openai import OpenAIProvider

provider = OpenAIProvider(base_url=os.environ["ADDRESS"] + "/v1", api_key="x")
asked = "Weather in Paris?"

class Place(BaseModel):
    city: str

async def tried(path, model):
    seen = []

    def weather(city: str) -> str:
        "Tells the weather of a city."
        seen.append(city)
        return "Rain."

    agent, armed = Agent(model), Agent(model, tools=[weather])
    print(f"{path} whole:", (await agent.run(asked)).output)
    async with agent.run_stream(asked) as stream:
        print(f"{path} streamed:", "".join([piece async for piece in stream.stream_text(delta=True)]))
    print(f"{path} tools:", f"{(await armed.run(asked)).output}".join([f"{seen[-1]}, then ", ""]))
    async with armed.run_stream(asked) as stream:
        print(f"{path} streamed tools: {seen[-1]}, then {await stream.get_output()}")
    for output in (NativeOutput(Place), ToolOutput(Place)):
        place = (await Agent(model, output_type=output).run(asked)).output
        assert place == Place(city="Paris"), place
    print(f"{path} structured:", place.city)

async def main():
    await tried("chat", OpenAIChatModel("any", provider=provider))
    await tried("responses", OpenAIResponsesModel("any", provider=provider))
    embedder = Embedder(OpenAIEmbeddingModel("any", provider=provider))
    print("embeddings vectors:", *(await embedder.embed_documents(["a", "b"])).embeddings[1])

asyncio.run(main())
"""
CLIENT = Client(
    name="Pydantic AI",
    package="pydantic-ai-slim",
    sets='`OpenAIProvider(base_url="http://127.0.0.1:8080/v1")`',
    tried={"chat": EVERYTHING, "responses": EVERYTHING, "embeddings": ("vectors",)},
)


async def main() -> int:
    """How much it did not say that it should have said."""
    return await try_python(CLIENT, "pydantic_ai.models.openai", PROGRAM)


if __name__ == "__main__":
    sys.exit(asyncio.run(main()))
