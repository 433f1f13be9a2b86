"""Anthropic's ``GET /v1/models`` and ``GET /v1/models/{id}``, and how its clients are told from OpenAI's."""

from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from gateway.wire.page_ends import page_ends

_MOST_CARDS = 1000
_USUAL_CARDS = 20


def is_anthropic_client(path: str, headers: Iterable[tuple[bytes, bytes]]) -> bool:
    """Whether who asks expects Anthropic's shapes: by the path that only they have, or the header they must send."""
    return path.startswith("/v1/messages") or any(name == b"anthropic-version" for name, _ in headers)


def model_info(model: str, created_unix_s: int) -> dict[str, Any]:
    """The card of one model. What it may be asked for is the route's to say, so it is always ``active``."""
    return {
        "type": "model",
        "id": model,
        "display_name": model,
        "created_at": datetime.fromtimestamp(created_unix_s, UTC).isoformat().replace("+00:00", "Z"),
        "lifecycle": "active",
    }


def model_page(models: Sequence[str], created_unix_s: int, query: Mapping[str, str]) -> dict[str, Any]:
    """A page of cards, by ``limit``, ``after_id`` and ``before_id`` of the query; what these do not name is nothing."""
    names = list(models)
    limit = query.get("limit", "")
    size = min(max(int(limit), 1), _MOST_CARDS) if limit.isascii() and limit.isdigit() else _USUAL_CARDS
    after, before = query.get("after_id"), query.get("before_id")
    if after in names:
        names = names[names.index(after) + 1 :]
    if before in names:
        names = names[: names.index(before)]
    page = names[-size:] if before is not None and after is None else names[:size]
    first, last = page_ends(page)
    return {
        "data": [model_info(name, created_unix_s) for name in page],
        "has_more": len(page) < len(names),
        "first_id": first,
        "last_id": last,
    }
