"""Ollama's errors: one field with words for people, as an answer or as a stream's last line."""

import msgspec

from gateway.errors import HeadraceError
from gateway.wire.openai_errors import plain_message


def error_body(error: HeadraceError) -> bytes:
    """The envelope ``{"error": "..."}``, which is all that Ollama's clients know; the status says the rest."""
    return msgspec.json.encode({"error": plain_message(error.message)})


def error_line(error: HeadraceError) -> bytes:
    """The envelope as a line of a stream, on which Ollama's clients raise."""
    return error_body(error) + b"\n"
