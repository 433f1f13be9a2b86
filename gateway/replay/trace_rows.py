"""One line of a trace, checked.

One shape reads all traces: Mooncake's (``timestamp`` in ms, ``input_length``, ``output_length``, ``hash_ids``), the
ledger's export, which is the same and says more, and prompts (``prompt`` or ``messages``, as in a request's body).
"""

from typing import Any

import msgspec
from msgspec import Struct

from gateway.errors import ConfigurationError

MOST_TOKENS = 10_000_000
"""Longer than any context window; a row that claims more is a mistake."""

_LATEST_MS = 1e15
"""Milliseconds since the epoch, 30,000 years from now."""


class Row(Struct, frozen=True, kw_only=True):
    """A line as it stands; see ``docs/replay.md`` for the meaning of each field."""

    timestamp: float | None = None
    input_length: int | None = None
    output_length: int
    hash_ids: tuple[int, ...] | None = None
    prompt: str | None = None
    messages: Any = None
    model: str = "trace"
    tenant: str = "default"
    max_tokens: int | None = None


_DECODER = msgspec.json.Decoder(Row)


def read_row(line: bytes, *, file: str, number: int) -> Row:
    """The row on line ``number``.

    Raises:
        ConfigurationError: naming the file, the line and the field.
    """
    where = f"line {number}"
    try:
        row = _DECODER.decode(line)
    except msgspec.DecodeError as error:
        raise ConfigurationError(f"this is no row of a trace: {error}", file=file, where=where) from None
    except UnicodeDecodeError:
        raise ConfigurationError("this is no UTF-8 text", file=file, where=where) from None
    fault = _fault(row)
    if fault:
        raise ConfigurationError(fault, file=file, where=where)
    return row


def _fault(row: Row) -> str:
    """What is wrong with the row on its own; empty where nothing is."""
    if row.timestamp is not None and not 0 <= row.timestamp <= _LATEST_MS:
        return f"`timestamp` must be milliseconds from 0 to {_LATEST_MS:g}, and is {row.timestamp:g}"
    if not 0 <= row.output_length <= MOST_TOKENS:
        return f"`output_length` must be from 0 to {MOST_TOKENS:,} tokens, and is {row.output_length}"
    if row.input_length is None:
        return "" if row.prompt or row.messages else "it has neither `input_length`, nor a `prompt`, nor `messages`"
    if not 1 <= row.input_length <= MOST_TOKENS:
        return f"`input_length` must be from 1 to {MOST_TOKENS:,} tokens, and is {row.input_length}"
    return ""
