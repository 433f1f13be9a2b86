"""Files on a disk that is full. Only who may mount a small one can try it."""

import contextlib
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from gateway.batching.file_store import WHOLE, FileStore, StoredFile
from gateway.batching.opening import SPARE_BYTES
from gateway.stores.database import open_database
from gateway.stores.ledger_lost import LedgerLost
from gateway.stores.sqlite_tables import SqliteTables

SIZE_MB = 20
FILE_BYTES = 500_000


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A disk of a few megabytes."""
    command = ["mount", "-t", "tmpfs", "-o", f"size={SIZE_MB}m,mode=0777", "tmpfs", str(tmp_path)]
    sudo = [] if os.geteuid() == 0 else ["sudo", "-n"]
    try:
        mounted = subprocess.run([*sudo, *command], capture_output=True, check=False).returncode == 0
    except FileNotFoundError:
        mounted = False
    if not mounted:
        pytest.skip("nothing can be mounted here")
    yield tmp_path
    subprocess.run([*sudo, "umount", str(tmp_path)], check=True)


async def _left(files: FileStore, number: int) -> bool:
    """Whether there was room for one file more."""
    times = {"created_unix_s": 1.0, "expires_unix_s": 1e12}
    file = StoredFile(
        id=f"file-{number}", tenant="t", name="n", purpose="batch", state=WHOLE, size_bytes=0, **times
    )  # fmt: skip
    try:
        writer = await files.begin(file)
    except LedgerLost:
        return False
    try:
        await writer.put(os.urandom(FILE_BYTES))
        await writer.end()
    except LedgerLost:
        await writer.discard()
        return False
    return True


def _fill(file: Path) -> None:
    with contextlib.suppress(OSError), file.open("wb", buffering=0) as rest:
        while True:
            rest.write(bytes(4096))


@pytest.mark.parametrize("others", [True, False])
async def test_files_can_be_deleted_and_then_there_is_room(small_disk: Path, others: bool) -> None:
    """Whoever has filled it: files alone, or somebody else to the last byte. What is deleted is room for the next."""
    open_database(small_disk / "ledger.sqlite3").close()
    tables = SqliteTables(small_disk / "ledger.sqlite3", spare_bytes=SPARE_BYTES)
    files = FileStore(tables)
    number = 0
    while await _left(files, number):
        number += 1
    if others:
        _fill(small_disk / "others")
    for one in range(number):
        await files.delete(f"file-{one}")
    assert number > 10
    assert (0, 0) == await files.totals("t", 0.0)
    assert [True] * 5 == [await _left(files, one) for one in range(5)]
    await tables.close()
