"""Answers of OpenAI's Responses, asked for again: ``/v1/responses/{id}``, what it answered, and its end."""

from collections.abc import Callable
from typing import Any, Literal

import msgspec
from msgspec import Struct
from starlette.requests import Request
from starlette.responses import Response

from gateway.door import Door
from gateway.errors import HeadraceError, InvalidRequest, NotFound
from gateway.openapi.answers import ResponseObject
from gateway.openapi.page import Page
from gateway.openapi.told import Parameter, Shape, Told, in_path, json_answer_of
from gateway.pages.json_answer import json_answer
from gateway.stores.responses import KeptResponse, ResponseMemory
from gateway.wire.page_ends import page_ends


class DeletedResponse(Struct, kw_only=True):
    """It is not kept any more."""

    id: str
    object: Literal["response.deleted"]
    deleted: Literal[True]


class ItemList(Struct, kw_only=True):
    """The items that an answer answers."""

    object: Literal["list"]
    data: list[dict[str, Any]]
    has_more: bool
    first_id: str | None = None
    last_id: str | None = None


def _told(
    summary: str, words: str, shape: Shape, *errors: type[HeadraceError], query: tuple[Parameter, ...] = ()
) -> Told:
    parameters = (in_path("response_id", "The answer's id."), *query)
    return Told(
        summary=summary,
        answers=json_answer_of(words, shape),
        errors=(NotFound, *errors),
        parameters=parameters,
        tag="openai",
    )


_GET = _told(
    "An answer, again",
    "The answer.",
    ResponseObject,
    InvalidRequest,
    query=(Parameter(name="stream", words="What is kept is whole.", schema={"enum": ["false"]}),),
)
_DELETE = _told("Forget an answer", "It is forgotten.", DeletedResponse)
_ITEMS = _told(
    "What an answer answers",
    "The items, the last first.",
    ItemList,
    InvalidRequest,
    query=(Parameter(name="order", words="The last first, or the first.", schema={"enum": ["asc", "desc"]}),),
)
_CANCEL = Told(
    summary="Nothing runs in the background: whoever leaves ends its answer",
    answers={},
    errors=(InvalidRequest, NotFound),
    parameters=(in_path("response_id", "The answer's id."),),
    tag="openai",
)
_COMPACT = Told(summary="Conversations are not compacted here", answers={}, errors=(NotFound,), tag="openai")


class ResponsePages:
    """The routes; each tenant sees its own answers alone.

    Args:
        memory: where answers are kept.
        door: whose key opens what.
    """

    def __init__(self, memory: ResponseMemory, *, door: Callable[[], Door]) -> None:
        self._memory = memory
        self._door = door

    def routes(self) -> list[Page]:
        """All of them."""
        one = "/v1/responses/{response_id}"
        return [
            Page("/v1/responses/compact", self._compact, _COMPACT, method="POST"),
            Page(one, self._get, _GET),
            Page(one, self._delete, _DELETE, method="DELETE"),
            Page(f"{one}/input_items", self._items, _ITEMS),
            Page(f"{one}/cancel", self._cancel, _CANCEL, method="POST"),
        ]

    async def _get(self, request: Request) -> Response:
        if _asked(request, "stream", ("false", "true")) == "true":
            raise InvalidRequest("an answer that is kept is whole: it cannot be streamed again", param="stream")
        return json_answer(self._kept(request).response)

    async def _delete(self, request: Request) -> Response:
        name = request.path_params["response_id"]
        if not self._memory.forget(self._tenant(request), name):
            raise _no_such_response()
        return json_answer({"id": name, "object": "response.deleted", "deleted": True})

    async def _items(self, request: Request) -> Response:
        """The items that an answer answers, the last first, as OpenAI lists them."""
        items = self._kept(request).items
        named = [{"id": f"item_{at}", **msgspec.json.decode(item)} for at, item in enumerate(items)]
        if _asked(request, "order", ("desc", "asc")) != "asc":
            named.reverse()
        page = {"object": "list", "data": named, "has_more": False}
        first, last = page_ends([item["id"] for item in named])
        return json_answer({**page, **({"first_id": first, "last_id": last} if named else {})})

    async def _compact(self, _: Request) -> Response:
        raise NotFound("conversations are not compacted here: send the turns that count")

    async def _cancel(self, request: Request) -> Response:
        self._kept(request)
        raise InvalidRequest("only a response in the background can be cancelled: leave, and this one ends")

    def _kept(self, request: Request) -> KeptResponse:
        kept = self._memory.get(self._tenant(request), request.path_params["response_id"])
        if kept is None:
            raise _no_such_response()
        return kept

    def _tenant(self, request: Request) -> str:
        return self._door().identity(request.scope["headers"]).tenant


def _asked(request: Request, name: str, values: tuple[str, ...]) -> str:
    """What the query says, or the first of the ``values`` where it says nothing.

    Raises:
        InvalidRequest: it is none of them, or there several times.
    """
    said = request.query_params.getlist(name) or [values[0]]
    if len(said) > 1 or said[0] not in values:
        raise InvalidRequest(f"{name} must be there once, as one of {', '.join(values)}", param=name)
    return said[0]


def _no_such_response() -> NotFound:
    return NotFound("there is no such response here, or it is not kept any more", param="response_id")
