"""When two requests ask for the same answer, and which are worth keeping one for."""

from hashlib import blake2b
from typing import Any

from gateway.types import EMBEDDINGS, OLLAMA, ChatRequest, Operation

_NEVER_MATTERS = frozenset({"metadata", "prompt_cache_key", "prompt_cache_retention", "safety_identifier", "user"})
"""What is for the provider's books. OpenAI's Responses say it again in their answers, and so it counts there."""
_WHOLE_BODY = frozenset({Operation.RESPONSE})
_OWN = frozenset({"model", "stream"})
"""What the key has in a form of its own."""
_READ_ALIKE = EMBEDDINGS | {Operation.MODERATION, Operation.RERANK}
"""What reads a text as it did the last time: nothing is drawn."""
_KEPT = OLLAMA | {
    Operation.CHAT,
    Operation.COMPLETION,
    Operation.EMBEDDING,
    Operation.MESSAGES,
    Operation.RESPONSE,
    *_READ_ALIKE,
}


def is_drawn(operation: Operation) -> bool:
    """Whether an answer is written word by word, and so ends for a reason."""
    return operation not in _READ_ALIKE


def why_not_kept(request: ChatRequest, *, sampled: bool) -> str:
    """Why no answer to the request is kept, in words; empty where one may be.

    Unless ``sampled``, it has to ask for an answer that is the same each time: at temperature 0, or with a seed.
    """
    operation, sampling = request.arrival.operation, request.sampling
    if operation not in _KEPT:
        return "sound and pictures are made anew" if request.units is not None else "counting is cheaper than keeping"
    remembered = request.remembered
    if remembered is not None and (remembered.keep is not None or remembered.previous_id):
        return "the answer is stored, or goes on from one that is"
    if sampled or operation in _READ_ALIKE or sampling.temperature == 0 or sampling.seed is not None:
        return ""
    return "it is drawn at random: neither temperature 0 nor a seed"


def cache_key(request: ChatRequest, *, tenant: str) -> bytes:
    """A digest of all that decides the answer, for one tenant; an empty name is for all of them.

    Fields count byte for byte as the client wrote them, in whatever order they came: a space more is another question,
    and no two questions are ever taken for one. Streams and whole answers are kept apart.
    """
    arrival, raw = request.arrival, request.raw
    passed_over = _OWN if arrival.operation in _WHOLE_BODY else _OWN | _NEVER_MATTERS
    digest = blake2b(digest_size=32)
    parts: list[Any] = [tenant.encode(), arrival.operation.encode(), request.model.encode("utf-8", "surrogatepass")]
    parts.append(b"stream" if request.stream else b"whole")
    for name in sorted(raw.keys() - passed_over):
        parts += (name.encode("utf-8", "surrogatepass"), raw[name])
    parts.append(b"headers")
    for header, value in sorted(arrival.format_headers):
        parts += (header.encode(), value.encode("utf-8", "surrogatepass"))
    for part in (memoryview(one) for one in parts):
        digest.update(part.nbytes.to_bytes(8))
        digest.update(part)
    return digest.digest()
