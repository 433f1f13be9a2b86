"""What an answer that is passed on says it took, in any of the shapes that providers have for it."""

from decimal import Decimal
from typing import Any

import msgspec
from msgspec import Raw, Struct
from msgspec.structs import replace

from gateway.price import Usage
from gateway.units import Units, Work
from gateway.wire.openai_usage import MAX_TOKENS, stated_usd
from gateway.wire.passages import kind_word

_LIST = msgspec.json.Decoder(list[Raw])
_MOST_SECONDS = 10**8
_INPUT, _OUTPUT = ("input_tokens", "prompt_tokens"), ("output_tokens", "completion_tokens")
_INPUT_DETAILS = ("input_tokens_details", "input_token_details", "prompt_tokens_details")
_OUTPUT_DETAILS = ("output_tokens_details", "output_token_details", "completion_tokens_details")
_KINDS = frozenset({"audio_tokens", "image_tokens", "text_tokens"})
_MADE = {Work.SPEAKING: "audio_tokens", Work.DRAWING: "image_tokens"}
_SECONDS = ("seconds", "prompt_audio_seconds")
"""OpenAI's name for them, and Mistral's."""


class PassedAnswer(Struct):
    """What is looked at of a whole answer, or of the event of a stream that ends it."""

    type: Any = None
    object: Any = None
    error: Any = None
    model: Any = None
    usage: Any = None
    svg_usage: Any = None
    meta: Any = None
    duration: Any = None
    size: Any = None
    quality: Any = None
    data: Raw = Raw()


def usage_said(asked: Units, answer: PassedAnswer) -> Usage:
    """The usage of an answer to who ``asked``: what it says, and what was known beforehand where it says nothing.

    ``usage`` of OpenAI's audio and images (tokens with details, or seconds), of Jina, Voyage and vLLM (a sum), ``meta``
    of Cohere, ``duration`` of a verbose transcription. Tokens of an answer whose kinds are not told are of what the
    work makes: OpenAI tells none for speech, nor for the pictures of its older models. What no answer can have taken is
    as good as unsaid.
    """
    said = answer.usage if isinstance(answer.usage, dict) else {}
    counted = _tokens(said)
    return replace(
        counted or Usage(),
        stated_usd=stated_usd(said["cost"]) if "cost" in said else None,
        units=replace(
            asked,
            images=_pictures(answer.data) or asked.images if asked.images is not None else None,
            size=kind_word(answer.size) or asked.size,
            quality=kind_word(answer.quality) or asked.quality,
            audio_s=_heard_s(said, answer),
            searches=_searches(answer.meta),
            elsewhere=bool(answer.svg_usage),
            **(_media(said, asked.work) if counted is not None else {}),
        ),
    )


def _pictures(data: Raw) -> int:
    """How many are in an answer; none where it has no list of them."""
    try:
        return len(_LIST.decode(data))
    except msgspec.DecodeError:
        return 0


def _tokens(said: dict[str, Any]) -> Usage | None:
    prompt_tokens, output_tokens = _first_count(said, _INPUT), _first_count(said, _OUTPUT)
    if prompt_tokens is None and output_tokens is None:
        prompt_tokens = _count(said.get("total_tokens"))  # who answers no text counts what was read alone
    if prompt_tokens is None and output_tokens is None:
        return None
    cached_tokens = _count(_details(said, _INPUT_DETAILS).get("cached_tokens")) or 0
    return Usage(
        prompt_tokens=prompt_tokens or 0,
        output_tokens=output_tokens or 0,
        cached_tokens=min(cached_tokens, prompt_tokens or 0),
    )


def _heard_s(said: dict[str, Any], answer: PassedAnswer) -> Decimal | None:
    """How long the sound was; what is counted for the bill goes before what the transcript says."""
    told = [*(said.get(name) for name in _SECONDS), answer.duration]
    return next((seconds for seconds in map(_seconds, told) if seconds is not None), None)


def _media(said: dict[str, Any], work: Work) -> dict[str, Any]:
    """Which of the tokens are sound and pictures; never more than there are."""
    prompt_tokens, output_tokens = _first_count(said, _INPUT) or 0, _first_count(said, _OUTPUT) or 0
    heard, written = _details(said, _INPUT_DETAILS), _details(said, _OUTPUT_DETAILS)
    if work in _MADE and not _KINDS & written.keys():
        written = {_MADE[work]: output_tokens}
    audio_tokens = min(_count(heard.get("audio_tokens")) or 0, prompt_tokens)
    output_audio_tokens = min(_count(written.get("audio_tokens")) or 0, output_tokens)
    return {
        "counted": True,
        "audio_tokens": audio_tokens,
        "image_tokens": min(_count(heard.get("image_tokens")) or 0, prompt_tokens - audio_tokens),
        "output_audio_tokens": output_audio_tokens,
        "output_image_tokens": min(_count(written.get("image_tokens")) or 0, output_tokens - output_audio_tokens),
    }


def _searches(meta: Any) -> int | None:
    billed = meta.get("billed_units") if isinstance(meta, dict) else None
    return _count(billed.get("search_units")) if isinstance(billed, dict) else None


def _seconds(value: Any) -> Decimal | None:
    """Seconds, with the digits as they came; some servers send them as text."""
    if isinstance(value, str):
        try:
            value = float(value)
        except ValueError:
            return None
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 <= value <= _MOST_SECONDS:
        return None
    return Decimal(str(value))


def _details(said: dict[str, Any], names: tuple[str, ...]) -> dict[str, Any]:
    return next((details for name in names if isinstance(details := said.get(name), dict)), {})


def _first_count(said: dict[str, Any], names: tuple[str, ...]) -> int | None:
    return next((count for name in names if (count := _count(said.get(name))) is not None), None)


def _count(value: Any) -> int | None:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 <= value <= MAX_TOKENS:
        return None
    return int(value)
