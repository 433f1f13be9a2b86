"""Guards after transcripts, before OpenAI's own client: in every form that it may ask for."""

from typing import Any

import msgspec
import openai
import pytest

from tests.integration.pass_through.conftest import HEARD_USAGE, PRICED, Provider, event
from tests.loopback import Conversation, Received

WAV = ("speech.wav", b"RIFF\x00\x00\xff" + bytes(2_000), "audio/wav")
SAID = "Write to bob@example.com or anna@example.org today."
CLEAN = "Write to [mail] or [mail] today."
MAIL = r"[a-z0-9._-]{1,30}@[a-z0-9.-]{1,30}\.[a-z]{2,10}"
GUARD = {"when": "after", "use": "pattern", "patterns": [MAIL], "replacement": "[mail]", "on_error": "refuse"}
REDACT = {**GUARD, "action": "redact"}
CHATTER = "Nothing of interest was said. "
CUE = "1\n00:00:00,000 --> 00:00:07,000\n{}\n\n"
WORDS = [{"word": word, "start": at, "end": at + 1} for at, word in enumerate(SAID.removesuffix(".").split())]
SEGMENTS = [
    {"id": "s", "type": "transcript.text.segment", "speaker": "A", "start": 0, "end": 1, "text": SAID[:27]},
    {"id": "t", "type": "transcript.text.segment", "speaker": "B", "start": 1, "end": 2, "text": SAID[27:]},
]
VERBOSE = {"task": "transcribe", "duration": 9, "language": "english", "text": SAID, "words": WORDS}
DIARIZED = {"task": "transcribe", "duration": 9, "text": SAID, "segments": SEGMENTS}
STREAMED = (
    event(type="transcript.text.delta", delta=SAID[:13]),
    event(type="transcript.text.delta", delta=SAID[13:]),
    *(event(**segment) for segment in SEGMENTS),
    event(type="transcript.text.done", text=SAID, usage=HEARD_USAGE),
)


async def _tell(received: Received, conversation: Conversation) -> None:
    body = received.body
    if b'name="stream"\r\n\r\ntrue' in body:
        await conversation.stream(*STREAMED)
    elif b"verbose_json" in body or b"diarized_json" in body:
        await conversation.answer(msgspec.json.encode(VERBOSE if b"verbose_json" in body else DIARIZED))
    elif b"srt" in body:
        await conversation.answer(CUE.format(SAID).encode(), headers={"content-type": "text/plain; charset=utf-8"})
    else:
        await conversation.answer(msgspec.json.encode({"text": SAID, "usage": HEARD_USAGE}))


async def _tell_late(_: Received, conversation: Conversation) -> None:
    await conversation.stream(*[event(type="transcript.text.delta", delta=CHATTER)] * 9, *STREAMED)


@pytest.fixture
def guarded(open_front: Any, provider: Provider) -> Any:
    """Starts a gateway with a guard before the provider, who tells addresses."""
    provider.instead = _tell

    async def start(guard: dict[str, Any]) -> Any:
        routes = {"all": {"models": list(PRICED), "targets": ["provider"], "guards": [guard]}}
        return await open_front({"routes": routes})

    return start


@pytest.mark.filterwarnings("ignore:deprecated:DeprecationWarning")  # the client's own, of whisper-1
async def test_no_address_is_in_a_transcript_of_any_form(guarded: Any) -> None:
    """Whole ones, of OpenAI's types: texts, words, segments, subtitles; and translations."""
    front = await guarded(REDACT)
    heard = front.openai().audio.transcriptions
    assert CLEAN == (await heard.create(model="gpt-4o-transcribe", file=WAV)).text
    verbose = await heard.create(model="whisper-1", file=WAV, response_format="verbose_json")
    assert (CLEAN, CLEAN.removesuffix(".")) == (verbose.text, " ".join(word.word for word in verbose.words))
    assert [word["start"] for word in WORDS] == [word.start for word in verbose.words]
    diarized = await heard.create(model="gpt-4o-transcribe", file=WAV, response_format="diarized_json")
    assert (CLEAN, CLEAN) == (diarized.text, "".join(segment.text for segment in diarized.segments))
    assert CUE.format(CLEAN) == await heard.create(model="whisper-1", file=WAV, response_format="srt")
    assert CLEAN == (await front.openai().audio.translations.create(model="whisper-1", file=WAV)).text
    assert {"pattern:redact"} == {row["guards"] for row in await front.rows()}


