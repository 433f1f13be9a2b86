"""What Vercel's AI SDK is asked for, whichever of its providers asks."""

AI_SDK = """
import { embed, generateText, Output, stepCountIs, streamText, tool } from "ai";
import { z } from "zod";
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
"""
"""A module's beginning: ``tried(path, model)`` asks for everything, and prints what ``trials.Client.lines`` has."""
