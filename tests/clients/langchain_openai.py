"""LangChain's ``ChatOpenAI`` and ``OpenAIEmbeddings``, over an upstream of OpenAI's chat."""

import asyncio
import sys

from tests.clients.trials import EVERYTHING, Client, try_python

PROGRAM = """
import os
from langchain_core.tools import tool
from langchain_openai import ChatOpenAI, OpenAIEmbeddings
from pydantic import BaseModel

known = {"base_url": os.environ["ADDRESS"] + "/v1", "api_key": "x", "model": "any"}
asked = [("user", "Weather in Paris?")]

class Place(BaseModel):
    city: str

@tool
def weather(city: str) -> str:
    "Tells the weather of a city."
    return "Rain."

for path, responses in (("chat", False), ("responses", True)):
    model = ChatOpenAI(**known, use_responses_api=responses)
    print(f"{path} whole:", model.invoke(asked).text)
    print(f"{path} streamed:", "".join(piece.text for piece in model.stream(asked)))
    armed = model.bind_tools([weather])
    called = armed.invoke(asked)
    result = weather.invoke(called.tool_calls[0])
    last = armed.invoke([*asked, called, result]).text
    print(f"{path} tools: {called.tool_calls[0]['args']['city']}, then {last}")
    called = None
    for piece in armed.stream(asked):
        called = piece if called is None else called + piece
    last = "".join(piece.text for piece in armed.stream([*asked, called, weather.invoke(called.tool_calls[0])]))
    print(f"{path} streamed tools: {called.tool_calls[0]['args']['city']}, then {last}")
    for method in ("json_schema", "function_calling"):
        place = model.with_structured_output(Place, method=method).invoke(asked)
        assert place == Place(city="Paris"), place
    print(f"{path} structured:", place.city)
embeddings = OpenAIEmbeddings(**known, check_embedding_ctx_length=False)
print("embeddings vectors:", *embeddings.embed_documents(["a", "b"])[1])
"""
CLIENT = Client(
    name="LangChain, OpenAI",
    package="langchain-openai",
    sets='`base_url="http://127.0.0.1:8080/v1"`',
    tried={"chat": EVERYTHING, "responses": EVERYTHING, "embeddings": ("vectors",)},
)


async def main() -> int:
    """How much it did not say that it should have said."""
    return await try_python(CLIENT, "langchain_openai", PROGRAM)


if __name__ == "__main__":
    sys.exit(asyncio.run(main()))
