"""Embeddings of the engine: the request as it takes it, and its vectors as OpenAI's API has them."""

import base64
import math
import struct
from collections.abc import Sequence
from typing import Any

from backends._engine_fields import field, refused
from backends._engine_request import prompts
from embedded_engine.messages import Embed
from embedded_engine.vectors import Vectors
from gateway.types import Call
from gateway.wire.openai_embeddings import embeddings_answer


def embed_of(call: Call) -> Embed:
    """What the engine is asked for."""
    texts: list[str] = []
    token_ids: list[tuple[int, ...]] = []
    for prompt in prompts(call.request.prompt or ()):
        if isinstance(prompt, str):
            texts.append(prompt)
        else:
            token_ids.append(prompt)
    return Embed(texts=tuple(texts)) if texts else Embed(token_ids=tuple(token_ids))


def embeddings_body(call: Call, vectors: Vectors) -> bytes:
    """The whole answer.

    Raises:
        UpstreamRefused: more dimensions are wanted than there are.
    """
    encoding = field(call.request, "encoding_format", str)
    dimensions = field(call.request, "dimensions", int)
    written = [_written(vector, encoding, dimensions) for vector in vectors.vectors]
    return embeddings_answer(call.model, written, vectors.prompt_tokens)


def _written(raw: bytes, encoding: str | None, dimensions: int | None) -> Any:
    numbers: Sequence[float] = struct.unpack(f"<{len(raw) // 4}f", raw)
    if dimensions is not None:
        numbers = _shortened(numbers, dimensions)
        raw = struct.pack(f"<{dimensions}f", *numbers)
    return base64.b64encode(raw).decode() if encoding == "base64" else numbers


def _shortened(vector: Sequence[float], dimensions: int) -> Sequence[float]:
    """The first dimensions, of length 1 again."""
    if dimensions > len(vector):
        raise refused(f"dimensions must be at most {len(vector)} for this model", "dimensions", code="invalid_value")
    kept = vector[:dimensions]
    length = math.sqrt(sum(number * number for number in kept)) or 1.0
    return [number / length for number in kept]
