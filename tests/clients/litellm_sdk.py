"""LiteLLM's SDK: chats, Responses, Anthropic's Messages and embeddings, over an upstream of OpenAI's chat."""

import asyncio
import sys

from tests.clients.trials import EVERYTHING, Client, try_python

PROGRAM = """
import json
import os
os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"
import litellm
from pydantic import BaseModel

asked = [{"role": "user", "content": "Weather in Paris?"}]
schema = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
tools = [{"type": "function", "function": {"name": "weather", "parameters": schema}}]
address = os.environ["ADDRESS"]

class Place(BaseModel):
    city: str

def after(called, known):
    call = called.tool_calls[0]
    told = {"role": "tool", "tool_call_id": call.id, "content": "Rain."}
    last = litellm.completion(messages=[*asked, called.model_dump(), told], tools=tools, **known)
    return f"{json.loads(call.function.arguments)['city']}, then {last.choices[0].message.content}"

for path, known in (
    ("chat", {"model": "openai/any", "api_base": address + "/v1", "api_key": "x"}),
    ("messages", {"model": "anthropic/claude-any", "api_base": address, "api_key": "x"}),
):
    print(f"{path} whole:", litellm.completion(messages=asked, **known).choices[0].message.content)
    pieces = list(litellm.completion(messages=asked, stream=True, **known))
    print(f"{path} streamed:", "".join(piece.choices[0].delta.content or "" for piece in pieces))
    called = litellm.completion(messages=asked, tools=tools, **known).choices[0].message
    print(f"{path} tools:", after(called, known))
    pieces = list(litellm.completion(messages=asked, tools=tools, stream=True, **known))
    print(f"{path} streamed tools:", after(litellm.stream_chunk_builder(pieces).choices[0].message, known))
    shaped = litellm.completion(messages=asked, response_format=Place, **known).choices[0].message.content
    print(f"{path} structured:", Place.model_validate_json(shaped).city)
known = {"model": "openai/any", "api_base": address + "/v1", "api_key": "x"}
print("responses whole:", litellm.responses(input="Weather?", **known).output[0].content[0].text)
events = litellm.responses(input="Weather?", stream=True, **known)
print("responses streamed:", "".join(it.delta for it in events if it.type == "response.output_text.delta"))
print("embeddings vectors:", *litellm.embedding(input=["a", "b"], **known).data[1]["embedding"])
"""
CLIENT = Client(
    name="LiteLLM SDK",
    package="litellm",
    sets='`api_base="http://127.0.0.1:8080/v1"` with `openai/...`; without `/v1` with `anthropic/...`',
    tried={"chat": EVERYTHING, "messages": EVERYTHING, "responses": ("whole", "streamed"), "embeddings": ("vectors",)},
)


async def main() -> int:
    """How much it did not say that it should have said."""
    return await try_python(CLIENT, "litellm", PROGRAM)


if __name__ == "__main__":
    sys.exit(asyncio.run(main()))
