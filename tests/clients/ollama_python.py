"""Ollama's Python library: chats, generations and embeddings, over an upstream of OpenAI's chat."""

import asyncio
import sys

from tests.clients.trials import EVERYTHING, Client, try_python

PROGRAM = """
import os
from ollama import Client
from pydantic import BaseModel

client = Client(host=os.environ["ADDRESS"])
asked = [{"role": "user", "content": "Weather in Paris?"}]

class Place(BaseModel):
    city: str

def weather(city: str) -> str:
    '''Tells the weather.

    Args:
        city: Where.
    '''
    return "Rain."

def after(message):
    (call,) = message.tool_calls
    told = {"role": "tool", "content": weather(**call.function.arguments), "tool_name": call.function.name}
    last = client.chat("any", [*asked, message, told], tools=[weather])
    return f"{call.function.arguments['city']}, then {last.message.content}"

print("chat whole:", client.chat("any", asked).message.content)
pieces = list(client.chat("any", asked, stream=True))
print("chat streamed:", "".join(piece.message.content for piece in pieces))
assert pieces[-1].done and pieces[-1].eval_count > 0 and pieces[-1].total_duration > 0
print("chat tools:", after(client.chat("any", asked, tools=[weather]).message))
pieces = client.chat("any", asked, tools=[weather], stream=True)
(message,) = (piece.message for piece in pieces if piece.message.tool_calls)
print("chat streamed tools:", after(message))
place = client.chat("any", asked, format=Place.model_json_schema()).message.content
print("chat structured:", Place.model_validate_json(place).city)
print("generate whole:", client.generate("any", "Weather in Paris?").response)
pieces = client.generate("any", "Weather in Paris?", stream=True)
print("generate streamed:", "".join(piece.response for piece in pieces))
print("embeddings vectors:", *client.embed("any", ["a", "b"]).embeddings[1])
assert client.generate("any").done_reason == "load"
assert client.show("any").capabilities and client.list().models == [] and client.ps().models == []
"""
CLIENT = Client(
    name="Ollama for Python",
    package="ollama",
    sets="`OLLAMA_HOST=http://127.0.0.1:8080`, `OLLAMA_API_KEY`",
    tried={"chat": EVERYTHING, "generate": ("whole", "streamed"), "embeddings": ("vectors",)},
)


async def main() -> int:
    """How much it did not say that it should have said."""
    return await try_python(CLIENT, "ollama", PROGRAM)


if __name__ == "__main__":
    sys.exit(asyncio.run(main()))
