"""``GET /openapi.json``: everything that this gateway serves, itself included."""

from collections.abc import Callable, Iterable
from functools import cached_property
from typing import Any

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from gateway.openapi.document import document
from gateway.openapi.page import Page
from gateway.openapi.told import Told, json_answer_of

TOLD = Told(
    summary="This document",
    answers=json_answer_of(
        "OpenAPI 3.1.",
        {
            "type": "object",
            "properties": {"openapi": {"const": "3.1.0"}, "paths": {"type": "object"}},
            "required": ["openapi", "paths"],
        },
    ),
)


class DocumentPage:
    """The route. Its document is made when it is asked for the first time: few ever ask.

    Args:
        pages: all routes of the site.
    """

    def __init__(self, pages: Callable[[], Iterable[Any]]) -> None:
        self._pages = pages

    def routes(self) -> list[Page]:
        """The route, for the site."""
        return [Page("/openapi.json", self._document, TOLD)]

    async def _document(self, _: Request) -> Response:
        return Response(self._body, media_type="application/json")

    @cached_property
    def _body(self) -> bytes:
        return msgspec.json.encode(document(self._pages()))
