"""OpenAI's own client, and what a Cohere client sends, through the gateway; and what is on the ledger after each."""

import base64
from collections.abc import Awaitable, Callable
from typing import Any

import openai
import pytest

from tests.integration.pass_through.conftest import PIXEL, SOUND, SUBTITLES, Provider

CLIENT_SPAN = 3
WAV = ("speech.wav", b"RIFF\x00\x00\xff" + bytes(20_000), "audio/wav")
PNG = ("in.png", base64.b64decode(PIXEL), "image/png")

Ask = Callable[[openai.AsyncOpenAI], Awaitable[Any]]

ASKS: list[tuple[str, Ask, str, int | None, str, int]] = [
    (
        "moderation",
        lambda it: it.moderations.create(input="hi"),
        "omni-moderation-latest",
        0,
        "",
        0,
    ),
    (
        "transcription",
        lambda it: it.audio.transcriptions.create(model="whisper-1", file=WAV),
        "whisper-1",
        700_000_000,
        "audio_s=7",
        0,
    ),
    (
        "transcription",
        lambda it: it.audio.transcriptions.create(model="whisper-1", file=WAV, response_format="verbose_json"),
        "whisper-1",
        1_248_000_000,
        "audio_s=12.48",
        0,
    ),
    (
        "transcription",
        lambda it: it.audio.transcriptions.create(model="whisper-1", file=WAV, response_format="srt"),
        "whisper-1",
        None,
        "",
        0,
    ),
    (
        "transcription",
        lambda it: it.audio.transcriptions.create(model="gpt-4o-transcribe", file=WAV, prompt="hi"),
        "gpt-4o-transcribe",
        482_500_000,
        "audio_tokens=45",
        50,
    ),
    (
        "audio_translation",
        lambda it: it.audio.translations.create(model="whisper-1", file=WAV),
        "whisper-1",
        700_000_000,
        "audio_s=7",
        0,
    ),
    (
        "speech",
        lambda it: it.audio.speech.create(model="tts-1", voice="alloy", input="Héllo there."),
        "tts-1",
        180_000_000,
        "characters=12",
        0,
    ),
    (
        "speech",
        lambda it: it.audio.speech.create(model="gpt-4o-mini-tts", voice="alloy", input="Héllo there."),
        "gpt-4o-mini-tts",
        None,
        "characters=12",
        0,
    ),
    (
        "image",
        lambda it: it.images.generate(model="dall-e-3", prompt="a cat", n=2, size="1024x1024", quality="hd"),
        "dall-e-3",
        160_000_000_000,
        "images=2 size=1024x1024 quality=hd",
        0,
    ),
    (
        "image",
        lambda it: it.images.generate(model="gpt-image-1.5", prompt="a cat"),
        "gpt-image-1.5",
        37_396_000_000,
        "images=1 size=1024x1024 quality=medium image_tokens=388 output_image_tokens=1056",
        400,
    ),
    (
        "image_edit",
        lambda it: it.images.edit(model="gpt-image-1.5", image=[PNG, PNG], prompt="a hat on it"),
        "gpt-image-1.5",
        37_396_000_000,
        "images=1 size=1024x1024 quality=medium image_tokens=388 output_image_tokens=1056",
        400,
    ),
    (
        "image_variation",
        lambda it: it.images.create_variation(model="gpt-image-1.5", image=PNG),
        "gpt-image-1.5",
        37_396_000_000,
        "images=1 size=1024x1024 quality=medium image_tokens=388 output_image_tokens=1056",
        400,
    ),
]


@pytest.mark.filterwarnings("ignore:deprecated:DeprecationWarning")  # the client's own, of what OpenAI has given up
@pytest.mark.parametrize(("operation", "ask", "model", "pico_usd", "units", "prompt_tokens"), ASKS)
async def test_each_call_of_the_official_client(
    open_front: Any, operation: str, ask: Ask, model: str, pico_usd: int | None, units: str, prompt_tokens: int
) -> None:
    """It parses the answer, and the row says what was done, how much of it, and what it cost to the pico-dollar."""
    front = await open_front()
    assert await ask(front.openai())
    row = await front.row()
    (attempt,) = row["attempts_made"]
    assert (operation, "ok", model, "provider") == (row["operation"], row["status"], row["model"], row["backend"])
    assert (pico_usd, pico_usd, units) == (row["cost_pico_usd"], attempt["cost_pico_usd"], attempt["units"])
    assert (prompt_tokens, "policy" if pico_usd is not None else "") == (row["prompt_tokens"], attempt["cost_source"])


