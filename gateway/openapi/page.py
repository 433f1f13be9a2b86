"""A route of the site that says of itself what OpenAPI's document tells, and how pages answer."""

from typing import Any

import msgspec
from starlette.responses import Response
from starlette.routing import Route

from gateway.openapi.told import Told

_ENCODE = msgspec.json.Encoder(decimal_format="number").encode


class Page(Route):
    """One method of one path, with what is told of it."""

    def __init__(self, path: str, endpoint: Any, told: Told, *, method: str = "GET") -> None:
        super().__init__(path, endpoint, methods=[method])
        self.told = told
        self.method = method


def json_answer(content: Any, *, status: int = 200) -> Response:
    """JSON, money as exact numbers. What is JSON already (``msgspec.Raw``) goes as it is."""
    return Response(_ENCODE(content), status_code=status, media_type="application/json")
