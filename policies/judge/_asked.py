"""What the request asked for, field by field, in the shape of OpenAI's chat whatever format the client speaks."""

from typing import Any

import msgspec

from gateway.types import ChatRequest


def asked(request: ChatRequest, name: str) -> Any:
    """The field's value, parsed; ``None`` where the client did not set it, or nobody can read it."""
    fields = request.raw if request.translation is None else request.translation().fields
    raw = fields.get(name)
    if raw is None:
        return None
    try:
        return msgspec.json.decode(raw)
    except (msgspec.DecodeError, RecursionError):
        return None
