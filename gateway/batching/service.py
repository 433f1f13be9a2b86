"""Where batches are handed in and asked for, whichever API the client speaks."""

from collections.abc import Callable, Mapping

from starlette.requests import Request

from gateway.batching.batch import WINDOWS_S, Api, Batch, Record, Status, new_batch_id
from gateway.batching.batch_store import BatchStore
from gateway.batching.bounds import BatchBounds
from gateway.batching.file_store import FileStore
from gateway.batching.storage_room import storage_room
from gateway.door import Door
from gateway.errors import LimitExceeded
from gateway.exchange import RawHeaders
from gateway.ports import Clock
from gateway.task_hints import TASK_HEADERS, task_in_headers

_KEPT_HEADERS = TASK_HEADERS | {b"anthropic-version", b"anthropic-beta"}
_RETRY_S = 60.0


class BatchService:
    """What the pages of both APIs do alike; each tenant meets its own batches alone.

    Args:
        batches: where they are.
        files: what they are made from.
        bounds: how many there may be.
        door: whose key opens what.
        clock: when things happen.
        wake: tells who runs batches that something has happened to one.
    """

    def __init__(
        self,
        batches: BatchStore,
        files: FileStore,
        bounds: BatchBounds,
        *,
        door: Callable[[], Door],
        clock: Clock,
        wake: Callable[[str], None],
    ) -> None:
        self.batches = batches
        self.files = files
        self.bounds = bounds
        self.clock = clock
        self._door = door
        self._wake = wake

    def tenant(self, request: Request) -> str:
        """Whose the request is."""
        return self._door().identity(request.scope["headers"]).tenant

    def record(self, request: Request, endpoint: str, window: str) -> Record:
        """The record of a batch that is handed in: with the digest of its key, and the headers that hold for each line.

        Raises:
            InvalidRequest: a header names a task, and is none.
        """
        headers: RawHeaders = [header for header in request.scope["headers"] if header[0] in _KEPT_HEADERS]
        task_in_headers([header for header in headers if header[0] in TASK_HEADERS])
        return Record(
            endpoint=endpoint,
            window=window,
            key_sha256=self._door().digest(request.scope["headers"]),
            headers=tuple((name.decode("latin-1"), value.decode("latin-1")) for name, value in headers),
        )

    async def check_room(self, tenant: str) -> None:
        """Refuses one batch more than a tenant may have.

        Raises:
            LimitExceeded: as many are under way.
        """
        under_way = await self.batches.under_way(tenant)
        if under_way >= self.bounds.max_batches:
            raise LimitExceeded(f"{under_way} batches are under way already", retry_after_s=_RETRY_S)

    async def check_storage(self, tenant: str, size_bytes: int) -> None:
        """Refuses what a tenant has no room for.

        Raises:
            StorageFull: it has as many files, or with these bytes more than it may.
        """
        (await storage_room(self.files, self.bounds, tenant, self.clock.unix_s())).check(size_bytes)

    async def add(
        self, tenant: str, api: Api, record: Record, *, input_file_id: str, batch_id: str = "", ready: bool = False
    ) -> Batch:
        """Puts a batch in; one that is ``ready`` needs no look at its lines any more."""
        now_unix_s = self.clock.unix_s()
        status = Status.IN_PROGRESS if ready else Status.VALIDATING
        batch = Batch(
            id=batch_id or new_batch_id(api),
            tenant=tenant,
            api=api,
            status=status,
            input_file_id=input_file_id,
            created_unix_s=now_unix_s,
            expires_unix_s=now_unix_s + WINDOWS_S[record.window],
            cancel_unix_s=None,
            record=record,
        ).become(status, now_unix_s)
        await self.batches.add(batch)
        self._wake(batch.id)
        return batch

    async def get(self, request: Request, api: Api) -> Batch:
        """The batch that the path names.

        Raises:
            NotFound: the tenant has none of that name.
        """
        return await self.batches.get(self.tenant(request), api, request.path_params["batch_id"])

    async def cancel(self, batch: Batch) -> Batch:
        """The batch as it is when it was told to end."""
        await self.batches.cancel(batch, self.clock.unix_s())
        self._wake(batch.id)
        return await self.batches.get(batch.tenant, batch.api, batch.id)

    async def counts(self, batch: Batch) -> Mapping[str, int]:
        """How many of its lines have which outcome by now."""
        if batch.record.counts is not None or batch.status is Status.VALIDATING:
            return batch.record.counts or {}
        return await self.batches.counts(batch.id)
