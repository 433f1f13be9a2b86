"""Ollama's JavaScript library, likewise."""

import asyncio
import sys

from tests.clients.trials import EVERYTHING, Client, try_node

PROGRAM = """
import { Ollama } from 'ollama'

const client = new Ollama({ host: process.env.ADDRESS })
const messages = [{ role: 'user', content: 'Weather in Paris?' }]
const city = { type: 'object', properties: { city: { type: 'string' } }, required: ['city'] }
const tools = [{ type: 'function', function: { name: 'weather', description: 'Tells the weather.', parameters: city } }]

const all = async (stream, text) => {
  let said = ''
  for await (const piece of stream) said += text(piece)
  return said
}
const after = async (message) => {
  const [call] = message.tool_calls
  const told = { role: 'tool', content: 'Rain.', tool_name: call.function.name }
  const last = await client.chat({ model: 'any', messages: [...messages, message, told], tools })
  return `${call.function.arguments.city}, then ${last.message.content}`
}

console.log('chat whole:', (await client.chat({ model: 'any', messages })).message.content)
const streamed = await client.chat({ model: 'any', messages, stream: true })
console.log('chat streamed:', await all(streamed, (piece) => piece.message.content))
console.log('chat tools:', await after((await client.chat({ model: 'any', messages, tools })).message))
let called
for await (const piece of await client.chat({ model: 'any', messages, tools, stream: true })) {
  if (piece.message.tool_calls) called = piece.message
}
console.log('chat streamed tools:', await after(called))
const place = await client.chat({ model: 'any', messages, format: city })
console.log('chat structured:', JSON.parse(place.message.content).city)
const prompt = 'Weather in Paris?'
console.log('generate whole:', (await client.generate({ model: 'any', prompt })).response)
const generated = await client.generate({ model: 'any', prompt, stream: true })
console.log('generate streamed:', await all(generated, (piece) => piece.response))
console.log('embeddings vectors:', ...(await client.embed({ model: 'any', input: ['a', 'b'] })).embeddings[1])
if ((await client.list()).models.length !== 0) throw new Error('models')
if (!(await client.show({ model: 'any' })).capabilities.includes('tools')) throw new Error('show')
"""
CLIENT = Client(
    name="Ollama for JavaScript",
    package="npm ollama",
    sets="`host: 'http://127.0.0.1:8080'`",
    tried={"chat": EVERYTHING, "generate": ("whole", "streamed"), "embeddings": ("vectors",)},
)


async def main() -> int:
    """How much it did not say that it should have said."""
    return await try_node(CLIENT, PROGRAM)


if __name__ == "__main__":
    sys.exit(asyncio.run(main()))
