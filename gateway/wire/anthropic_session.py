"""What ``metadata.user_id`` says about the conversation: Claude Code writes its session into it."""

import re

import msgspec

_MOST_CHARS = 256
_SESSION = re.compile(r"_session_([0-9A-Za-z-]{8,64})\Z")


class _UserId(msgspec.Struct):
    session_id: str = ""


_USER_ID = msgspec.json.Decoder(_UserId)


def session_of(user_id: str) -> str:
    """The session's name, empty where there is none.

    Newer versions write JSON with ``session_id``, older ones ``user_…_account_…_session_…``. What another client wrote
    there is its end user, who may have many conversations, and so names none.
    """
    if user_id.startswith("{"):
        try:
            session = _USER_ID.decode(user_id).session_id
        except (msgspec.DecodeError, RecursionError):
            return ""
        return session if len(session) <= _MOST_CHARS else ""
    match = _SESSION.search(user_id)
    return match[1] if match is not None else ""
