"""Reads single fields of a client's body that the hub request does not hold, for the embedded engine."""

from typing import Any, TypeVar

import msgspec

from gateway.errors import UpstreamRefused
from gateway.types import ChatRequest

T = TypeVar("T")


def field(request: ChatRequest, name: str, kind: type[T]) -> T | None:
    """The field as ``kind``; ``None`` where it is absent or null.

    Raises:
        UpstreamRefused: it is something else.
    """
    raw = request.raw.get(name)
    if raw is None or bytes(raw) == b"null":
        return None
    try:
        return msgspec.json.decode(raw, type=kind)
    except (msgspec.DecodeError, RecursionError) as error:
        raise refused(f"{name} has a form that this model does not take", name, code="invalid_value") from error


def text_of(value: Any) -> str:
    """Parsed JSON as text again."""
    return msgspec.json.encode(value).decode()


def refused(words: str, param: str, *, code: str = "unsupported_parameter") -> UpstreamRefused:
    """The refusal that blames a field."""
    return UpstreamRefused(words, http_status=400, param=param, upstream_code=code)
