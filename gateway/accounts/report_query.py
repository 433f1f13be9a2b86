"""What ``GET /v1/report`` is asked, read strictly: a misspelt filter would answer another question in silence."""

from collections.abc import Iterable, Mapping
from typing import Any

from gateway.accounts.moments import read_moment
from gateway.accounts.selection import DIMENSIONS, Selection
from gateway.errors import InvalidRequest

FORMATS = ("json", "csv")

_FILTERS = ("route", "backend", "model")
_KNOWN = ("by", "since", "until", *_FILTERS, "format")
_MOST_CHARACTERS = 256


_TEXT: Mapping[str, Any] = {"type": "string", "maxLength": _MOST_CHARACTERS, "pattern": r"^[^\x00]*$"}
_MOMENT: Mapping[str, Any] = {"type": "string", "anyOf": [{"format": "date"}, {"format": "date-time"}]}
_BY = "|".join(DIMENSIONS)
QUERY_SCHEMAS: Mapping[str, tuple[str, Mapping[str, Any]]] = {
    "by": ("What to break it down by, separated by commas.", {"type": "string", "pattern": f"^(({_BY})(,({_BY}))*)?$"}),
    "since": ("From this day or moment on.", _MOMENT),
    "until": ("To before this day or moment.", _MOMENT),
    **{name: (f"Of this {name} alone.", _TEXT) for name in _FILTERS},
    "format": ("The form of the report.", {"enum": [*FORMATS]}),
}
"""What there is to ask, with its words for people and its JSON schema."""


def read_report_query(
    given: Iterable[tuple[str, str]], *, tenant: str | None
) -> tuple[tuple[str, ...], Selection, str]:
    """What to break down by, which requests, and in which format; of ``tenant`` alone, where one is named.

    Raises:
        InvalidRequest: naming the parameter.
    """
    values: dict[str, str] = {}
    for name, value in given:
        if name not in _KNOWN:
            raise InvalidRequest(f"there is no such parameter: there are {', '.join(_KNOWN)}", param=name[:64])
        if name in values:
            raise InvalidRequest(f"{name} is there several times", param=name)
        if len(value) > _MOST_CHARACTERS:
            raise InvalidRequest(f"{name} is too long", param=name)
        if "\0" in value:  # which PostgreSQL has no text with
            raise InvalidRequest(f"{name} must be text", param=name)
        values[name] = value
    by = tuple(dict.fromkeys(name.strip() for name in values.get("by", "").split(",") if name.strip()))
    if any(name not in DIMENSIONS for name in by):
        raise InvalidRequest(f"by must name some of {', '.join(DIMENSIONS)}", param="by")
    form = values.get("format", FORMATS[0])
    if form not in FORMATS:
        raise InvalidRequest(f"format must be one of {', '.join(FORMATS)}", param="format")
    return by, _selection(values, tenant), form


def _selection(values: dict[str, str], tenant: str | None) -> Selection:
    return Selection(
        since_unix_s=_moment(values, "since"),
        until_unix_s=_moment(values, "until"),
        tenant=tenant,
        route=values.get("route"),
        backend=values.get("backend"),
        model=values.get("model"),
    )


def _moment(values: dict[str, str], name: str) -> float | None:
    if name not in values:
        return None
    try:
        return read_moment(values[name])
    except ValueError:
        words = f"{name} must be a day or a moment, as 2026-11-30 or 2026-11-30T08:00:00Z"
        raise InvalidRequest(words, param=name) from None
