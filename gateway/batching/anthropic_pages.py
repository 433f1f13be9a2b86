"""``/v1/messages/batches``: Anthropic's Message Batches, by the same machinery as OpenAI's."""

from msgspec.structs import replace
from starlette.requests import Request
from starlette.responses import Response

from gateway.batching.anthropic_batch import (
    NEW_MESSAGE_BATCH,
    DeletedMessageBatch,
    MessageBatch,
    MessageBatchPage,
    read_new_requests,
    shown,
)
from gateway.batching.batch import MESSAGES, Api, Batch, new_batch_id
from gateway.batching.file_pages import stream_of
from gateway.batching.file_store import HIDDEN, StorageFull, StoredFile, new_file_id
from gateway.batching.incoming import number_in, reached
from gateway.batching.service import BatchService
from gateway.batching.upload import PURPOSE
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
from gateway.openapi.told import Answer, Envelope, Parameter, Told, in_path, json_answer_of
from gateway.pages.json_answer import json_answer
from gateway.pages.request_body import body_of
from gateway.wire.page_ends import page_ends

_WINDOW = "24h"
_USUAL_LISTED, _MOST_LISTED = 20, 1000
_LINES = "application/x-jsonl"
_TAG = "anthropic"
_ENVELOPE: Envelope = "anthropic"
_ONE = (in_path("batch_id", "The batch's id."),)


_CREATE = Told(
    summary="Have messages answered later",
    answers=json_answer_of("The batch.", MessageBatch),
    errors=(InvalidRequest, StorageFull, RequestTimeout, BodyTooLarge, UnsupportedMediaType, LimitExceeded, Overloaded),
    body=NEW_MESSAGE_BATCH,
    tag=_TAG,
    envelope=_ENVELOPE,
)
_LIST = Told(
    summary="The batches of messages that there are",
    answers=json_answer_of("A page of them, the newest first.", MessageBatchPage),
    errors=(InvalidRequest, NotFound, Overloaded),
    parameters=(
        Parameter(name="after_id", words="Batches after this one."),
        Parameter(name="before_id", words="Batches before this one."),
        Parameter(
            name="limit", words="At most so many.", schema={"type": "integer", "minimum": 1, "maximum": _MOST_LISTED}
        ),
    ),
    tag=_TAG,
    envelope=_ENVELOPE,
)
_GET = Told(
    summary="How far a batch of messages is",
    answers=json_answer_of("The batch.", MessageBatch),
    errors=(NotFound, Overloaded),
    parameters=_ONE,
    tag=_TAG,
    envelope=_ENVELOPE,
)
_CANCEL = Told(
    summary="End a batch of messages",
    answers=json_answer_of("The batch.", MessageBatch),
    errors=(NotFound, Overloaded),
    parameters=_ONE,
    tag=_TAG,
    envelope=_ENVELOPE,
)
_DELETE = Told(
    summary="Delete a batch of messages that has ended",
    answers=json_answer_of("It is gone.", DeletedMessageBatch),
    errors=(InvalidRequest, NotFound, Overloaded),
    parameters=_ONE,
    tag=_TAG,
    envelope=_ENVELOPE,
)
_RESULTS = Told(
    summary="What came of a batch of messages, a line each",
    answers={200: Answer(words="The results.", shapes={_LINES: {"type": "string"}})},
    errors=(NotFound, Overloaded),
    parameters=_ONE,
    tag=_TAG,
    envelope=_ENVELOPE,
)


