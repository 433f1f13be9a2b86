"""Room on a disk that is held back."""

from pathlib import Path

import pytest

from gateway.stores.spare_room import SpareRoom


def test_room_is_held_back_until_it_is_given_up(tmp_path: Path) -> None:
    """For its owner alone, and again afterwards; each step may be done twice, by several processes."""
    file = tmp_path / "spare"
    rooms = [SpareRoom(file, 4096) for _ in range(2)]
    for room in (*rooms, *rooms):
        room.make()
    assert (4096, 0o600) == (file.stat().st_size, file.stat().st_mode & 0o777)
    assert 4096 <= file.stat().st_blocks * 512
    for room in rooms:
        room.give_up()
    assert not file.exists()
    rooms[0].make()
    assert file.exists()


def test_none_is_none(tmp_path: Path) -> None:
    """Nobody asked for any."""
    room = SpareRoom(tmp_path / "spare", 0)
    room.make()
    room.give_up()
    room.make()
    assert [] == list(tmp_path.iterdir())


def test_where_there_is_none_to_hold_back_it_is_told_once(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """And all goes on."""
    room = SpareRoom(tmp_path / "nowhere" / "spare", 4096)
    for _ in range(3):
        room.make()
        room.give_up()
    assert ["no room is held back"] == [record.message[:20] for record in caplog.records]
