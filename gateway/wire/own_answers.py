"""What a gateway answers itself, whatever stands behind it: a count that nobody makes, a model that nobody loads."""

import msgspec

from gateway.types import EMBEDDINGS, OLLAMA, Call, Operation
from gateway.wire.anthropic_count import estimated_count
from gateway.wire.ollama_counts import utc

_UNLOAD = frozenset({b"0", b'"0"', b'"0s"', b"0.0"})


def own_answer(call: Call) -> bytes | None:
    """The whole answer, for a backend that has no such endpoint; ``None`` where somebody has to be asked."""
    if call.request.arrival.operation is Operation.COUNT_TOKENS:
        return estimated_count(call)
    return loaded(call)


def loaded(call: Call) -> bytes | None:
    """The answer to Ollama's clients that ask for nothing but that a model be loaded, or unloaded.

    Where models are loaded is not theirs to say here: they are told that it is done, and no token is counted.
    """
    request = call.request
    operation = request.arrival.operation
    if operation not in OLLAMA or request.messages or request.prompt:
        return None
    if operation in EMBEDDINGS:
        one = operation is Operation.OLLAMA_EMBEDDINGS
        body = {"embedding": []} if one else {"model": request.model, "embeddings": []}
        return msgspec.json.encode({**body, "prompt_eval_count": 0})
    chat = operation is Operation.OLLAMA_CHAT
    unload = bytes(request.raw.get("keep_alive", b"")) in _UNLOAD
    return msgspec.json.encode(
        {
            "model": request.model,
            "created_at": utc(request.arrival.received_unix_s),
            **({"message": {"role": "assistant", "content": ""}} if chat else {"response": ""}),
            "done": True,
            "done_reason": "unload" if unload else "load",
            "prompt_eval_count": 0,
            "eval_count": 0,
        }
    )
