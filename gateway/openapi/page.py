"""A route of the site that says of itself what OpenAPI's document tells."""

from typing import Any

from starlette.routing import Route

from gateway.openapi.told import Told


class Page(Route):
    """One method of one path, with what is told of it."""

    def __init__(self, path: str, endpoint: Any, told: Told, *, method: str = "GET") -> None:
        super().__init__(path, endpoint, methods=[method])
        self.told = told
        self.method = method
