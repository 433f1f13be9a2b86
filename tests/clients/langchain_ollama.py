"""LangChain's ``ChatOllama`` and ``OllamaEmbeddings``, over an upstream of OpenAI's chat."""

import asyncio
import sys

from tests.clients.trials import EVERYTHING, Client, try_python

PROGRAM = """
import os
from langchain_core.tools import tool
from langchain_ollama import ChatOllama, OllamaEmbeddings
from pydantic import BaseModel

known = {"base_url": os.environ["ADDRESS"], "model": "any"}
asked = [("user", "Weather in Paris?")]

class Place(BaseModel):
    city: str

@tool
def weather(city: str) -> str:
    "Tells the weather of a city."
    return "Rain."

model = ChatOllama(**known, temperature=0, num_ctx=8192, num_predict=100)
print("chat whole:", model.invoke(asked).text)
print("chat streamed:", "".join(piece.text for piece in model.stream(asked)))
armed = model.bind_tools([weather])
called = armed.invoke(asked)
last = armed.invoke([*asked, called, weather.invoke(called.tool_calls[0])]).text
print(f"chat tools: {called.tool_calls[0]['args']['city']}, then {last}")
called = None
for piece in armed.stream(asked):
    called = piece if called is None else called + piece
last = "".join(piece.text for piece in armed.stream([*asked, called, weather.invoke(called.tool_calls[0])]))
print(f"chat streamed tools: {called.tool_calls[0]['args']['city']}, then {last}")
print("chat structured:", model.with_structured_output(Place, method="json_schema").invoke(asked).city)
print("embeddings vectors:", *OllamaEmbeddings(**known).embed_documents(["a", "b"])[1])
"""
CLIENT = Client(
    name="LangChain, Ollama",
    package="langchain-ollama",
    sets='`base_url="http://127.0.0.1:8080"`',
    tried={"chat": EVERYTHING, "embeddings": ("vectors",)},
)


async def main() -> int:
    """How much it did not say that it should have said."""
    return await try_python(CLIENT, "langchain_ollama", PROGRAM)


if __name__ == "__main__":
    sys.exit(asyncio.run(main()))
