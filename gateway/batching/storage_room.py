"""How much a tenant may leave here."""

from dataclasses import dataclass

from gateway.batching.bounds import BatchBounds
from gateway.batching.file_store import FileStore, StorageFull


@dataclass(frozen=True, slots=True, kw_only=True)
class StorageRoom:
    """What a tenant has here, and how much that may be."""

    files: int
    stored_bytes: int
    bounds: BatchBounds

    def check(self, size_bytes: int) -> None:
        """Refuses one file more, of so many bytes, where there is no room for it.

        Raises:
            StorageFull: the tenant has as many files, or with these bytes more than it may.
        """
        if self.files >= self.bounds.max_files:
            raise StorageFull(f"there are {self.files} files already: delete some, or batches that have ended")
        if self.stored_bytes + size_bytes > self.bounds.max_stored_bytes:
            raise StorageFull(f"all files together may have {self.bounds.max_stored_bytes} bytes: delete some")


async def storage_room(files: FileStore, bounds: BatchBounds, tenant: str, now_unix_s: float) -> StorageRoom:
    """How it stands now."""
    count, stored_bytes = await files.totals(tenant, now_unix_s)
    return StorageRoom(files=count, stored_bytes=stored_bytes, bounds=bounds)
