"""What a client tells of a task that it has finished: read strictly, since bills and learning are made of it."""

import math
from collections.abc import Mapping
from datetime import datetime
from decimal import Decimal
from typing import Any

import msgspec
from msgspec import Struct

from gateway.errors import InvalidRequest
from gateway.wire.json_body import skim

MOST_BODY_BYTES = 16 * 1024
MOST_NOTE_CHARACTERS = 1000
MOST_USD = Decimal(1_000_000)
MOST_SECONDS = 366 * 86_400
MOST_SCORE = 1_000_000
_MOST_KEY_CHARACTERS = 255
_MOST_NUMBER_CHARACTERS = 40
_MOST_NAME_CHARACTERS = 64
_EARLIEST_UNIX_S = 946_684_800.0
_MOST_AHEAD_S = 300.0
"""A client's clock may be ahead by so much; an outcome from the far future would win for ever."""

_PICO = Decimal("1e-12")
_ANY = msgspec.json.Decoder()


class ReportedOutcome(Struct, frozen=True, kw_only=True):
    """One report on a whole task. What is ``None`` was not said; ``at_unix_s`` is the client's own time of it."""

    success: bool | None
    score: float | None = None
    tool_cost_usd: Decimal | None = None
    tool_seconds: float | None = None
    retrieval_seconds: float | None = None
    recovery_cost_usd: Decimal | None = None
    note: str = ""
    at_unix_s: float | None = None


_FIELDS = (*(name for name in ReportedOutcome.__struct_fields__ if name != "at_unix_s"), "at")


_AMOUNT: Mapping[str, Any] = {"type": ["number", "null"], "minimum": 0}
OUTCOME_SCHEMA: Mapping[str, Any] = {
    "type": "object",
    "properties": {
        "success": {"type": ["boolean", "null"]},
        "score": {"type": ["number", "null"], "minimum": -MOST_SCORE, "maximum": MOST_SCORE},
        "tool_cost_usd": {**_AMOUNT, "maximum": int(MOST_USD)},
        "tool_seconds": {**_AMOUNT, "maximum": MOST_SECONDS},
        "retrieval_seconds": {**_AMOUNT, "maximum": MOST_SECONDS},
        "recovery_cost_usd": {**_AMOUNT, "maximum": int(MOST_USD)},
        "note": {"type": ["string", "null"], "maxLength": MOST_NOTE_CHARACTERS, "pattern": r"^[^\x00-\x08\x0b-\x1f]*$"},
        "at": {
            "anyOf": [
                {"type": "number", "minimum": _EARLIEST_UNIX_S, "description": "Seconds since the epoch, not ahead."},
                {"type": "string", "format": "date-time"},
                {"type": "null"},
            ]
        },
    },
    "required": ["success"],
    "additionalProperties": False,
}
"""What ``read_outcome`` reads, as a JSON schema says it."""
KEY_PATTERN = f"^[ -~]{{1,{_MOST_KEY_CHARACTERS}}}$"
"""What ``read_key`` reads, as a regular expression."""


def read_outcome(body: bytes, *, now_unix_s: float) -> ReportedOutcome:
    """The body of ``POST /v1/tasks/{id}/outcome``.

    Raises:
        InvalidRequest: with ``param``; the words never quote a value.
    """
    raw = skim(body, max_depth=4)
    for name in raw:
        if name not in _FIELDS:
            short = name[:_MOST_NAME_CHARACTERS]
            raise InvalidRequest(f"unknown field `{short}`: there are {', '.join(_FIELDS)}", param=short)
    if "success" not in raw:
        raise InvalidRequest("success is required: true, false or null", param="success")
    return ReportedOutcome(
        success=_success(raw),
        score=_number(raw, "score", -MOST_SCORE, MOST_SCORE),
        tool_cost_usd=_usd(raw, "tool_cost_usd"),
        tool_seconds=_number(raw, "tool_seconds", 0, MOST_SECONDS),
        retrieval_seconds=_number(raw, "retrieval_seconds", 0, MOST_SECONDS),
        recovery_cost_usd=_usd(raw, "recovery_cost_usd"),
        note=_note(raw),
        at_unix_s=_moment(raw, now_unix_s),
    )


def read_key(values: list[str]) -> str | None:
    """The idempotency key of a report, ``None`` where there is none.

    Raises:
        InvalidRequest: naming the header.
    """
    if not values:
        return None
    key = values[0]
    if len(set(values)) > 1 or not 0 < len(key) <= _MOST_KEY_CHARACTERS or not (key.isascii() and key.isprintable()):
        words = f"idempotency-key must be there once, with 1 to {_MOST_KEY_CHARACTERS} printable ASCII characters"
        raise InvalidRequest(words, param="idempotency-key")
    return key


def _value(raw: Mapping[str, Any], name: str) -> Any:
    return None if name not in raw else _ANY.decode(raw[name])


def _success(raw: Mapping[str, Any]) -> bool | None:
    value = _value(raw, "success")
    if value is None or isinstance(value, bool):
        return value
    raise InvalidRequest("success must be true, false or null", param="success")


def _number(raw: Mapping[str, Any], name: str, least: float, most: float) -> float | None:
    value = _value(raw, name)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise InvalidRequest(f"{name} must be a number or null", param=name)
    if not (math.isfinite(value) and least <= value <= most):
        raise InvalidRequest(f"{name} must be from {least} to {most}", param=name)
    return float(value)


def _usd(raw: Mapping[str, Any], name: str) -> Decimal | None:
    """The digits that were written, to the pico-dollar."""
    if _number(raw, name, 0, float(MOST_USD)) is None:
        return None
    text = bytes(raw[name]).strip()
    if len(text) > _MOST_NUMBER_CHARACTERS:
        raise InvalidRequest(f"{name} has more digits than money", param=name)
    return Decimal(text.decode("ascii")).quantize(_PICO)


def _note(raw: Mapping[str, Any]) -> str:
    value = _value(raw, "note")
    if value is None:
        return ""
    if not isinstance(value, str):
        raise InvalidRequest("note must be a string or null", param="note")
    if len(value) > MOST_NOTE_CHARACTERS or any(ord(letter) < ord(" ") and letter not in "\n\t" for letter in value):
        words = f"note must be at most {MOST_NOTE_CHARACTERS} characters, without control characters"
        raise InvalidRequest(words, param="note")
    return value


def _moment(raw: Mapping[str, Any], now_unix_s: float) -> float | None:
    value = _value(raw, "at")
    if value is None:
        return None
    unix_s: float | None = None
    if isinstance(value, str):
        try:
            moment = datetime.fromisoformat(value)
        except ValueError:
            moment = None
        unix_s = moment.timestamp() if moment is not None and moment.tzinfo is not None else None
    elif isinstance(value, int | float) and not isinstance(value, bool):
        unix_s = float(value)
    if unix_s is None:
        words = "at must be seconds since the epoch, or a moment with its offset: 2026-11-30T12:00:00Z"
        raise InvalidRequest(words, param="at")
    if not _EARLIEST_UNIX_S <= unix_s <= now_unix_s + _MOST_AHEAD_S:
        raise InvalidRequest("at must be since 2000 and not in the future", param="at")
    return unix_s