class AnthropicBatchPages:
    """The routes.

    Args:
        service: what is done for clients of any API.
        max_body_bytes: of a batch that is handed in, which is in memory as a whole for a moment.
    """

    def __init__(self, service: BatchService, *, max_body_bytes: int) -> None:
        self._service = service
        self._max_body_bytes = max_body_bytes

    def routes(self) -> list[Page]:
        """All of them."""
        one = f"{MESSAGES}/batches/{{batch_id}}"
        return [
            Page(f"{MESSAGES}/batches", self._create, _CREATE, method="POST"),
            Page(f"{MESSAGES}/batches", self._list, _LIST),
            Page(one, self._get, _GET),
            Page(one, self._delete, _DELETE, method="DELETE"),
            Page(f"{one}/cancel", self._cancel, _CANCEL, method="POST"),
            Page(f"{one}/results", self._results, _RESULTS),
        ]

    async def _create(self, request: Request) -> Response:
        service, tenant = self._service, self._service.tenant(request)
        record = service.record(request, MESSAGES, _WINDOW)
        most_bytes = min(self._max_body_bytes, service.bounds.max_file_bytes)
        body = await body_of(request, most_bytes=most_bytes, silence_s=service.bounds.silence_s)
        lines = list(read_new_requests(body, max_lines=service.bounds.max_lines))
        del body
        with reached():
            await service.check_room(tenant)
            batch_id = new_batch_id(Api.ANTHROPIC)
            file_id = await self._keep(tenant, batch_id, lines)
            record = replace(record, total=len(lines))
            batch = await service.add(
                tenant, Api.ANTHROPIC, record, input_file_id=file_id, batch_id=batch_id, ready=True
            )
        return self._answer(request, batch)

    async def _keep(self, tenant: str, batch_id: str, lines: list[bytes]) -> str:
        """Puts the requests into a file that only the batch knows; its name."""
        service, now_unix_s = self._service, self._service.clock.unix_s()
        await service.check_storage(tenant, sum(len(line) + 1 for line in lines))
        file = StoredFile(
            id=new_file_id(),
            tenant=tenant,
            name=f"{batch_id}_input.jsonl",
            purpose=PURPOSE,
            state=HIDDEN,
            size_bytes=0,
            created_unix_s=now_unix_s,
            expires_unix_s=now_unix_s + service.bounds.kept_s,
        )
        writer = await service.files.begin(file)
        for line in lines:
            await writer.put(line + b"\n")
        return (await writer.end(HIDDEN)).id

    async def _list(self, request: Request) -> Response:
        most = number_in(request, "limit", usual=_USUAL_LISTED, most=_MOST_LISTED)
        tenant, batches = self._service.tenant(request), self._service.batches
        after, before = request.query_params.get("after_id", ""), request.query_params.get("before_id", "")
        if after and before:
            raise InvalidRequest("either after_id or before_id, not both", param="before_id")
        with reached():
            if before:
                than = await batches.get(tenant, Api.ANTHROPIC, before)
                found = await batches.newer(tenant, Api.ANTHROPIC, than, most + 1)
                page = found[-most:]
            else:
                older_than = await batches.get(tenant, Api.ANTHROPIC, after) if after else None
                found = await batches.older(tenant, Api.ANTHROPIC, older_than, most + 1)
                page = found[:most]
        told = [shown(batch, _site(request)) for batch in page]
        first, last = page_ends([batch.id for batch in page])
        return json_answer(MessageBatchPage(data=told, has_more=len(found) > most, first_id=first, last_id=last))

    async def _get(self, request: Request) -> Response:
        with reached():
            return self._answer(request, await self._service.get(request, Api.ANTHROPIC))

    async def _cancel(self, request: Request) -> Response:
        with reached():
            batch = await self._service.get(request, Api.ANTHROPIC)
            return self._answer(request, await self._service.cancel(batch))

    async def _delete(self, request: Request) -> Response:
        with reached():
            batch = await self._service.get(request, Api.ANTHROPIC)
            if not batch.over:
                raise InvalidRequest("the batch has not ended: cancel it first", param="batch_id")
            for file_id in filter(None, (batch.input_file_id, batch.record.output_file_id)):
                await self._service.files.delete(file_id)
            await self._service.batches.delete(batch)
        return json_answer(DeletedMessageBatch(id=batch.id))

    async def _results(self, request: Request) -> Response:
        with reached():
            batch = await self._service.get(request, Api.ANTHROPIC)
            if batch.record.output_file_id is None:
                raise NotFound("there are no results before the batch has ended", param="batch_id")
            now_unix_s = self._service.clock.unix_s()
            file = await self._service.files.get(batch.tenant, batch.record.output_file_id, now_unix_s, state=HIDDEN)
        return stream_of(self._service.files, file, media_type=_LINES)

    @staticmethod
    def _answer(request: Request, batch: Batch) -> Response:
        return json_answer(shown(batch, _site(request)))


def _site(request: Request) -> str:
    """The gateway's address as the client knows it, with the scheme that a proxy in front says."""
    said = request.headers.get("x-forwarded-proto", "")
    return f"{said if said in {'http', 'https'} else request.url.scheme}://{request.url.netloc}"
