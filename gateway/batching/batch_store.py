"""Batches in the database: who owns one, and what clients are shown of it.

A batch belongs to one process at a time, by a lease. Who owns it writes its record; that somebody wants it cancelled
stands apart, so that neither overwrites the other.
"""

from collections.abc import Sequence
from typing import Any

import msgspec
from msgspec import Struct

from gateway.batching.batch import Api, Batch, Status, read_record
from gateway.errors import NotFound
from gateway.stores.row_values import Value
from gateway.stores.tables import LedgerTables, Statement

_COLUMNS = "id, tenant, api, status, input_file_id, created_unix_s, expires_unix_s, cancel_unix_s, record"
UNDER_WAY = "status IN ('validating', 'in_progress', 'finalizing')"
"""A condition of SQL: the batch is not over."""

_INSERT = f"""
    INSERT INTO batches ({_COLUMNS}, owner, lease_unix_s)
    VALUES (:id, :tenant, :api, :status, :input_file_id, :created_unix_s, :expires_unix_s, NULL, :record, '', 0)
"""  # noqa: S608  # our own names, here and below
_GET = f"SELECT {_COLUMNS} FROM batches WHERE id = :id AND tenant = :tenant AND api = :api"  # noqa: S608
_OPEN = f"SELECT count(*) FROM batches WHERE tenant = :tenant AND {UNDER_WAY}"  # noqa: S608
_PAGE = f"""
    SELECT {_COLUMNS} FROM batches WHERE tenant = :tenant AND api = :api
        AND (created_unix_s, id) {{beyond}} (:unix_s, :id)
    ORDER BY created_unix_s {{order}}, id {{order}} LIMIT :most
"""  # noqa: S608
_OLDER, _NEWER = _PAGE.format(beyond="<", order="DESC"), _PAGE.format(beyond=">", order="ASC")
_CANCEL = f"""
    UPDATE batches SET cancel_unix_s = :now_unix_s
    WHERE id = :id AND tenant = :tenant AND cancel_unix_s IS NULL AND {UNDER_WAY}
"""  # noqa: S608
_FREE = f"""
    SELECT id, tenant, owner FROM (
        SELECT id, tenant, owner, created_unix_s,
            row_number() OVER (PARTITION BY tenant ORDER BY created_unix_s) AS turn
        FROM batches WHERE {UNDER_WAY} AND (owner = '' OR lease_unix_s < :now_unix_s)
    ) AS free ORDER BY turn, created_unix_s LIMIT 200
"""  # noqa: S608
_CLAIM = f"""
    UPDATE batches SET owner = :owner, lease_unix_s = :until_unix_s
    WHERE id = :id AND {UNDER_WAY} AND (owner = '' OR lease_unix_s < :now_unix_s)
"""  # noqa: S608
_RENEW = "UPDATE batches SET lease_unix_s = :until_unix_s WHERE id = :id AND owner = :owner"
_OWNED = f"SELECT {_COLUMNS} FROM batches WHERE id = :id AND owner = :owner"  # noqa: S608
# Where it is another's now, NULL is refused, and nothing that stands beside it is done.
_SAVE = """
    UPDATE batches SET record = :record, status = CASE WHEN owner = :owner THEN CAST(:status AS TEXT) END WHERE id = :id
"""
_RELEASE = "UPDATE batches SET owner = '', lease_unix_s = 0 WHERE id = :id AND owner = :owner"
_DELETE = "DELETE FROM batches WHERE id = :id AND tenant = :tenant"
_FORGET = f"DELETE FROM batches WHERE NOT {UNDER_WAY} AND created_unix_s < :before_unix_s"  # noqa: S608
_COUNTS = "SELECT outcome, count(*) FROM batch_lines WHERE batch_id = :id GROUP BY outcome"


class Free(Struct, frozen=True):
    """A batch that nobody runs now; ``abandoned`` by a process that is no more."""

    id: str
    tenant: str
    abandoned: bool


