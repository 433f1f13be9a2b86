"""Takes out of other people's words what must not reach a client: secrets, and where our upstreams live."""

import re
from collections.abc import Iterable

_REMOVED = "[removed]"
# What stands in brackets is one piece: an IPv6 address, or what an earlier pass has left.
_URL_HOST = re.compile(r"(?i)\b([a-z][a-z0-9+.-]{1,20}://)(?:\[[^\s/?#\"'<>\\)\[\]},]*\]|[^\s/?#\"'<>\\)\]},])+")
_HOST_IN_WORDS = re.compile(r"(?i)\b(host(?:name)?\s*=\s*['\"]?)[\w.:-]+")
_IPV4 = re.compile(r"\b\d{1,3}(?:\.\d{1,3}){3}(?::\d{1,5})?\b")
_IPV6 = re.compile(r"\[[0-9A-Fa-f]*:[0-9A-Fa-f]*:[0-9A-Fa-f:.]*\](?::\d{1,5})?")
_NAME_AND_PORT = re.compile(r"(?i)\b(?:localhost|[a-z0-9](?:[a-z0-9-]{0,62}\.){1,16}[a-z][a-z0-9-]{1,62}):\d{2,5}\b")
_INTERNAL_NAME = re.compile(r"(?i)\b[a-z0-9-]{1,63}(?:\.[a-z0-9-]{1,63}){0,8}\.(?:internal|local|svc|lan|cluster)\b")


def redact(text: str, secrets: Iterable[str] = ()) -> str:
    """``text`` without the given secrets, the hosts of URLs, addresses with or without port, and internal names.

    Longer secrets go first, so that one that contains another leaves nothing behind. To redact twice changes nothing.
    """
    for secret in sorted(filter(None, secrets), key=len, reverse=True):
        text = _REMOVED.join(part.replace(secret, _REMOVED) for part in text.split(_REMOVED))
    text = _URL_HOST.sub(rf"\1{_REMOVED}", text)
    text = _HOST_IN_WORDS.sub(rf"\1{_REMOVED}", text)
    for pattern in (_IPV6, _IPV4, _NAME_AND_PORT, _INTERNAL_NAME):
        text = pattern.sub(_REMOVED, text)
    return text
