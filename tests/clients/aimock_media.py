"""aimock once more: its moderations, audio, images and rerank, by OpenAI's SDK through the gateway.

It needs ``npm install @copilotkit/aimock`` in ``CLIENTS_NODE``. What the client hears is what the fixtures say.
"""

import asyncio
import base64
import sys
from typing import Any

import httpx
import openai

from tests.clients.aimock import aimock
from tests.clients.scripted import gateway_over, node_folder_with

SOUND = b"ID3\x04\x00" + bytes(range(256)) * 8
PIXEL = base64.b64encode(b"\x89PNG\r\n\x1a\n").decode()
SAID = "Hello from the tape."
WAV = ("speech.wav", b"RIFF\x00\xff" + bytes(5000), "audio/wav")
ANSWERS: list[dict[str, Any]] = [
    {"match": {"endpoint": "speech"}, "response": {"audio": base64.b64encode(SOUND).decode()}},
    {
        "match": {"endpoint": "transcription"},
        "response": {"transcription": {"text": SAID, "duration": 3.5, "language": "english"}},
    },
    {
        "match": {"endpoint": "translation"},
        "response": {"transcription": {"text": SAID, "duration": 3.5, "language": "english"}},
    },
    {"match": {"endpoint": "image"}, "response": {"images": [{"b64Json": PIXEL}]}},
    {"match": {"endpoint": "image-edit"}, "response": {"images": [{"b64Json": PIXEL}]}},
]
OPERATIONS = ["moderation", "transcription", "audio_translation", "speech", "image", "image_edit", "rerank"]


async def by_openai(client: openai.AsyncOpenAI) -> None:
    """Every call that aimock has an answer to."""
    spoken = await client.audio.speech.create(model="tts-1", voice="alloy", input="Say it.")
    assert spoken.content == SOUND
    for form in ("json", "verbose_json"):
        heard: Any = await client.audio.transcriptions.create(model="whisper-1", file=WAV, response_format=form)
        assert SAID == heard.text
    drawn = await client.images.generate(model="gpt-image-1.5", prompt="a cat")
    edited = await client.images.edit(model="gpt-image-1.5", image=("a.png", b"\x89PNG", "image/png"), prompt="a hat")
    assert [PIXEL, PIXEL] == [(answer.data or [])[0].b64_json for answer in (drawn, edited)]
    assert not (await client.moderations.create(input="all is well")).results[0].flagged


async def main() -> int:
    """Prints what came of it; 0 where the client heard what the fixtures say."""
    folder = node_folder_with("@copilotkit/aimock")
    if folder is None:
        sys.stdout.write("skipped: @copilotkit/aimock is not in the node_modules of CLIENTS_NODE\n")
        return 0
    async with aimock(folder, answers=ANSWERS) as upstream:
        paths = {"rerank": "/v2/rerank"}
        backend = {"use": "openai_compatible", "base_url": f"{upstream}/v1", "operations": OPERATIONS, "paths": paths}
        async with (
            gateway_over({"media": backend}, {}) as address,
            openai.AsyncOpenAI(base_url=f"{address}/v1", api_key="x", max_retries=0) as client,
            httpx.AsyncClient(base_url=address) as http,
        ):
            await by_openai(client)
            ranked = await http.post("/v2/rerank", json={"model": "any", "query": "q", "documents": ["a", "b"]})
            assert ranked.status_code == 200, ranked.text
    sys.stdout.write("aimock's media: moderations, audio, images and rerank\n")
    return 0


if __name__ == "__main__":
    sys.exit(asyncio.run(main()))
