"""What a client calls its conversation, in a header or in the body. A hint for finding it again, never an identity.

A hint only ever names something inside the tenant that sent it, so it can be forged by nobody but its owner. One that
is too long is none.
"""

from gateway.types import ChatRequest

SESSION_HEADERS = frozenset((b"x-claude-code-session-id", b"session-id", b"x-session-affinity"))
"""Sent by coding tools and by clients of session-aware routers."""

MOST_HINT_BYTES = 256

_BODY_FIELDS = ("prompt_cache_key", "previous_response_id")


def session_hint(request: ChatRequest) -> str:
    """What the client calls the conversation that the request belongs to; empty where it does not say.

    A header goes before ``prompt_cache_key``, which many conversations may share, and that before
    ``previous_response_id``. The fields stay in the body as they came, and go on to the upstream.
    """
    if request.arrival.session:
        return request.arrival.session
    for name in _BODY_FIELDS:
        raw = request.raw.get(name)
        if raw is not None:
            value = bytes(raw)
            if len(value) <= MOST_HINT_BYTES and value not in (b"null", b'""'):
                return name + value.decode("utf-8", "replace")
    return ""
