"""What a client says about its request in passing: what it calls the conversation, and by when it wants the answer.

A conversation's name only ever names something inside the tenant that sent it, so it can be forged by nobody but its
owner: it is a hint for finding the conversation again, never an identity. What is too long is no hint. A deadline is a
promise that somebody counts on: one that cannot be read is refused, not passed over.
Which task the request is part of is read beside it (``gateway.task_hints``).
"""

from collections.abc import Iterable
from typing import NamedTuple

from gateway.errors import InvalidRequest
from gateway.task import Task
from gateway.task_hints import TASK_HEADERS, task_in_headers, task_of
from gateway.types import ChatRequest

MOST_HINT_BYTES = 256
MOST_DEADLINE_MS = 86_400_000
_MOST_DIGITS = 12

_SESSION = frozenset((b"x-claude-code-session-id", b"session-id", b"x-session-affinity"))
"""Sent by coding tools, and by clients of routers that keep sessions together."""
_DEADLINE = b"x-headrace-deadline-ms"
_HINTS = _SESSION | {_DEADLINE} | TASK_HEADERS
_BODY_FIELDS = ("prompt_cache_key", "previous_response_id")


class Hints(NamedTuple):
    """What the headers say. ``session`` is the conversation's name, empty where there is none.

    In ``deadline_s`` seconds the answer is wanted; ``fault`` is why what they say of that or of a task cannot be kept.
    """

    session: str = ""
    deadline_s: float | None = None
    task: Task | None = None
    fault: InvalidRequest | None = None


_NOTHING = Hints()


def read_hints(headers: Iterable[tuple[bytes, bytes]]) -> Hints:
    """What the client says in passing. Of several names of a conversation the first is taken."""
    found = [header for header in headers if header[0] in _HINTS]
    if not found:
        return _NOTHING
    session, deadline_s = "", None
    for name, value in found:
        if name in _SESSION and not session and len(value) <= MOST_HINT_BYTES:
            session = value.strip().decode("latin-1")
    try:
        deadline_s = _deadline_s(found)
        of_tasks = [header for header in found if header[0] in TASK_HEADERS]
        named = task_in_headers(of_tasks) if of_tasks else None
    except InvalidRequest as error:
        return Hints(session, deadline_s, None, error)
    return Hints(session, deadline_s, task_of(named, session))


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


def _deadline_s(headers: Iterable[tuple[bytes, bytes]]) -> float | None:
    """The last one that is named.

    Raises:
        InvalidRequest: it is no whole number of milliseconds within a day.
    """
    given = [value.strip() for name, value in headers if name == _DEADLINE]
    if not given:
        return None
    digits = given[-1]
    milliseconds = int(digits) if digits.isdigit() and len(digits) <= _MOST_DIGITS else 0
    if not 0 < milliseconds <= MOST_DEADLINE_MS:
        header = _DEADLINE.decode()
        raise InvalidRequest(
            f"the header {header} must be a whole number of milliseconds from 1 to {MOST_DEADLINE_MS}", param=header
        )
    return milliseconds / 1000
