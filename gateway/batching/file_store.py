"""Files that clients leave here: rows of the database, each file in pieces, so that none is in memory as a whole."""

import secrets
from collections.abc import AsyncIterator, Sequence

from msgspec import Struct
from msgspec.structs import asdict, replace

from gateway.batching.batch_store import UNDER_WAY
from gateway.errors import InvalidRequest, NotFound
from gateway.stores.row_values import Value
from gateway.stores.tables import LedgerTables, Statement

PIECE_BYTES = 256 * 1024

UPLOADING, WHOLE, HIDDEN = "uploading", "whole", "hidden"
"""The states of a file: not all of it is here; it is; and it is, but only a batch knows of it."""

_COLUMNS = "id, tenant, name, purpose, state, size_bytes, created_unix_s, expires_unix_s"
_INSERT = f"""
    INSERT INTO files ({_COLUMNS})
    VALUES (:id, :tenant, :name, :purpose, :state, :size_bytes, :created_unix_s, :expires_unix_s)
"""  # noqa: S608  # our own names, here and below
_PIECE = "INSERT INTO file_pieces (file_id, n, data) VALUES (:id, :n, :data)"
_END = """
    UPDATE files SET state = :state, size_bytes = :size_bytes, expires_unix_s = :expires_unix_s
    WHERE id = :id AND state = 'uploading'
"""
_GET = f"SELECT {_COLUMNS} FROM files WHERE id = :id AND tenant = :tenant AND state = :state"  # noqa: S608
_TOTALS = """
    SELECT count(*), CAST(coalesce(sum(size_bytes), 0) AS BIGINT) FROM files
    WHERE tenant = :tenant AND expires_unix_s > :now_unix_s
"""
_READ = "SELECT data FROM file_pieces WHERE file_id = :id AND n = :n"
_DELETE = ("DELETE FROM file_pieces WHERE file_id = :id", "DELETE FROM files WHERE id = :id")
_PAST = f"""
    SELECT id FROM files WHERE expires_unix_s <= :now_unix_s AND NOT EXISTS (
        SELECT 1 FROM batches
        WHERE input_file_id = files.id AND {UNDER_WAY}
    ) ORDER BY expires_unix_s LIMIT 20
"""  # noqa: S608
_IN_USE = f"SELECT id FROM batches WHERE input_file_id = :id AND {UNDER_WAY} LIMIT 1"  # noqa: S608
_PAGE = f"""
    SELECT {_COLUMNS} FROM files
    WHERE tenant = :tenant AND state = 'whole' AND expires_unix_s > :now_unix_s
        AND (CAST(:purpose AS TEXT) = '' OR purpose = CAST(:purpose AS TEXT))
        AND (created_unix_s, id) {{beyond}} (:after_unix_s, :after_id)
    ORDER BY created_unix_s {{order}}, id {{order}} LIMIT :most
"""  # noqa: S608
_PAGES = {"desc": _PAGE.format(beyond="<", order="DESC"), "asc": _PAGE.format(beyond=">", order="ASC")}
_FROM = {"desc": (1e15, ""), "asc": (-1.0, "")}

UPLOAD_S = 3600.0
"""The longest that an upload takes; what is left of one after that is taken away."""


class StorageFull(InvalidRequest):
    """The tenant has as many files here as it may, or as many bytes."""

    code = "file_storage_limit_exceeded"


class StoredFile(Struct, frozen=True, kw_only=True):
    """What is known of a file."""

    id: str
    tenant: str
    name: str
    purpose: str
    state: str
    size_bytes: int
    created_unix_s: float
    expires_unix_s: float