async def test_the_answers_are_the_providers_own(open_front: Any) -> None:
    """Sound, subtitles, pictures and verdicts, byte for byte."""
    client = (await open_front()).openai()
    speech = await client.audio.speech.create(model="tts-1", voice="alloy", input="Hi.")
    assert (SOUND, "audio/mpeg") == (speech.content, speech.response.headers["content-type"])
    subtitles = await client.audio.transcriptions.with_raw_response.create(
        model="whisper-1", file=WAV, response_format="srt"
    )
    assert (SUBTITLES, "text/plain; charset=utf-8", 'inline; filename="a.srt"') == (
        subtitles.content,
        subtitles.headers["content-type"],
        subtitles.headers["content-disposition"],
    )
    picture = await client.images.generate(model="gpt-image-1.5", prompt="a cat")
    assert PIXEL == picture.data[0].b64_json
    assert (await client.moderations.create(input="x")).results[0].flagged


async def test_sound_is_streamed(open_front: Any) -> None:
    """Piece by piece, and in events where those are asked for."""
    front = await open_front()
    async with front.openai().audio.speech.with_streaming_response.create(
        model="tts-1", voice="alloy", input="Hi."
    ) as answer:
        pieces = [piece async for piece in answer.iter_bytes()]
    assert SOUND == b"".join(pieces)
    body = {"model": "gpt-4o-mini-tts", "voice": "alloy", "input": "Hi.", "stream_format": "sse"}
    answer = await front.http.post("/v1/audio/speech", json=body)
    assert answer.headers["content-type"].startswith("text/event-stream")
    assert b"event: speech.audio.done" in answer.content
    row = (await front.rows())[-1]
    assert (8 * 600_000 + 120 * 12_000_000, 1, 8, 120) == (
        row["cost_pico_usd"],
        row["stream"],
        row["prompt_tokens"],
        row["output_tokens"],
    )


async def test_transcripts_and_pictures_are_streamed(open_front: Any) -> None:
    """The official client reads the events, and what they say that it took is paid."""
    front = await open_front()
    client = front.openai()
    heard = await client.audio.transcriptions.create(model="gpt-4o-transcribe", file=WAV, stream=True)
    said = [event async for event in heard]
    assert ["Hel", "lo."] == [event.delta for event in said if event.type == "transcript.text.delta"]
    drawn = await client.images.generate(model="gpt-image-1.5", prompt="a cat", stream=True, partial_images=1)
    kinds = [event.type async for event in drawn]
    assert ["image_generation.partial_image", "image_generation.completed"] == kinds
    assert [482_500_000, 37_396_000_000] == [row["cost_pico_usd"] for row in await front.rows()]


@pytest.mark.parametrize("path", ["/v1/rerank", "/v2/rerank", "/rerank"])
async def test_documents_are_ranked(open_front: Any, provider: Provider, path: str) -> None:
    """On the paths of Cohere's clients, Jina's and vLLM's alike; the provider has one."""
    front = await open_front()
    body = {"model": "rerank-v3.5", "query": "capital?", "documents": ["Paris", "Rome"], "top_n": 1}
    answer = await front.http.post(path, json=body, headers={"x-client-name": "test"})
    assert [0, 1] == [result["index"] for result in answer.json()["results"]]
    assert ("/v1/rerank", body) == (provider.received.path, provider.received.json)
    row = await front.row()
    assert ("rerank", 4_000_000_000, "searches=2 documents=2") == (
        row["operation"],
        row["cost_pico_usd"],
        row["attempts_made"][0]["units"],
    )


async def test_what_was_counted_is_on_the_metrics(open_front: Any) -> None:
    """By backend and model, each under its name; tokens that nobody counted are none."""
    front = await open_front()
    await front.openai().audio.transcriptions.create(model="whisper-1", file=WAV)
    await front.openai().images.generate(model="dall-e-3", prompt="x", n=2)
    series = await front.series()
    assert 7 == series['headrace_units_total{backend="provider",model="whisper-1",unit="audio_second"}']
    assert 2 == series['headrace_units_total{backend="provider",model="dall-e-3",unit="image"}']
    assert not [name for name in series if name.startswith("headrace_tokens_total")]


async def test_spans_tell_it_too(collector: Any, open_front: Any) -> None:
    """The attempt's, by the operation's name."""
    front = await open_front()
    await front.openai().audio.transcriptions.create(model="whisper-1", file=WAV)
    await collector.until(lambda: len(collector.spans) == 2)
    (attempt,) = [span for span in collector.spans if span.kind == CLIENT_SPAN]
    assert "transcription whisper-1" == attempt.name
    assert "audio_s=7" == attempt.attributes["headrace.usage.units"]
