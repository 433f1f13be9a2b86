"""The pages on which clients account for their tasks.

``POST /v1/tasks/{id}/outcome``, ``GET /v1/tasks/{id}`` and ``GET /v1/report``.
"""

from collections.abc import Callable
from typing import Literal

from msgspec import structs
from starlette.requests import Request
from starlette.responses import Response

from gateway.accounts.opening import Accounts
from gateway.accounts.outcome import KEY_PATTERN, MOST_BODY_BYTES, OUTCOME_SCHEMA, read_key, read_outcome
from gateway.accounts.report import Report
from gateway.accounts.report_query import QUERY_SCHEMAS, read_report_query
from gateway.accounts.report_text import as_csv, as_json
from gateway.accounts.task_account import KnownOutcome, TaskAccount
from gateway.door import Door
from gateway.errors import (
    BodyTooLarge,
    InvalidRequest,
    LimitExceeded,
    NotFound,
    Overloaded,
    RequestTimeout,
    UnsupportedMediaType,
)
from gateway.openapi.page import Page
from gateway.openapi.told import JSON, Answer, Parameter, Told, in_path, json_answer_of
from gateway.pages.json_answer import json_answer
from gateway.pages.request_body import body_of
from gateway.ports import Clock
from gateway.rules.tenancy import Identity
from gateway.task_hints import MOST_ID_CHARACTERS, NAME, checked_name

_ID = in_path("id", "The task's name.", pattern=f"^{NAME}$", maxLength=MOST_ID_CHARACTERS)
_LIMITED = (LimitExceeded, Overloaded)


class TaskOutcome(KnownOutcome, frozen=True, kw_only=True):
    """The outcome that stands, and what became of this report."""

    object: Literal["task.outcome"]
    task: str
    superseded: bool
    repeated: bool


_OUTCOME = Told(
    summary="Tell how a task ended",
    answers=json_answer_of("The outcome that stands now.", TaskOutcome),
    errors=(InvalidRequest, NotFound, RequestTimeout, BodyTooLarge, UnsupportedMediaType, *_LIMITED),
    parameters=(
        _ID,
        Parameter(
            name="idempotency-key",
            words="A report that comes again with it changes nothing.",
            where="header",
            schema={"type": "string", "pattern": KEY_PATTERN},
        ),
    ),
    body=OUTCOME_SCHEMA,
    tag="accounts",
)
_TASK = Told(
    summary="What a task has cost",
    answers=json_answer_of("Its account.", TaskAccount),
    errors=(InvalidRequest, NotFound, Overloaded),
    parameters=(_ID,),
    tag="accounts",
)
_REPORT = Told(
    summary="What requests and tasks cost, took and came to",
    answers={200: Answer(words="The report.", shapes={JSON: Report, "text/csv": {"type": "string"}})},
    errors=(InvalidRequest, NotFound, Overloaded),
    parameters=tuple(
        Parameter(name=name, words=words, schema=schema) for name, (words, schema) in QUERY_SCHEMAS.items()
    ),
    tag="accounts",
)


class AccountPages:
    """Each page knows its caller by the key, as inference does: a tenant meets its own tasks alone.

    ``accounts`` are ``None`` where the gateway keeps no ledger.
    """

    def __init__(
        self, accounts: Accounts | None, *, door: Callable[[], Door], clock: Clock, body_timeout_s: float
    ) -> None:
        self._kept = accounts
        self._door = door
        self._clock = clock
        self._body_timeout_s = body_timeout_s

    def routes(self) -> list[Page]:
        """The routes, for the site."""
        return [
            Page("/v1/tasks/{id}/outcome", self._outcome, _OUTCOME, method="POST"),
            Page("/v1/tasks/{id}", self._task, _TASK),
            Page("/v1/report", self._report, _REPORT),
        ]

    async def _outcome(self, request: Request) -> Response:
        book, identity, task = self._accounts.book, self._identity(request), _task_id(request)
        key = read_key(request.headers.getlist("idempotency-key"))
        most_s = self._body_timeout_s
        body = await body_of(request, most_bytes=MOST_BODY_BYTES, silence_s=most_s, longest_s=most_s)
        outcome = read_outcome(body, now_unix_s=self._clock.unix_s())
        kept = await book.report(identity.tenant, task, outcome, key)
        answer = {"object": "task.outcome", "task": task, "superseded": kept.superseded, "repeated": kept.repeated}
        return json_answer(answer | structs.asdict(kept.stands))

    async def _task(self, request: Request) -> Response:
        identity = self._identity(request)
        return json_answer(await self._accounts.book.account(identity.tenant, _task_id(request)))

    async def _report(self, request: Request) -> Response:
        """A tenant sees its own figures alone; where nobody has a key, everybody sees all."""
        tenant = self._identity(request).tenant if self._door().locked else None
        by, selection, form = read_report_query(request.query_params.multi_items(), tenant=tenant)
        report = await self._accounts.desk.report(selection, by)
        if form == "csv":
            return Response(as_csv(report), media_type="text/csv")
        return Response(as_json(report), media_type="application/json")

    @property
    def _accounts(self) -> Accounts:
        if self._kept is None:
            raise NotFound("this gateway keeps no ledger, and so no accounts")
        return self._kept

    def _identity(self, request: Request) -> Identity:
        return self._door().identity(request.scope["headers"])


def _task_id(request: Request) -> str:
    return checked_name(request.path_params["id"].encode(), "id", MOST_ID_CHARACTERS)
