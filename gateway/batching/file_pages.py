"""``/v1/files``: what clients leave here for their batches, and what comes out of them."""

from collections import Counter
from collections.abc import Callable
from typing import Annotated, Any, Literal

from msgspec import Meta, Struct
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.types import Send

from gateway.batching.bounds import BatchBounds
from gateway.batching.file_store import FileStore, StorageFull, StoredFile
from gateway.batching.incoming import number_in, reached
from gateway.batching.upload import LONGEST_KEPT_S, PURPOSE, SHORTEST_KEPT_S, Upload
from gateway.door import Door
from gateway.errors import (
    BodyTooLarge,
    HeadraceError,
    InvalidRequest,
    NotFound,
    Overloaded,
    RequestTimeout,
    UnsupportedMediaType,
)
from gateway.openapi.page import Page
from gateway.openapi.told import Answer, Parameter, Shape, Told, in_path, json_answer_of
from gateway.pages.json_answer import json_answer
from gateway.pages.request_body import pieces_of
from gateway.ports import Clock
from gateway.stores.ledger_lost import LedgerLost
from gateway.wire.form_stream import FormReader
from gateway.wire.page_ends import page_ends

MOST_UPLOADS, MOST_UPLOADS_OF_ALL = 4, 64
"""At the same time, in one process: of one tenant, and of all of them."""

_FORM_BYTES = 64 * 1024
_MOST_LISTED = 10_000
_BINARY = "application/octet-stream"


class FileObject(Struct, kw_only=True):
    """A file as OpenAI tells it; times are Unix seconds."""

    id: str
    bytes: Annotated[int, Meta(ge=0)]
    created_at: int
    expires_at: int
    filename: str
    purpose: str
    object: Literal["file"] = "file"
    status: Literal["processed"] = "processed"
    status_details: None = None


class FileList(Struct, kw_only=True):
    """A page of files."""

    data: list[FileObject]
    has_more: bool
    first_id: str | None
    last_id: str | None
    object: Literal["list"] = "list"


class FileDeleted(Struct, kw_only=True):
    """It is not here any more."""

    id: str
    object: Literal["file"] = "file"
    deleted: Literal[True] = True


_FORM: dict[str, Any] = {
    "type": "object",
    "properties": {
        "file": {"type": "string", "format": "binary"},
        "purpose": {"const": PURPOSE},
        "expires_after[anchor]": {"const": "created_at"},
        "expires_after[seconds]": {"type": "integer", "minimum": SHORTEST_KEPT_S, "maximum": LONGEST_KEPT_S},
    },
    "required": ["file", "purpose"],
    "additionalProperties": False,
    "dependentRequired": {
        "expires_after[anchor]": ["expires_after[seconds]"],
        "expires_after[seconds]": ["expires_after[anchor]"],
    },
}
_QUERY = (
    Parameter(name="after", words="Files after this one."),
    Parameter(
        name="limit", words="At most so many.", schema={"type": "integer", "minimum": 1, "maximum": _MOST_LISTED}
    ),
    Parameter(name="order", words="By when they were made; the newest first.", schema={"enum": ["desc", "asc"]}),
    Parameter(name="purpose", words="Those alone."),
)


def _told(summary: str, words: str, shape: Shape, *errors: type[HeadraceError], one: bool = True) -> Told:
    where = (in_path("file_id", "The file's id."),) if one else ()
    known: tuple[type[HeadraceError], ...] = (NotFound, Overloaded, *errors)
    return Told(summary=summary, answers=json_answer_of(words, shape), errors=known, parameters=where, tag="openai")


