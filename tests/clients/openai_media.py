"""OpenAI's Python SDK: speech, transcripts, pictures and moderations, over the made-up backend."""

import asyncio
import sys

from tests.clients.trials import Client, try_python

PROGRAM = """
import base64
import os
import warnings
from openai import OpenAI

warnings.simplefilter("ignore", DeprecationWarning)
client = OpenAI(base_url=os.environ["ADDRESS"] + "/v1", api_key="x")
wav = ("speech.wav", b"RIFF" + bytes(1000), "audio/wav")
png = ("in.png", b"PNG", "image/png")

def heard(sound):
    return sound[10:].decode().strip()

asked = {"model": "fake", "voice": "alloy", "input": "Say it."}
print("speech sound:", heard(client.audio.speech.create(**asked).content))
with client.audio.speech.with_streaming_response.create(**asked) as answer:
    assert heard(b"".join(answer.iter_bytes()))
with client.audio.speech.with_streaming_response.create(**asked, stream_format="sse") as answer:
    events = [line for line in answer.iter_lines() if "speech.audio.delta" in line]
pieces = [base64.b64decode(line.partition('"audio":"')[2].rstrip('"}')) for line in events]
print("speech sound in events:", heard(b"".join(pieces)))
asked = {"model": "fake", "file": wav}
print("transcriptions transcripts:", client.audio.transcriptions.create(**asked).text)
events = client.audio.transcriptions.create(**asked, stream=True)
print("transcriptions streamed transcripts:", "".join(e.delta for e in events if e.type == "transcript.text.delta"))
print("translations transcripts:", client.audio.translations.create(**asked).text)
print("images pictures:", len(client.images.generate(model="fake", prompt="a cat", n=2).data))
print("image edits pictures:", len(client.images.edit(model="fake", image=[png, png], prompt="a hat", n=2).data))
print("moderations verdicts:", client.moderations.create(input="hi").results[0].flagged)
"""
CLIENT = Client(
    name="OpenAI SDK for Python, sound and pictures",
    package="openai",
    sets='`base_url="http://127.0.0.1:8080/v1"`',
    tried={
        "speech": ("sound", "sound in events"),
        "transcriptions": ("transcripts", "streamed transcripts"),
        "translations": ("transcripts",),
        "images": ("pictures",),
        "image edits": ("pictures",),
        "moderations": ("verdicts",),
    },
)


async def main() -> int:
    """How much it did not say that it should have said."""
    return await try_python(CLIENT, "openai", PROGRAM, over_fake=True)


if __name__ == "__main__":
    sys.exit(asyncio.run(main()))