@pytest.mark.parametrize("stream", ["hold", "window"])
async def test_no_address_is_in_a_streamed_transcript(guarded: Any, stream: str) -> None:
    """In no event, and the tokens are counted as ever."""
    front = await guarded({**REDACT, "stream": stream})
    events = [
        told
        async for told in await front.openai().audio.transcriptions.create(
            model="gpt-4o-transcribe", file=WAV, stream=True
        )
    ]
    assert CLEAN == "".join(told.delta for told in events if told.type == "transcript.text.delta")
    assert CLEAN == "".join(told.text for told in events if told.type == "transcript.text.segment")
    assert (CLEAN, HEARD_USAGE["total_tokens"]) == (events[-1].text, events[-1].usage.total_tokens)
    assert HEARD_USAGE["input_tokens"] == (await front.row())["prompt_tokens"]


async def test_a_transcript_that_is_blocked_is_not_told(guarded: Any) -> None:
    """It is a bad request, whole or streamed, as long as nothing of it was shown."""
    front = await guarded({**GUARD, "action": "block", "stream": "window"})
    for more in ({}, {"stream": True}):
        with pytest.raises(openai.BadRequestError) as raised:
            await front.openai().audio.transcriptions.create(model="gpt-4o-transcribe", file=WAV, **more)
        assert "content_filter" == raised.value.code
    assert ["rejected", "rejected"] == [row["status"] for row in await front.rows()]


async def test_a_stream_that_is_blocked_later_ends_with_an_error(guarded: Any, provider: Provider) -> None:
    """What passed was shown; then the client raises."""
    provider.instead = _tell_late
    front = await guarded({**GUARD, "action": "block", "stream": "window"})
    stream = await front.openai().audio.transcriptions.create(model="gpt-4o-transcribe", file=WAV, stream=True)
    told = [(await anext(stream)).delta for _ in range(6)]
    with pytest.raises(openai.APIError, match="does not let the rest"):
        [one async for one in stream]
    assert [CHATTER] * 6 == told
    row = await front.row()
    assert ("rejected", 200, "pattern:block") == (row["status"], row["http_status"], row["guards"])


@pytest.mark.parametrize(
    ("body", "kind"),
    [
        pytest.param(SAID.encode(), "application/octet-stream", id="bytes"),
        pytest.param(SAID.encode("utf-16-le"), "text/plain", id="another charset"),
        pytest.param(b'{"duration":7}', "application/json", id="no transcript"),
    ],
)
async def test_what_nobody_can_read_passes_only_where_the_policy_file_says_so(
    guarded: Any, provider: Provider, body: bytes, kind: str
) -> None:
    """A guard cannot look at it."""

    async def tell(_: Received, conversation: Conversation) -> None:
        await conversation.answer(body, headers={"content-type": kind})

    provider.instead = tell
    refusing = await guarded(REDACT)
    with pytest.raises(openai.InternalServerError) as raised:
        await refusing.openai().audio.transcriptions.create(model="whisper-1", file=WAV)
    assert "guard_unavailable" == raised.value.code
    allowing = await guarded({**REDACT, "on_error": "allow"})
    raw = await allowing.openai().audio.transcriptions.with_raw_response.create(model="whisper-1", file=WAV)
    assert (body, "pattern:failed:allow") == (raw.content, raw.headers["x-headrace-guards"])