class FilePages:
    """The routes; each tenant meets its own files alone.

    Args:
        files: where they are.
        bounds: how many, and how large.
        door: whose key opens what.
        clock: when things were made.
    """

    def __init__(self, files: FileStore, bounds: BatchBounds, *, door: Callable[[], Door], clock: Clock) -> None:
        self._files = files
        self._bounds = bounds
        self._door = door
        self._clock = clock
        self._uploads: Counter[str] = Counter()

    def routes(self) -> list[Page]:
        """All of them."""
        upload = Told(
            summary="Leave a file for a batch",
            answers=json_answer_of("The file.", FileObject),
            errors=(InvalidRequest, StorageFull, RequestTimeout, BodyTooLarge, UnsupportedMediaType, Overloaded),
            body=_FORM,
            body_media_type="multipart/form-data",
            tag="openai",
        )
        listing = Told(
            summary="The files that are here",
            answers=json_answer_of("A page of them.", FileList),
            errors=(InvalidRequest, NotFound, Overloaded),
            parameters=_QUERY,
            tag="openai",
        )
        content = Told(
            summary="What is in a file",
            answers={200: Answer(words="Its bytes.", shapes={_BINARY: {"type": "string", "format": "binary"}})},
            errors=(NotFound, Overloaded),
            parameters=(in_path("file_id", "The file's id."),),
            tag="openai",
        )
        one = "/v1/files/{file_id}"
        return [
            Page("/v1/files", self._upload, upload, method="POST"),
            Page("/v1/files", self._list, listing),
            Page(one, self._get, _told("What is known of a file", "The file.", FileObject)),
            Page(
                one, self._delete, _told("Delete a file", "It is gone.", FileDeleted, InvalidRequest), method="DELETE"
            ),
            Page(f"{one}/content", self._content, content),
        ]

    async def _upload(self, request: Request) -> Response:
        tenant = self._tenant(request)
        form = FormReader(request.headers.get("content-type", ""))
        if request.headers.get("content-encoding", "identity") != "identity":
            raise UnsupportedMediaType("a form is taken as it is, without a content coding")
        if self._uploads[tenant] >= MOST_UPLOADS or self._uploads.total() >= MOST_UPLOADS_OF_ALL:
            raise Overloaded("enough files are being uploaded now", retry_after_s=5.0)
        self._uploads[tenant] += 1
        try:
            most_bytes = self._bounds.max_file_bytes + _FORM_BYTES
            pieces = pieces_of(request, most_bytes=most_bytes, silence_s=self._bounds.silence_s)
            with reached():
                upload = Upload(self._files, tenant, bounds=self._bounds, clock=self._clock)
                return json_answer(_shown(await upload.take(form, pieces)))
        finally:
            self._uploads -= Counter({tenant: 1})  # who has none is not kept

    async def _list(self, request: Request) -> Response:
        most = number_in(request, "limit", usual=_MOST_LISTED, most=_MOST_LISTED)
        order = request.query_params.get("order", "desc")
        if order not in {"asc", "desc"}:
            raise InvalidRequest("order must be asc or desc", param="order")
        tenant, now_unix_s = self._tenant(request), self._clock.unix_s()
        cursor, purpose = request.query_params.get("after", ""), request.query_params.get("purpose", "")
        with reached():
            after = await self._files.get(tenant, cursor, now_unix_s) if cursor else None
            found = await self._files.page(
                tenant, purpose=purpose, order=order, after=after, most=most + 1, now_unix_s=now_unix_s
            )
        page = [_shown(file) for file in found[:most]]
        first, last = page_ends([file.id for file in page])
        return json_answer(FileList(data=page, has_more=len(found) > most, first_id=first, last_id=last))

    async def _get(self, request: Request) -> Response:
        return json_answer(_shown(await self._file(request)))

    async def _delete(self, request: Request) -> Response:
        file = await self._file(request)
        with reached():
            user = await self._files.used_by(file.id)
            if user is not None:
                raise InvalidRequest(f"the file is in use by {user}: cancel that first", param="file_id")
            await self._files.delete(file.id)
        return json_answer(FileDeleted(id=file.id))

    async def _content(self, request: Request) -> Response:
        return stream_of(self._files, await self._file(request), media_type=_BINARY)

    async def _file(self, request: Request) -> StoredFile:
        with reached():
            return await self._files.get(self._tenant(request), request.path_params["file_id"], self._clock.unix_s())

    def _tenant(self, request: Request) -> str:
        return self._door().identity(request.scope["headers"]).tenant


def stream_of(files: FileStore, file: StoredFile, *, media_type: str) -> Response:
    """An answer with the file's bytes, as the client takes them."""
    headers = {"content-length": str(file.size_bytes), "cache-control": "private, no-store"}
    return _Download(files.pieces(file.id), media_type=media_type, headers=headers)


class _Download(StreamingResponse):
    """Where the file is deleted meanwhile, or its database goes away, the connection ends before the bytes do."""

    async def stream_response(self, send: Send) -> None:
        """Sends them, and no end where some are missing: the server closes such a connection, and the client knows."""
        left_bytes = int(self.headers["content-length"])
        await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
        try:
            async for piece in self.body_iterator:
                left_bytes -= len(piece)
                await send({"type": "http.response.body", "body": piece, "more_body": True})
        except LedgerLost:
            return
        if not left_bytes:
            await send({"type": "http.response.body", "body": b"", "more_body": False})


def _shown(file: StoredFile) -> FileObject:
    return FileObject(
        id=file.id,
        bytes=file.size_bytes,
        created_at=int(file.created_unix_s),
        expires_at=int(file.expires_unix_s),
        filename=file.name,
        purpose=file.purpose,
    )
