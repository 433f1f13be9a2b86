"""An upload: a form with a file in it, which goes to the database as it comes."""

from collections.abc import AsyncIterator

from gateway.batching.bounds import BatchBounds
from gateway.batching.file_store import WHOLE, FileStore, FileWriter, StoredFile, new_file_id
from gateway.batching.storage_room import StorageRoom, storage_room
from gateway.errors import BodyTooLarge, InvalidRequest
from gateway.ports import Clock
from gateway.stores.row_values import label
from gateway.wire.form_stream import FormReader, Part

PURPOSE = "batch"
SHORTEST_KEPT_S, LONGEST_KEPT_S = 3600, 2_592_000

_FIELDS = frozenset(("purpose", "expires_after[anchor]", "expires_after[seconds]"))
_MOST_FIELD_BYTES = 256
_MOST_NAME_CHARACTERS = 255


class Upload:
    """One upload of a tenant.

    Args:
        files: where it goes.
        tenant: whose it is.
        bounds: how much it may be.
        clock: when it was made.
    """

    def __init__(self, files: FileStore, tenant: str, *, bounds: BatchBounds, clock: Clock) -> None:
        self._files = files
        self._tenant = tenant
        self._bounds = bounds
        self._now_unix_s = clock.unix_s()
        self._fields: dict[str, bytes] = {}
        self._writer: FileWriter | None = None
        self._room: StorageRoom | None = None

    async def take(self, form: FormReader, pieces: AsyncIterator[bytes]) -> StoredFile:
        """The file, when all of it is here; nothing of it is left where it is refused.

        Raises:
            HeadraceError: it is too large, the tenant has no room for it, or it is no such form.
        """
        whole = False
        try:
            await self._read(form, pieces)
            file = await self._end()
            whole = True
        finally:
            if not whole and self._writer is not None:
                await self._writer.discard()
        return file

    async def _read(self, form: FormReader, pieces: AsyncIterator[bytes]) -> None:
        self._room = await storage_room(self._files, self._bounds, self._tenant, self._now_unix_s)
        self._room.check(0)
        part = Part("", None)
        async for piece in pieces:
            for found in form.feed(piece):
                if isinstance(found, Part):
                    part = found
                    await self._begin(part)
                elif part.name == "file":
                    await self._put(found)
                else:
                    self._note(part.name, found)
        if not form.complete:
            raise InvalidRequest("the form is cut short")

    async def _begin(self, part: Part) -> None:
        if part.name != "file":
            if part.name not in _FIELDS or part.name in self._fields:
                raise InvalidRequest("the form has a field that is not known, or one twice", param=part.name[:64])
            self._fields[part.name] = b""
            return
        if self._writer is not None:
            raise InvalidRequest("there must be one file", param="file")
        name = label(part.file_name or "file.jsonl", _MOST_NAME_CHARACTERS).replace("\0", "")
        self._writer = await self._files.begin(
            StoredFile(
                id=new_file_id(),
                tenant=self._tenant,
                name=name,
                purpose=PURPOSE,
                state=WHOLE,
                size_bytes=0,
                created_unix_s=self._now_unix_s,
                expires_unix_s=self._now_unix_s + self._bounds.kept_s,
            )
        )

    async def _put(self, data: bytes) -> None:
        writer, room = self._writer, self._room
        if writer is None or room is None:
            return
        if writer.size_bytes + len(data) > self._bounds.max_file_bytes:
            raise BodyTooLarge(f"a file may have {self._bounds.max_file_bytes} bytes")
        room.check(writer.size_bytes + len(data))
        await writer.put(data)

    def _note(self, name: str, data: bytes) -> None:
        self._fields[name] += data
        if len(self._fields[name]) > _MOST_FIELD_BYTES:
            raise InvalidRequest("the field is too long", param=name)

    async def _end(self) -> StoredFile:
        if self._fields.get("purpose") != PURPOSE.encode():
            raise InvalidRequest(f"files are kept here for batches: purpose must be `{PURPOSE}`", param="purpose")
        if self._writer is None:
            raise InvalidRequest("there is no file in the form", param="file")
        kept_s = min(self._kept_s(), self._bounds.kept_s)
        self._writer.keep_until(self._now_unix_s + kept_s)
        return await self._writer.end()

    def _kept_s(self) -> float:
        anchor = self._fields.get("expires_after[anchor]")
        said = self._fields.get("expires_after[seconds]")
        if anchor is None and said is None:
            return self._bounds.kept_s
        if anchor != b"created_at":
            raise InvalidRequest("expires_after.anchor must be `created_at`", param="expires_after.anchor")
        if not said or not said.isdigit() or not SHORTEST_KEPT_S <= int(said) <= LONGEST_KEPT_S:
            words = f"expires_after.seconds must be a whole number from {SHORTEST_KEPT_S} to {LONGEST_KEPT_S}"
            raise InvalidRequest(words, param="expires_after.seconds")
        return float(said)
