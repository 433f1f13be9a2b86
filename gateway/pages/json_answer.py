"""How pages answer."""

from typing import Any

import msgspec
from starlette.responses import Response

_ENCODE = msgspec.json.Encoder(decimal_format="number").encode


def json_answer(content: Any, *, status: int = 200) -> Response:
    """JSON, money as exact numbers. What is JSON already (``msgspec.Raw``) goes as it is."""
    return Response(_ENCODE(content), status_code=status, media_type="application/json")
