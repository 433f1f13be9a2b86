"""Vercel's AI SDK with its provider for compatible servers: chats and embeddings, over OpenAI's chat."""

import asyncio
import sys

from tests.clients.ai_sdk import AI_SDK
from tests.clients.trials import EVERYTHING, Client, try_node

PROGRAM = (
    AI_SDK
    + """
import { createOpenAICompatible } from "@ai-sdk/openai-compatible";
const known = { name: "headrace", baseURL: process.env.ADDRESS + "/v1", apiKey: "x", supportsStructuredOutputs: true };
const headrace = createOpenAICompatible(known);
await tried("chat", headrace("any"));
const model = headrace.embeddingModel("any");
console.log("embeddings vectors:", (await embed({ model, value: "a" })).embedding.join(" "));
"""
)
CLIENT = Client(
    name="Vercel AI SDK, compatible",
    package="npm @ai-sdk/openai-compatible",
    sets='`createOpenAICompatible({ baseURL: "http://127.0.0.1:8080/v1" })`',
    tried={"chat": (*EVERYTHING, "streamed structured"), "embeddings": ("vectors",)},
)


async def main() -> int:
    """How much it did not say that it should have said."""
    return await try_node(CLIENT, PROGRAM)


if __name__ == "__main__":
    sys.exit(asyncio.run(main()))
