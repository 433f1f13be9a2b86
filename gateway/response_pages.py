"""Answers of OpenAI's Responses, asked for again: ``/v1/responses/{id}``, what it answered, and its end."""

from collections.abc import Callable

import msgspec
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from gateway.door import Door
from gateway.errors import InvalidRequest, NotFound
from gateway.stores.responses import KeptResponse, ResponseMemory


class ResponsePages:
    """The routes; each tenant sees its own answers alone.

    Args:
        memory: where answers are kept.
        door: whose key opens what.
    """

    def __init__(self, memory: ResponseMemory, *, door: Callable[[], Door]) -> None:
        self._memory = memory
        self._door = door

    def routes(self) -> list[Route]:
        """All of them."""
        one = "/v1/responses/{response_id}"
        return [
            Route("/v1/responses/compact", self._compact, methods=["POST"]),
            Route(one, self._get),
            Route(one, self._delete, methods=["DELETE"]),
            Route(f"{one}/input_items", self._items),
            Route(f"{one}/cancel", self._cancel, methods=["POST"]),
        ]

    async def _get(self, request: Request) -> Response:
        if request.query_params.get("stream") == "true":
            raise InvalidRequest("an answer that is kept is whole: it cannot be streamed again", param="stream")
        return _json(bytes(self._kept(request).response))

    async def _delete(self, request: Request) -> Response:
        name = request.path_params["response_id"]
        if not self._memory.forget(self._tenant(request), name):
            raise _no_such_response()
        return _json(msgspec.json.encode({"id": name, "object": "response.deleted", "deleted": True}))

    async def _items(self, request: Request) -> Response:
        """The items that an answer answers, the last first, as OpenAI lists them."""
        items = self._kept(request).items
        named = [{"id": f"item_{at}", **msgspec.json.decode(item)} for at, item in enumerate(items)]
        if request.query_params.get("order") != "asc":
            named.reverse()
        page = {"object": "list", "data": named, "has_more": False}
        ends = {"first_id": named[0]["id"], "last_id": named[-1]["id"]} if named else {}
        return _json(msgspec.json.encode({**page, **ends}))

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


def _no_such_response() -> NotFound:
    return NotFound("there is no such response here, or it is not kept any more", param="response_id")


def _json(body: bytes) -> Response:
    return Response(body, media_type="application/json")
