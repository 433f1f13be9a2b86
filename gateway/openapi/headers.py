"""The headers of our answers and requests, as a document tells them."""

from collections.abc import Iterable, Mapping
from typing import Any

from gateway.errors import HeadraceError, LimitExceeded, MethodNotAllowed, Rejected, Unauthenticated, UpstreamError
from gateway.openapi.told import Parameter
from gateway.request_hints import MOST_DEADLINE_MS
from gateway.task_hints import BUDGET_HEADER, MOST_ID_CHARACTERS, MOST_STAGE_CHARACTERS, NAME, STAGE_HEADER, TASK_HEADER

Headers = Mapping[str, Mapping[str, Any]]

_COUNT: Mapping[str, Any] = {"type": "integer", "minimum": 0}
_TEXT: Mapping[str, Any] = {"type": "string"}
_MONEY: Mapping[str, Any] = {"type": "string", "pattern": r"^[0-9]+(\.[0-9]+)?$"}

_AMOUNT = r"(usd|tokens|seconds|steps)=[0-9]{1,6}(\.[0-9]{1,6})?"
_BUDGET = f"^{_AMOUNT}(, ?{_AMOUNT})*$"
"""Each once, tokens and steps whole: that no pattern says."""

_LIMITS: Headers = {
    f"x-ratelimit-{what}-{of}": schema
    for of in ("requests", "tokens")
    for what, schema in (("limit", _COUNT), ("remaining", _COUNT), ("reset", {"type": "string"}))
}
_QUEUE: Headers = {"x-headrace-queue-position": _COUNT, "x-headrace-queue-wait-ms": _COUNT}
_WHOSE: Headers = {"x-headrace-backend": _TEXT, "x-headrace-model": _TEXT}

REQUEST_ID: Headers = {"x-request-id": {"type": "string", "pattern": "^req_[0-9a-f]{24}$"}}
"""On every answer to inference, and on every error."""

ANSWERED: Headers = {
    **REQUEST_ID,
    **_WHOSE,
    **_LIMITS,
    **_QUEUE,
    "x-headrace-attempts": _COUNT,
    "x-headrace-forecast-tokens": _COUNT,
    "x-headrace-cached-tokens": _COUNT,
    "x-headrace-cost-usd": _MONEY,
    "x-headrace-saved-usd": _MONEY,
    "x-headrace-estimated": {"const": "true"},
    "x-headrace-cache": _TEXT,
    "x-headrace-cascade": {"const": "held"},
    "x-headrace-escalated": _TEXT,
    "x-headrace-guards": _TEXT,
    "x-headrace-dropped": _TEXT,
    "age": _COUNT,
}
"""What may stand on an answer to inference."""

REQUEST_HEADERS = (
    Parameter(
        name="x-headrace-deadline-ms",
        words="In so many milliseconds the answer is wanted.",
        where="header",
        schema={"type": "integer", "minimum": 1, "maximum": MOST_DEADLINE_MS},
    ),
    Parameter(
        name=TASK_HEADER,
        words="The task that the request belongs to.",
        where="header",
        schema={"type": "string", "pattern": f"^{NAME}$", "maxLength": MOST_ID_CHARACTERS},
    ),
    Parameter(
        name=STAGE_HEADER,
        words="The stage of the task.",
        where="header",
        schema={"type": "string", "pattern": f"^{NAME}$", "maxLength": MOST_STAGE_CHARACTERS},
    ),
    Parameter(
        name=BUDGET_HEADER,
        words="What the task may take, as in `usd=0.50, tokens=20000, seconds=120, steps=8`.",
        where="header",
        schema={"type": "string", "pattern": _BUDGET},
    ),
)
"""What a client may say of its request in passing."""


def of_errors(kinds: Iterable[type[HeadraceError]]) -> tuple[dict[str, Mapping[str, Any]], frozenset[str]]:
    """The headers of errors with one status, and those that are there in any case."""
    kinds = tuple(kinds)
    found: dict[str, Mapping[str, Any]] = {**REQUEST_ID, "x-headrace-attempts": _COUNT}
    always = {*found}
    found |= {"x-should-retry": {"const": "false"}, "x-headrace-guards": _TEXT}
    if all(kind is Unauthenticated for kind in kinds):
        found["www-authenticate"] = _TEXT
        always.add("www-authenticate")
    if all(kind is MethodNotAllowed for kind in kinds):
        found["allow"] = _TEXT
        always.add("allow")
    if any(issubclass(kind, Rejected | UpstreamError) for kind in kinds):
        found["retry-after"] = {"type": "integer", "minimum": 1}
    if any(issubclass(kind, UpstreamError) for kind in kinds):
        found |= _WHOSE
    if any(issubclass(kind, LimitExceeded) for kind in kinds):
        found |= _LIMITS
    return found, frozenset(always)
