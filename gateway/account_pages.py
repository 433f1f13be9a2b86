"""The pages on which clients account for their tasks: ``POST /v1/tasks/{id}/outcome`` and ``GET /v1/tasks/{id}``."""

import asyncio
from collections.abc import Callable
from typing import Any

import msgspec
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import Route

from gateway.accounts.outcome import MOST_BODY_BYTES, read_key, read_outcome
from gateway.accounts.task_book import TaskBook
from gateway.content_coding import decoder
from gateway.door import Door
from gateway.errors import ClientGone, NotFound, RequestTimeout
from gateway.ports import Clock
from gateway.rules.tenancy import Identity
from gateway.task_hints import MOST_ID_CHARACTERS, checked_name

_ENCODER = msgspec.json.Encoder(decimal_format="number")


class AccountPages:
    """Each page knows its caller by the key, as inference does: a tenant meets its own tasks alone.

    ``book`` is ``None`` where the gateway keeps no ledger.
    """

    def __init__(self, book: TaskBook | None, *, door: Callable[[], Door], clock: Clock, body_timeout_s: float) -> None:
        self._book = book
        self._door = door
        self._clock = clock
        self._body_timeout_s = body_timeout_s

    def routes(self) -> list[Route]:
        """The routes, for the site."""
        return [
            Route("/v1/tasks/{id}/outcome", self._outcome, methods=["POST"]),
            Route("/v1/tasks/{id}", self._task),
        ]

    async def _outcome(self, request: Request) -> Response:
        book, identity, task = self._kept_book(), self._identity(request), _task_id(request)
        key = read_key(request.headers.getlist("idempotency-key"))
        outcome = read_outcome(await self._body(request), now_unix_s=self._clock.unix_s())
        kept = await book.report(identity.tenant, task, outcome, key)
        answer = {"object": "task.outcome", "task": task, "superseded": kept.superseded, "repeated": kept.repeated}
        return _json(answer | msgspec.structs.asdict(kept.stands))

    async def _task(self, request: Request) -> Response:
        book, identity = self._kept_book(), self._identity(request)
        return _json(await book.account(identity.tenant, _task_id(request)))

    def _kept_book(self) -> TaskBook:
        if self._book is None:
            raise NotFound("this gateway keeps no ledger, and so no tasks")
        return self._book

    def _identity(self, request: Request) -> Identity:
        return self._door().identity(request.scope["headers"])

    async def _body(self, request: Request) -> bytes:
        inflater = decoder(",".join(request.headers.getlist("content-encoding")), MOST_BODY_BYTES)
        try:
            async with asyncio.timeout(self._body_timeout_s):
                async for piece in request.stream():
                    inflater.feed(piece)
        except TimeoutError:
            raise RequestTimeout(f"the body did not arrive within {self._body_timeout_s:g} s") from None
        except ClientDisconnect:
            raise ClientGone("the client hung up while sending its body") from None
        return inflater.finish()


def _task_id(request: Request) -> str:
    return checked_name(request.path_params["id"].encode(), "id", MOST_ID_CHARACTERS)


def _json(content: Any) -> Response:
    return Response(_ENCODER.encode(content), media_type="application/json")
