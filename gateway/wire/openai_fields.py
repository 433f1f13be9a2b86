"""The request fields that OpenAI's chat and completion endpoints share, their documented types and bounds.

Fields that servers such as vLLM and llama.cpp added and that many clients send (``top_k``, ``min_p``,
``repetition_penalty``) are checked too. ``null`` is an absent field, as it is for OpenAI; zero is a value.
"""

from collections.abc import Mapping
from typing import Annotated, Any

import msgspec
from msgspec import Meta, Raw

from gateway.conversation import Sampling
from gateway.errors import InvalidRequest

Name = Annotated[str, Meta(min_length=1)]
Count = Annotated[int, Meta(ge=1, le=2**31 - 1)]
Fields = dict[str, Raw]
MOST_MODEL_CHARACTERS = 256
Model = Annotated[str, Meta(min_length=1, max_length=MOST_MODEL_CHARACTERS)]
_Penalty = Annotated[float, Meta(ge=-2, le=2)]
_Share = Annotated[float, Meta(ge=0, le=1)]
_MAX_STOPS = 16
_Stops = Annotated[tuple[str, ...], Meta(extra_json_schema={"maxItems": _MAX_STOPS})]


# What types and bounds alone cannot say, as JSON schemas say it; ``SharedFields.check`` is what holds.
STREAM_OPTIONS_NEED_A_STREAM: Mapping[str, Any] = {
    "anyOf": [
        {"properties": {"stream_options": {"type": "null"}}},
        {"properties": {"stream": {"const": True}}, "required": ["stream"]},
    ]
}


class StreamOptions(msgspec.Struct):
    """``stream_options``; other members pass through."""

    include_usage: bool | None = None


class SharedFields(msgspec.Struct, kw_only=True):
    """What both endpoints document."""

    model: Model
    stream: bool | None = None
    stream_options: StreamOptions | None = None
    n: Annotated[int, Meta(ge=1, le=128)] | None = None
    max_tokens: Count | None = None
    temperature: Annotated[float, Meta(ge=0)] | None = None
    top_p: _Share | None = None
    top_k: Annotated[int, Meta(ge=-1, le=2**31 - 1)] | None = None
    min_p: _Share | None = None
    repetition_penalty: Annotated[float, Meta(gt=0)] | None = None
    presence_penalty: _Penalty | None = None
    frequency_penalty: _Penalty | None = None
    logit_bias: dict[str, float] | None = None
    seed: Annotated[int, Meta(ge=-(2**63), le=2**63 - 1)] | None = None
    stop: str | _Stops | None = None
    user: str | None = None

    def check(self) -> None:
        """What types and bounds alone cannot say.

        Raises:
            InvalidRequest: naming the field.
        """
        if self.stream_options is not None and not self.stream:
            raise InvalidRequest("stream_options is only allowed when stream is true", param="stream_options")
        if isinstance(self.stop, tuple) and len(self.stop) > _MAX_STOPS:
            raise InvalidRequest(f"stop must hold at most {_MAX_STOPS} strings", param="stop")

    @property
    def include_usage(self) -> bool:
        """Whether the client wants the usage event."""
        return self.stream_options is not None and self.stream_options.include_usage is True

    def sampling(self) -> Sampling:
        """How tokens are drawn. ``top_k`` -1 is how vLLM's clients say that there is none."""
        stop = (self.stop,) if isinstance(self.stop, str) else self.stop or ()
        return Sampling(
            temperature=self.temperature,
            top_p=self.top_p,
            top_k=self.top_k,
            min_p=self.min_p,
            seed=self.seed,
            stop=stop,
        )

    def needs(self) -> set[str]:
        """The capabilities that both endpoints' fields call for."""
        needs: set[str] = set()
        if self.presence_penalty or self.frequency_penalty or self.repetition_penalty not in (None, 1.0):
            needs.add("penalties")
        if self.logit_bias:
            needs.add("logit_bias")
        if self.n is not None and self.n > 1:
            needs.add("many")
        return needs


def text_bytes(text: str) -> int:
    """The UTF-8 length of ``text``."""
    return len(text) if text.isascii() else len(text.encode())
