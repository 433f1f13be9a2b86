"""Anthropic's SDK for Node, and Vercel's AI SDK with its Anthropic provider, over an upstream of OpenAI's chat."""

import asyncio
import sys

from tests.clients.scripted import Work, gateway_over_chat, node_folder_with, run_node
from tests.clients.trials import Client

OWN = """
import Anthropic from "@anthropic-ai/sdk";
const client = new Anthropic({ baseURL: process.env.ADDRESS, apiKey: "x" });
const asked = { model: "any", max_tokens: 100, messages: [{ role: "user", content: "Weather in Paris?" }] };
const schema = { type: "object", properties: { city: { type: "string" } }, required: ["city"] };
const called = await client.messages.create({ ...asked, tools: [{ name: "weather", input_schema: schema }] });
const call = called.content.find((block) => block.type === "tool_use");
console.log(call.name, call.input.city, called.stop_reason);
console.log(await client.messages.stream(asked).finalText());
"""
VERCEL = """
import { createAnthropic } from "@ai-sdk/anthropic";
import { generateText, stepCountIs, streamText, tool } from "ai";
import { z } from "zod";
const anthropic = createAnthropic({ baseURL: process.env.ADDRESS + "/v1", apiKey: "x" });
const model = anthropic("any");
const weather = tool({
  description: "Of a city.",
  inputSchema: z.object({ city: z.string() }),
  execute: async ({ city }) => "Rain in " + city,
});
const done = await generateText({ model, prompt: "Weather in Paris?", tools: { weather }, stopWhen: stepCountIs(3) });
console.log(done.steps[0].toolCalls[0].toolName, done.steps[0].toolCalls[0].input.city, done.steps.length);
let said = "";
for await (const piece of streamText({ model, prompt: "Weather in Paris?" }).textStream) said += piece;
console.log(said);
"""
PROGRAMS = {"@anthropic-ai/sdk": (OWN, "weather Paris tool_use"), "@ai-sdk/anthropic": (VERCEL, "weather Paris 2")}
CLIENTS = (
    Client(
        name="Anthropic SDK for Node",
        package="npm @anthropic-ai/sdk",
        sets='`baseURL: "http://127.0.0.1:8080"`',
        tried={"messages": ("streamed", "tools")},
    ),
    Client(
        name="Vercel AI SDK, Anthropic",
        package="npm @ai-sdk/anthropic",
        sets='`createAnthropic({ baseURL: "http://127.0.0.1:8080/v1" })`',
        tried={"messages": ("streamed", "tools")},
    ),
)


async def main() -> int:
    """Prints what came of it; 0 where the calls and the streams are what the model said."""
    work = Work(tool="weather", arguments={"city": "Paris"}, last="It rains in Paris.")
    for package, (program, called) in PROGRAMS.items():
        folder = node_folder_with(package)
        if folder is None:
            sys.stdout.write(f"skipped: {package} is not in the node_modules of CLIENTS_NODE\n")
            continue
        async with gateway_over_chat(work) as (address, _):
            said = await run_node(program, folder, {"ADDRESS": address})
        assert {called, work.last} <= set(said.splitlines()), said  # the AI SDK warns in between
        sys.stdout.write(f"{package}: a call and a stream\n")
    return 0


if __name__ == "__main__":
    sys.exit(asyncio.run(main()))
