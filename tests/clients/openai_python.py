"""OpenAI's Python SDK: chats, Responses, batches and embeddings, over an upstream of OpenAI's chat."""

import asyncio
import sys

from tests.clients.trials import Client, try_python

PROGRAM = """
import json
import os
import time
import openai
from openai import OpenAI
from pydantic import BaseModel

client = OpenAI(base_url=os.environ["ADDRESS"] + "/v1", api_key="x")
chat = [{"role": "user", "content": "Weather in Paris?"}]
asked = {"model": "any", "messages": chat}

class Place(BaseModel):
    city: str

class weather(BaseModel):
    city: str

print("chat whole:", client.chat.completions.create(**asked).choices[0].message.content)
chunks = client.chat.completions.create(**asked, stream=True, stream_options={"include_usage": True})
print("chat streamed:", "".join(choice.delta.content or "" for chunk in chunks for choice in chunk.choices))
tools = [openai.pydantic_function_tool(weather)]

def after(message):
    (call,) = message.tool_calls
    told = {"role": "tool", "tool_call_id": call.id, "content": "Rain."}
    turns = [*asked["messages"], message.to_dict(), told]
    last = client.chat.completions.create(model="any", messages=turns, tools=tools)
    return f"{json.loads(call.function.arguments)['city']}, then {last.choices[0].message.content}"

print("chat tools:", after(client.chat.completions.create(**asked, tools=tools).choices[0].message))
with client.chat.completions.stream(**asked, tools=tools) as stream:
    message = stream.get_final_completion().choices[0].message
    assert message.tool_calls[0].function.parsed_arguments == weather(city="Paris")
message.tool_calls[0].function.parsed_arguments = None
message.parsed = None
print("chat streamed tools:", after(message))
parsed = client.chat.completions.parse(**asked, response_format=Place)
print("chat structured:", parsed.choices[0].message.parsed.city)
with client.chat.completions.stream(**asked, response_format=Place) as stream:
    print("chat streamed structured:", stream.get_final_completion().choices[0].message.parsed.city)

asked = {"model": "any", "input": "Weather in Paris?"}
print("responses whole:", client.responses.create(**asked).output_text)
with client.responses.stream(**asked) as stream:
    print("responses streamed:", stream.get_final_response().output_text)
tools = [{"type": "function", "name": "weather", "parameters": Place.model_json_schema(), "strict": False}]
first = client.responses.create(**asked, tools=tools)
(call,) = (item for item in first.output if item.type == "function_call")
told = [{"type": "function_call_output", "call_id": call.call_id, "output": "Rain."}]
last = client.responses.create(model="any", input=told, tools=tools, previous_response_id=first.id)
print(f"responses tools: {json.loads(call.arguments)['city']}, then {last.output_text}")
print("responses structured:", client.responses.parse(**asked, text_format=Place).output_parsed.city)
with client.responses.stream(**asked, text_format=Place) as stream:
    print("responses streamed structured:", stream.get_final_response().output_parsed.city)
lines = [
    {"custom_id": name, "method": "POST", "url": "/v1/chat/completions", "body": {"model": "any", **rest}}
    for name, rest in (("good", {"messages": chat}), ("bad", {"messages": 7}))
]
file = client.files.create(file=("in.jsonl", "\\n".join(map(json.dumps, lines)).encode()), purpose="batch")
made = {"input_file_id": file.id, "endpoint": "/v1/chat/completions", "completion_window": "24h"}
batch = client.batches.create(**made, metadata={"for": "a trial"})
while batch.status in {"validating", "in_progress", "finalizing"}:
    time.sleep(0.05)
    batch = client.batches.retrieve(batch.id)
assert [batch.id] == [one.id for one in client.batches.list()]
assert {file.id, batch.output_file_id, batch.error_file_id} == {one.id for one in client.files.list()}
(good,) = map(json.loads, client.files.content(batch.output_file_id).text.splitlines())
(bad,) = map(json.loads, client.files.content(batch.error_file_id).text.splitlines())
assert (400, "bad") == (bad["response"]["status_code"], bad["custom_id"])
assert client.files.delete(file.id).deleted
print("batches whole:", good["response"]["body"]["choices"][0]["message"]["content"])
print("embeddings vectors:", *client.embeddings.create(model="any", input=["a", "b"]).data[1].embedding)
"""
CLIENT = Client(
    name="OpenAI SDK for Python",
    package="openai",
    sets='`base_url="http://127.0.0.1:8080/v1"`',
    tried={
        "chat": ("whole", "streamed", "tools", "streamed tools", "structured", "streamed structured"),
        "responses": ("whole", "streamed", "tools", "structured", "streamed structured"),
        "batches": ("whole",),
        "embeddings": ("vectors",),
    },
)


async def main() -> int:
    """How much it did not say that it should have said."""
    return await try_python(CLIENT, "openai", PROGRAM)


if __name__ == "__main__":
    sys.exit(asyncio.run(main()))
