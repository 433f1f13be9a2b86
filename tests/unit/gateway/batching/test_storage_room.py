"""What a tenant may leave here."""

import pytest

from gateway.batching.bounds import BatchBounds
from gateway.batching.file_store import StorageFull
from gateway.batching.storage_room import StorageRoom

BOUNDS = BatchBounds(
    max_file_bytes=100,
    max_files=3,
    max_stored_bytes=100,
    kept_s=60,
    max_lines=1,
    max_line_bytes=1,
    max_batches=1,
    lines_at_once=1,
    share=1,
    lease_s=1,
    silence_s=1,
)


@pytest.mark.parametrize(
    ("files", "stored_bytes", "size_bytes", "words"),
    [(2, 60, 40, None), (2, 60, 41, "100 bytes"), (3, 0, 0, "3 files"), (2, 100, 0, None)],
)
def test_one_file_more_has_room_or_not(files: int, stored_bytes: int, size_bytes: int, words: str | None) -> None:
    """To the byte, and whatever its size where there are enough of them."""
    room = StorageRoom(files=files, stored_bytes=stored_bytes, bounds=BOUNDS)
    if words is None:
        room.check(size_bytes)
        return
    with pytest.raises(StorageFull, match=words):
        room.check(size_bytes)
