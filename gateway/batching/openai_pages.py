"""``/v1/batches``: requests that are answered when nobody else wants the capacity."""

from msgspec.structs import replace
from starlette.requests import Request
from starlette.responses import Response

from gateway.batching.batch import Api, Batch, Status
from gateway.batching.incoming import number_in, reached
from gateway.batching.openai_batch import BatchList, BatchObject, NewBatch, read_new_batch, shown
from gateway.batching.service import BatchService
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
from gateway.openapi.told import Parameter, Told, in_path, json_answer_of
from gateway.pages.json_answer import json_answer
from gateway.pages.request_body import body_of
from gateway.wire.page_ends import page_ends

_MOST_BODY_BYTES = 64 * 1024
_USUAL_LISTED, _MOST_LISTED = 20, 100

_CREATE = Told(
    summary="Have requests answered later",
    answers=json_answer_of("The batch.", BatchObject),
    errors=(InvalidRequest, NotFound, RequestTimeout, BodyTooLarge, UnsupportedMediaType, LimitExceeded, Overloaded),
    body=NewBatch,
    tag="openai",
)
_LIST = Told(
    summary="The batches that there are",
    answers=json_answer_of("A page of them, the newest first.", BatchList),
    errors=(InvalidRequest, NotFound, Overloaded),
    parameters=(
        Parameter(name="after", words="Batches after this one."),
        Parameter(
            name="limit", words="At most so many.", schema={"type": "integer", "minimum": 1, "maximum": _MOST_LISTED}
        ),
    ),
    tag="openai",
)
_ONE = (in_path("batch_id", "The batch's id."),)
_GET = Told(
    summary="How far a batch is",
    answers=json_answer_of("The batch.", BatchObject),
    errors=(NotFound, Overloaded),
    parameters=_ONE,
    tag="openai",
)
_CANCEL = Told(
    summary="End a batch: what was answered by then is in its files",
    answers=json_answer_of("The batch.", BatchObject),
    errors=(InvalidRequest, NotFound, Overloaded),
    parameters=_ONE,
    tag="openai",
)


class OpenAIBatchPages:
    """The routes."""

    def __init__(self, service: BatchService) -> None:
        self._service = service

    def routes(self) -> list[Page]:
        """All of them."""
        one = "/v1/batches/{batch_id}"
        return [
            Page("/v1/batches", self._create, _CREATE, method="POST"),
            Page("/v1/batches", self._list, _LIST),
            Page(one, self._get, _GET),
            Page(f"{one}/cancel", self._cancel, _CANCEL, method="POST"),
        ]

    async def _create(self, request: Request) -> Response:
        service, tenant = self._service, self._service.tenant(request)
        body = await body_of(request, most_bytes=_MOST_BODY_BYTES, silence_s=service.bounds.silence_s)
        asked = read_new_batch(body)
        record = service.record(request, asked.endpoint, asked.completion_window)
        kept = asked.output_expires_after
        record = replace(record, metadata=asked.metadata, output_kept_s=None if kept is None else float(kept.seconds))
        with reached():
            await service.files.get(tenant, asked.input_file_id, service.clock.unix_s())
            await service.check_room(tenant)
            batch = await service.add(tenant, Api.OPENAI, record, input_file_id=asked.input_file_id)
            return json_answer(await self._shown(batch))

    async def _list(self, request: Request) -> Response:
        most = number_in(request, "limit", usual=_USUAL_LISTED, most=_MOST_LISTED)
        tenant, after = self._service.tenant(request), request.query_params.get("after", "")
        with reached():
            than = await self._service.batches.get(tenant, Api.OPENAI, after) if after else None
            found = await self._service.batches.older(tenant, Api.OPENAI, than, most + 1)
            page = [await self._shown(batch) for batch in found[:most]]
        first, last = page_ends([batch.id for batch in page])
        return json_answer(BatchList(data=page, has_more=len(found) > most, first_id=first, last_id=last))

    async def _get(self, request: Request) -> Response:
        with reached():
            return json_answer(await self._shown(await self._service.get(request, Api.OPENAI)))

    async def _cancel(self, request: Request) -> Response:
        with reached():
            batch = await self._service.get(request, Api.OPENAI)
            if batch.over and batch.status is not Status.CANCELLED:
                raise InvalidRequest(f"a batch that is {batch.status.value} cannot be cancelled", param="batch_id")
            return json_answer(await self._shown(await self._service.cancel(batch)))

    async def _shown(self, batch: Batch) -> BatchObject:
        return shown(batch, await self._service.counts(batch))
