"""Embeddings of the engine: the request as it takes it, and its vectors as OpenAI's API has them."""

import base64
import struct
from typing import Any

from backends._engine_fields import field, refused
from backends._engine_request import prompts
from embedded_engine.messages import Embed
from embedded_engine.vectors import Vectors
from gateway.types import Call
from gateway.wire.openai_embeddings import embeddings_answer

_FLOAT_BYTES = 4


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
        UpstreamRefused: another number of dimensions is wanted than there are: only models that are trained for it
            (Matryoshka) may be cut, and nothing says that this one is.
    """
    encoding = field(call.request, "encoding_format", str)
    dimensions = field(call.request, "dimensions", int)
    there_are = len(vectors.vectors[0]) // _FLOAT_BYTES
    if dimensions is not None and dimensions != there_are:
        words = f"this model's vectors have {there_are} dimensions, and cannot be cut"
        raise refused(words, "dimensions", code="invalid_value")
    written = [_written(vector, encoding) for vector in vectors.vectors]
    return embeddings_answer(call.model, written, vectors.prompt_tokens)


def _written(raw: bytes, encoding: str | None) -> Any:
    if encoding == "base64":
        return base64.b64encode(raw).decode()
    return struct.unpack(f"<{len(raw) // _FLOAT_BYTES}f", raw)
