"""Pictures and files that stand in a request itself, as ``data:image/png;base64,...``."""

import re
from typing import NamedTuple

_DATA_URL = re.compile(r"data:(?P<kind>[^;,]*)(?:;[^;,]*)*?;base64,(?P<data>.*)\Z", re.DOTALL)


class Inline(NamedTuple):
    """What such an address holds: its media type, and its bytes in base64 as they came."""

    media_type: str
    base64: str


def inline(url: str) -> Inline | None:
    """What ``url`` holds itself, or ``None`` where it is the address of something elsewhere."""
    match = _DATA_URL.match(url)
    return Inline(match["kind"] or "application/octet-stream", match["data"]) if match else None
