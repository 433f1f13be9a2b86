"""What a request that is passed on will weigh: nothing is written that could be long or short, so little is unknown."""

from decimal import Decimal
from math import ceil

from msgspec.structs import replace

from gateway.forecast import Forecast
from gateway.types import ChatRequest
from gateway.units import Units, Work
from gateway.wire.format import BYTES_PER_TOKEN

_AUDIO_BYTES_PER_S = 16_000
"""Of MP3 at its usual 128 kbit/s. Only for what is reserved and decided: what is paid, the upstream says."""
_AUDIO_TOKENS_PER_S = 10
"""OpenAI's, of what a user says: a token for each 100 ms."""
_DOCUMENTS_PER_SEARCH = 100
"""Cohere's: https://docs.cohere.com/docs/rerank-overview."""
_SPOKEN_TOKENS_PER_CHARACTER = Decimal("1.4")
"""A minute of speech is some 900 characters and, by OpenAI's prices for a minute and for tokens, 1,250 tokens."""
_IMAGE_TOKENS = {"low": 272, "medium": 1056, "high": 4160}
"""Of a square picture, by OpenAI's table for its first model that counts them."""


def foreseen(request: ChatRequest, units: Units) -> Forecast:
    """The forecast of a request of which ``units`` are known. Nothing is written word by word, which takes its time."""
    pictures = units.images or 0
    audio_s = _audio_s(request, units)
    known = replace(
        units,
        audio_s=audio_s,
        audio_tokens=int(audio_s or 0) * _AUDIO_TOKENS_PER_S,
        searches=_searches(units.documents),
        output_audio_tokens=ceil((units.characters or 0) * _SPOKEN_TOKENS_PER_CHARACTER),
        output_image_tokens=pictures * _IMAGE_TOKENS.get(units.quality, _IMAGE_TOKENS["medium"]),
        counted=True,
    )
    prompt_tokens = -(-request.prompt_bytes // BYTES_PER_TOKEN)
    return Forecast(prompt_tokens=prompt_tokens, output_tokens_p50=0, output_tokens_p90=0, units=known)


def _audio_s(request: ChatRequest, units: Units) -> Decimal | None:
    if units.work is not Work.LISTENING or request.form is None:
        return None
    return Decimal(-(-request.form.file_bytes // _AUDIO_BYTES_PER_S))


def _searches(documents: int | None) -> int | None:
    return None if documents is None else -(-documents // _DOCUMENTS_PER_SEARCH)
