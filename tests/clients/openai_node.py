"""OpenAI's SDK for Node: chats, Responses, batches and embeddings, over an upstream of OpenAI's chat."""

import asyncio
import sys

from tests.clients.trials import Client, try_node

PROGRAM = """
import OpenAI, { toFile } from "openai";
import { zodResponseFormat, zodTextFormat } from "openai/helpers/zod";
import { z } from "zod";
const client = new OpenAI({ baseURL: process.env.ADDRESS + "/v1", apiKey: "x" });
const messages = [{ role: "user", content: "Weather in Paris?" }];
const asked = { model: "any", messages };
const properties = { city: { type: "string" } };
const schema = { type: "object", properties, required: ["city"], additionalProperties: false };
const Place = z.object({ city: z.string() });

console.log("chat whole:", (await client.chat.completions.create(asked)).choices[0].message.content);
let said = "";
for await (const chunk of await client.chat.completions.create({ ...asked, stream: true }))
  said += chunk.choices[0]?.delta?.content ?? "";
console.log("chat streamed:", said);
for (const stream of [false, true]) {
  let city;
  const run = (given) => { city = given.city; return "Rain."; };
  const weather = { name: "weather", parameters: schema, parse: JSON.parse, function: run };
  const tools = [{ type: "function", function: weather }];
  const runner = client.chat.completions.runTools({ ...asked, stream, tools });
  const last = await runner.finalContent();
  console.log(stream ? "chat streamed tools:" : "chat tools:", `${city}, then ${last}`);
}
const parsed = await client.chat.completions.parse({ ...asked, response_format: zodResponseFormat(Place, "place") });
console.log("chat structured:", parsed.choices[0].message.parsed.city);
const shaped = client.chat.completions.stream({ ...asked, response_format: zodResponseFormat(Place, "place") });
console.log("chat streamed structured:", (await shaped.finalChatCompletion()).choices[0].message.parsed.city);

const input = "Weather in Paris?";
console.log("responses whole:", (await client.responses.create({ model: "any", input })).output_text);
said = "";
for await (const event of await client.responses.create({ model: "any", input, stream: true }))
  if (event.type === "response.output_text.delta") said += event.delta;
console.log("responses streamed:", said);
const tools = [{ type: "function", name: "weather", parameters: schema, strict: true }];
const first = await client.responses.create({ model: "any", input, tools });
const call = first.output.find((item) => item.type === "function_call");
const result = { type: "function_call_output", call_id: call.call_id, output: "Rain." };
const last = await client.responses.create({ model: "any", input: [result], tools, previous_response_id: first.id });
console.log("responses tools:", `${JSON.parse(call.arguments).city}, then ${last.output_text}`);
const text = { format: zodTextFormat(Place, "place") };
console.log("responses structured:", (await client.responses.parse({ model: "any", input, text })).output_parsed.city);
const events = client.responses.stream({ model: "any", input, text });
console.log("responses streamed structured:", (await events.finalResponse()).output_parsed.city);

const line = { custom_id: "one", method: "POST", url: "/v1/chat/completions", body: asked };
const content = await toFile(Buffer.from(JSON.stringify(line)), "in.jsonl");
const file = await client.files.create({ file: content, purpose: "batch" });
const made = { input_file_id: file.id, endpoint: "/v1/chat/completions", completion_window: "24h" };
let batch = await client.batches.create(made);
while (["validating", "in_progress", "finalizing"].includes(batch.status)) {
  await new Promise((done) => setTimeout(done, 50));
  batch = await client.batches.retrieve(batch.id);
}
const output = JSON.parse(await (await client.files.content(batch.output_file_id)).text());
console.log("batches whole:", output.response.body.choices[0].message.content);

const embedded = await client.embeddings.create({ model: "any", input: ["a", "b"] });
console.log("embeddings vectors:", embedded.data[1].embedding.join(" "));
"""
EVERYTHING = ("whole", "streamed", "tools", "structured", "streamed structured")
CLIENT = Client(
    name="OpenAI SDK for Node",
    package="npm openai",
    sets='`baseURL: "http://127.0.0.1:8080/v1"`',
    tried={
        "chat": (*EVERYTHING, "streamed tools"),
        "responses": EVERYTHING,
        "batches": ("whole",),
        "embeddings": ("vectors",),
    },
)


async def main() -> int:
    """How much it did not say that it should have said."""
    return await try_node(CLIENT, PROGRAM)


if __name__ == "__main__":
    sys.exit(asyncio.run(main()))
