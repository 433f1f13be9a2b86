"""Vercel's AI SDK with its OpenAI provider: chats, Responses and embeddings, over OpenAI's chat."""

import asyncio
import sys

from tests.clients.ai_sdk import AI_SDK
from tests.clients.trials import EVERYTHING, Client, try_node

PROGRAM = (
    AI_SDK
    + """
import { createOpenAI } from "@ai-sdk/openai";
const openai = createOpenAI({ baseURL: process.env.ADDRESS + "/v1", apiKey: "x" });
await tried("responses", openai("any"));
await tried("chat", openai.chat("any"));
console.log("embeddings vectors:", (await embed({ model: openai.embedding("any"), value: "a" })).embedding.join(" "));
"""
)
CLIENT = Client(
    name="Vercel AI SDK, OpenAI",
    package="npm @ai-sdk/openai",
    sets='`createOpenAI({ baseURL: "http://127.0.0.1:8080/v1" })`',
    tried={
        "responses": (*EVERYTHING, "streamed structured"),
        "chat": (*EVERYTHING, "streamed structured"),
        "embeddings": ("vectors",),
    },
)


async def main() -> int:
    """How much it did not say that it should have said."""
    return await try_node(CLIENT, PROGRAM)


if __name__ == "__main__":
    sys.exit(asyncio.run(main()))