class FileStore:
    """The files of all tenants. Whoever asks names the tenant, and meets its own files alone.

    Raises:
        LedgerLost: from all of its methods, where the database is away.
    """

    def __init__(self, tables: LedgerTables) -> None:
        self._tables = tables

    async def totals(self, tenant: str, now_unix_s: float) -> tuple[int, int]:
        """How many files the tenant has, and their bytes."""
        ((files, size_bytes),) = await self._tables.rows(_TOTALS, tenant=tenant, now_unix_s=now_unix_s)
        return int(files), int(size_bytes)

    async def begin(self, file: StoredFile) -> "FileWriter":
        """Begins a file, over one of that name which was begun before; nobody sees it before its end."""
        begun: dict[str, Value] = {
            "state": UPLOADING,
            "size_bytes": 0,
            "expires_unix_s": file.created_unix_s + UPLOAD_S,
        }
        insert: Statement = (_INSERT, {**asdict(file), **begun})
        await self._tables.write(*_deleting(file.id), insert)
        return FileWriter(self._tables, file)

    async def get(self, tenant: str, file_id: str, now_unix_s: float, *, state: str = WHOLE) -> StoredFile:
        """The tenant's file.

        Raises:
            NotFound: it has no such file.
        """
        found = await self._tables.rows(_GET, id=file_id, tenant=tenant, state=state)
        file = _file(found[0]) if found else None
        if file is None or file.expires_unix_s <= now_unix_s:
            raise NotFound("there is no such file", param="file_id")
        return file

    async def page(
        self, tenant: str, *, purpose: str, order: str, after: StoredFile | None, most: int, now_unix_s: float
    ) -> list[StoredFile]:
        """At most so many of the tenant's files, by when they were made."""
        after_unix_s, after_id = _FROM[order] if after is None else (after.created_unix_s, after.id)
        where: dict[str, Value] = {"tenant": tenant, "purpose": purpose, "now_unix_s": now_unix_s, "most": most}
        return [
            _file(row)
            for row in await self._tables.rows(_PAGES[order], after_unix_s=after_unix_s, after_id=after_id, **where)
        ]

    async def pieces(self, file_id: str) -> AsyncIterator[bytes]:
        """The file's bytes, piece by piece."""
        n = 0
        while found := await self._tables.rows(_READ, id=file_id, n=n):
            yield bytes(found[0][0])
            n += 1

    async def used_by(self, file_id: str) -> str | None:
        """The batch that is being made from the file, if there is one."""
        found = await self._tables.rows(_IN_USE, id=file_id)
        return str(found[0][0]) if found else None

    async def delete(self, file_id: str) -> None:
        """Takes the file away, from a full disk, too."""
        await self._tables.free(*_deleting(file_id))

    async def delete_past(self, now_unix_s: float) -> int:
        """Takes away some of the files whose time is over, and which no batch needs; how many."""
        past = [str(row[0]) for row in await self._tables.rows(_PAST, now_unix_s=now_unix_s)]
        for file_id in past:
            await self.delete(file_id)
        return len(past)


class FileWriter:
    """Writes one file. ``size_bytes`` were put in so far."""

    def __init__(self, tables: LedgerTables, file: StoredFile) -> None:
        self.file = file
        self.size_bytes = 0
        self._tables = tables
        self._waiting = bytearray()
        self._n = 0

    async def put(self, data: bytes) -> None:
        """Adds to the file's end."""
        self.size_bytes += len(data)
        self._waiting += data
        while len(self._waiting) >= PIECE_BYTES:
            await self._write(PIECE_BYTES)

    async def end(self, state: str = WHOLE) -> StoredFile:
        """The file is complete."""
        await self.flush()
        await self._tables.write(self.ending(state))
        return replace(self.file, state=state, size_bytes=self.size_bytes)

    def keep_until(self, expires_unix_s: float) -> None:
        """For how long it stays, once it is complete."""
        self.file = replace(self.file, expires_unix_s=expires_unix_s)

    async def flush(self) -> None:
        """Writes what waits."""
        if self._waiting:
            await self._write(len(self._waiting))

    def ending(self, state: str) -> Statement:
        """What makes it complete, for who ends something else together with it."""
        values: dict[str, Value] = {"id": self.file.id, "state": state, "size_bytes": self.size_bytes}
        return _END, {**values, "expires_unix_s": self.file.expires_unix_s}

    async def discard(self) -> None:
        """Takes away what was written."""
        await self._tables.free(*_deleting(self.file.id))

    async def _write(self, length_bytes: int) -> None:
        piece = bytes(self._waiting[:length_bytes])
        await self._tables.write((_PIECE, {"id": self.file.id, "n": self._n, "data": piece}))
        del self._waiting[:length_bytes]
        self._n += 1


def new_file_id() -> str:
    """A name for a file, as OpenAI's look."""
    return f"file-{secrets.token_hex(12)}"


def _file(row: Sequence[Value]) -> StoredFile:
    return StoredFile(**dict(zip(StoredFile.__struct_fields__, row, strict=True)))  # type: ignore[arg-type]  # the columns are its fields


def _deleting(file_id: str) -> list[Statement]:
    return [(statement, {"id": file_id}) for statement in _DELETE]
