"""LlamaIndex's ``OpenAILike``, ``OpenAIResponses`` and embeddings, over an upstream of OpenAI's chat."""

import asyncio
import sys

from tests.clients.trials import Client, try_python

PROGRAM = """
import os
from llama_index.core.llms import ChatMessage
from llama_index.core.tools import FunctionTool
from llama_index.embeddings.openai_like import OpenAILikeEmbedding
from llama_index.llms.openai_like import OpenAILike
from pydantic import BaseModel

known = {"api_base": os.environ["ADDRESS"] + "/v1", "api_key": "x"}
model = OpenAILike(model="any", is_chat_model=True, is_function_calling_model=True, **known)
asked = [ChatMessage(role="user", content="Weather in Paris?")]

class Place(BaseModel):
    "A place."
    city: str

def weather(city: str) -> str:
    "Tells the weather of a city."
    seen.append(city)
    return "Rain."

seen = []
print("chat whole:", model.chat(asked).message.content)
print("chat streamed:", "".join(piece.delta or "" for piece in model.stream_chat(asked)))
tool = FunctionTool.from_defaults(weather)
first = model.chat_with_tools([tool], chat_history=asked)
(call,) = model.get_tool_calls_from_response(first)
told = ChatMessage(
    role="tool", content=str(tool(**call.tool_kwargs)), additional_kwargs={"tool_call_id": call.tool_id}
)
last = model.chat_with_tools([tool], chat_history=[*asked, first.message, told])
print(f"chat tools: {seen[0]}, then {last.message.content}")
print("chat structured:", model.as_structured_llm(Place).chat(asked).raw.city)
embedding = OpenAILikeEmbedding(model_name="any", **known)
print("embeddings vectors:", *embedding.get_text_embedding_batch(["a", "b"])[1])
"""
CLIENT = Client(
    name="LlamaIndex",
    package="llama-index-llms-openai-like",
    sets='`api_base="http://127.0.0.1:8080/v1"`, `is_chat_model=True`',
    tried={"chat": ("whole", "streamed", "tools", "structured"), "embeddings": ("vectors",)},
)


async def main() -> int:
    """How much it did not say that it should have said."""
    return await try_python(CLIENT, "llama_index.llms.openai_like", PROGRAM)


if __name__ == "__main__":
    sys.exit(asyncio.run(main()))
