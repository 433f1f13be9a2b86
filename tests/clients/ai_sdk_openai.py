"""Vercel's AI SDK with its OpenAI provider: chats, Responses and embeddings, over OpenAI's chat."""

import asyncio
import sys

from tests.clients.trials import EVERYTHING, Client, try_node

PROGRAM = """
import { embed, generateText, Output, stepCountIs, streamText, tool } from "ai";
import { z } from "zod";
import { createOpenAI } from "@ai-sdk/openai";
const schema = z.object({ city: z.string() });
const prompt = "Weather in Paris?";

async function tried(path, model) {
  console.log(path, "whole:", (await generateText({ model, prompt })).text);
  let said = "";
  for await (const piece of streamText({ model, prompt }).textStream) said += piece;
  console.log(path, "streamed:", said);
  let city;
  const run = async (given) => { city = given.city; return "Rain."; };
  const weather = tool({ description: "Of a city.", inputSchema: schema, execute: run });
  const armed = { model, prompt, tools: { weather }, stopWhen: stepCountIs(3) };
  const last = (await generateText(armed)).text;
  console.log(path, "tools:", `${city}, then ${last}`);
  city = undefined;
  said = "";
  for await (const piece of streamText(armed).textStream) said += piece;
  console.log(path, "streamed tools:", `${city}, then ${said}`);
  const output = Output.object({ schema });
  console.log(path, "structured:", (await generateText({ model, prompt, output })).output.city);
  const shaped = streamText({ model, prompt, output });
  console.log(path, "streamed structured:", (await shaped.output).city);
}
const openai = createOpenAI({ baseURL: process.env.ADDRESS + "/v1", apiKey: "x" });
await tried("responses", openai("any"));
await tried("chat", openai.chat("any"));
console.log("embeddings vectors:", (await embed({ model: openai.embedding("any"), value: "a" })).embedding.join(" "));
"""
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
