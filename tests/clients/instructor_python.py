"""Instructor: objects out of tools and of schemas, whole and in parts, over an upstream of OpenAI's chat."""

import asyncio
import sys

from tests.clients.trials import Client, try_python

PROGRAM = """
import os
import instructor
from openai import OpenAI
from pydantic import BaseModel

client = OpenAI(base_url=os.environ["ADDRESS"] + "/v1", api_key="x")
asked = [{"role": "user", "content": "Weather in Paris?"}]

class Place(BaseModel):
    city: str

for mode in (instructor.Mode.TOOLS, instructor.Mode.JSON, instructor.Mode.JSON_SCHEMA):
    shaped = instructor.from_openai(client, mode=mode)
    place = shaped.create(model="any", messages=asked, response_model=Place)
    *_, whole = shaped.create_partial(model="any", messages=asked, response_model=Place)
    assert place.city == whole.city == "Paris", (mode, place, whole)
print("chat structured:", place.city)
print("chat streamed structured:", whole.city)
shaped = instructor.from_openai(client, mode=instructor.Mode.RESPONSES_TOOLS)
print("responses structured:", shaped.create(model="any", messages=asked, response_model=Place).city)
"""
CLIENT = Client(
    name="Instructor",
    package="instructor",
    sets='`OpenAI(base_url="http://127.0.0.1:8080/v1")`',
    tried={"chat": ("structured", "streamed structured"), "responses": ("structured",)},
)


async def main() -> int:
    """How much it did not say that it should have said."""
    return await try_python(CLIENT, "instructor", PROGRAM)


if __name__ == "__main__":
    sys.exit(asyncio.run(main()))