class BatchStore:
    """The batches of all tenants.

    Raises:
        LedgerLost: from all of its methods, where the database is away.
    """

    def __init__(self, tables: LedgerTables) -> None:
        self._tables = tables

    # ---- for clients -------------------------------------------------------------------------------------------------

    async def add(self, batch: Batch) -> None:
        """Puts in a new one."""
        await self._tables.write((_INSERT, _values(batch)))

    async def get(self, tenant: str, api: Api, batch_id: str) -> Batch:
        """The tenant's batch.

        Raises:
            NotFound: it has no such batch.
        """
        found = await self._tables.rows(_GET, id=batch_id, tenant=tenant, api=api.value)
        if not found:
            raise NotFound("there is no such batch", param="batch_id")
        return _batch(found[0])

    async def under_way(self, tenant: str) -> int:
        """How many of the tenant's batches are not over."""
        return int((await self._tables.rows(_OPEN, tenant=tenant))[0][0])

    async def older(self, tenant: str, api: Api, than: Batch | None, most: int) -> list[Batch]:
        """The newest first; those made before ``than``, where it is given."""
        unix_s, batch_id = (1e15, "") if than is None else (than.created_unix_s, than.id)
        where: dict[str, Value] = {"tenant": tenant, "api": api.value, "id": batch_id, "most": most}
        return [_batch(row) for row in await self._tables.rows(_OLDER, unix_s=unix_s, **where)]

    async def newer(self, tenant: str, api: Api, than: Batch, most: int) -> list[Batch]:
        """Those made next after ``than``, the newest first."""
        where: dict[str, Value] = {"tenant": tenant, "api": api.value, "id": than.id, "most": most}
        rows = await self._tables.rows(_NEWER, unix_s=than.created_unix_s, **where)
        return [_batch(row) for row in reversed(rows)]

    async def cancel(self, batch: Batch, now_unix_s: float) -> None:
        """Somebody wants it to end; nothing where it has."""
        await self._tables.write((_CANCEL, {"id": batch.id, "tenant": batch.tenant, "now_unix_s": now_unix_s}))

    async def delete(self, batch: Batch) -> None:
        """Takes it away."""
        await self._tables.free((_DELETE, {"id": batch.id, "tenant": batch.tenant}))

    async def counts(self, batch_id: str) -> dict[str, int]:
        """How many lines have which outcome."""
        return {str(outcome): int(count) for outcome, count in await self._tables.rows(_COUNTS, id=batch_id)}

    # ---- for who runs them -------------------------------------------------------------------------------------------

    async def free(self, now_unix_s: float) -> list[Free]:
        """Of what nobody runs now each tenant's oldest, then each one's second, and so on."""
        return [
            Free(str(batch_id), str(tenant), owner != "")
            for batch_id, tenant, owner in await self._tables.rows(_FREE, now_unix_s=now_unix_s)
        ]

    async def claim(self, batch_id: str, owner: str, now_unix_s: float, until_unix_s: float) -> Batch | None:
        """The batch, which is the owner's from now on; ``None`` where somebody else was first."""
        values: dict[str, Value] = {"now_unix_s": now_unix_s, "until_unix_s": until_unix_s}
        (claimed,) = await self._tables.write((_CLAIM, {"id": batch_id, "owner": owner, **values}))
        return await self.owned(batch_id, owner) if claimed else None

    async def renew(self, batch_id: str, owner: str, until_unix_s: float) -> None:
        """The owner is still there."""
        await self._tables.write((_RENEW, {"id": batch_id, "owner": owner, "until_unix_s": until_unix_s}))

    async def owned(self, batch_id: str, owner: str) -> Batch | None:
        """The batch as it is now; ``None`` where it is not the owner's any more."""
        found = await self._tables.rows(_OWNED, id=batch_id, owner=owner)
        return _batch(found[0]) if found else None

    async def save(self, batch: Batch, owner: str, *besides: Statement) -> None:
        """Writes status and record, and does what is said besides; all of it or nothing, where it is another's now."""
        values: dict[str, Value] = {"id": batch.id, "owner": owner, "status": batch.status.value}
        saving: Statement = (_SAVE, {**values, "record": msgspec.json.encode(batch.record)})
        await self._tables.write(saving, *besides)

    async def release(self, batch_id: str, owner: str) -> None:
        """Anybody may go on with it."""
        await self._tables.write((_RELEASE, {"id": batch_id, "owner": owner}))

    async def forget(self, before_unix_s: float) -> None:
        """Takes away what was over and made before then."""
        await self._tables.write((_FORGET, {"before_unix_s": before_unix_s}))


def _values(batch: Batch) -> dict[str, Value]:
    return {
        "id": batch.id,
        "tenant": batch.tenant,
        "api": batch.api.value,
        "status": batch.status.value,
        "input_file_id": batch.input_file_id,
        "created_unix_s": batch.created_unix_s,
        "expires_unix_s": batch.expires_unix_s,
        "record": msgspec.json.encode(batch.record),
    }


def _batch(row: Sequence[Any]) -> Batch:
    batch_id, tenant, api, status, input_file_id, created_unix_s, expires_unix_s, cancel_unix_s, record = row
    return Batch(
        id=batch_id,
        tenant=tenant,
        api=Api(api),
        status=Status(status),
        input_file_id=input_file_id,
        created_unix_s=created_unix_s,
        expires_unix_s=expires_unix_s,
        cancel_unix_s=cancel_unix_s,
        record=read_record(bytes(record)),
    )
