"""The file of the limits' accounts, when it is no database any more."""

import asyncio
import sqlite3
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest

from gateway.limits.lender import LenderLost, Need
from gateway.stores.sqlite_lender import SqliteLender

_END_UNIX_S = 2**40


@pytest.fixture
async def lender(tmp_path: Path, hand_clock: Any) -> AsyncIterator[Callable[[], SqliteLender]]:
    """Opens the accounts as one more worker does."""
    opened: list[SqliteLender] = []

    def open_() -> SqliteLender:
        opened.append(SqliteLender(tmp_path / "limits.sqlite3", clock=hand_clock))
        return opened[-1]

    yield open_
    for one in opened:
        await one.close()


async def _asks(lender: SqliteLender, replica: str, amount: int) -> int:
    need = Need("a", _END_UNIX_S, amount=10, spent=0, taken=0, kept=0, need=amount)
    return (await lender.exchange(replica, [need]))[0].more


def _spoil(file: Path, kind: str) -> None:
    if kind == "no database":
        file.write_bytes(b"this is no database, whatever its name says" * 100)
        return
    with sqlite3.connect(file) as connection:
        connection.execute("CREATE TABLE other (words TEXT)")
        connection.executemany("INSERT INTO other VALUES (?)", [("x" * 500,)] * 200)
    connection.close()
    content = bytearray(file.read_bytes())
    content[100:4096] = b"\xff" * 3996
    file.write_bytes(bytes(content))


@pytest.mark.parametrize("kind", ["no database", "malformed"])
async def test_a_broken_file_is_begun_anew_once_for_all_workers(
    lender: Any, tmp_path: Path, kind: str, caplog: pytest.LogCaptureFixture
) -> None:
    """None counts alone: all of them together stay within the limit, the old file is kept, and everybody says so."""
    file = tmp_path / "limits.sqlite3"
    _spoil(file, kind)
    workers = [lender() for _ in range(4)]
    assert 10 == sum(await asyncio.gather(*(_asks(one, str(n), 4) for n, one in enumerate(workers))))
    assert (tmp_path / "limits.sqlite3.broken").exists()
    assert 1 == sum("is broken" in record.message for record in caplog.records)
    assert {"their file was broken and is begun anew, what was spent before is forgotten"} >= {
        one.trouble for one in workers if one.trouble
    }
    assert any(one.trouble for one in workers)


async def test_a_file_that_is_well_is_no_trouble(lender: Any, tmp_path: Path) -> None:
    """And none is put aside."""
    one = lender()
    assert 4 == await _asks(one, "a", 4)
    assert ("", False) == (one.trouble, (tmp_path / "limits.sqlite3.broken").exists())


async def test_a_file_that_breaks_while_it_is_open_is_begun_anew(lender: Any, tmp_path: Path) -> None:
    """As at the start; a worker that comes later finds a good one."""
    one = lender()
    await _asks(one, "a", 4)
    await one.close()
    _spoil(tmp_path / "limits.sqlite3", "no database")
    assert 4 == await _asks(one, "a", 4)
    assert 6 == await _asks(lender(), "b", 9)


async def test_a_file_that_cannot_be_opened_is_lost_and_not_replaced(lender: Any, tmp_path: Path) -> None:
    """A folder in its place is for people to look at."""
    (tmp_path / "limits.sqlite3").mkdir()
    with pytest.raises(LenderLost):
        await _asks(lender(), "a", 1)
    assert (tmp_path / "limits.sqlite3").is_dir()


async def test_several_may_ask_at_once_over_one_connection(lender: Any) -> None:
    """Limits and the budgets of tasks do, each from a thread of its own."""
    one = lender()
    needs = [Need(f"a{n}", _END_UNIX_S, amount=100, spent=0, taken=0, kept=0) for n in range(20)]

    async def asks(replica: str) -> int:
        return sum([len(await one.exchange(replica, needs)) for _ in range(50)])

    assert [1000] * 3 == await asyncio.gather(*map(asks, "abc"))
