import asyncio
import socket

import pytest

from gateway.process.worker_line import DRAIN, END_NOW, RELOAD, SERVING, ParentLine


class Heard:
    """What a worker heard, in order."""

    def __init__(self) -> None:
        self.words: list[str] = []
        self.came = asyncio.Event()

    def take(self, word: str) -> None:
        """Records it."""
        self.words.append(word)
        self.came.set()

    async def until(self, count: int) -> list[str]:
        """The words, as soon as there are so many."""
        while len(self.words) < count:
            await self.came.wait()
            self.came.clear()
        return self.words


@pytest.fixture
def heard() -> Heard:
    """Nothing yet."""
    return Heard()


@pytest.fixture
def line(heard: Heard) -> ParentLine:
    """A worker's line that tells ``heard`` all it hears."""
    words = {DRAIN: "drain", END_NOW: "end now", RELOAD: "reload"}
    return ParentLine(
        {byte: lambda word=word: heard.take(word) for byte, word in words.items()}, lambda: heard.take("gone")
    )


async def test_what_was_said_before_it_was_open_is_heard_too(line: ParentLine, heard: Heard) -> None:
    """A worker that is told to drain while it starts does so, and the parent hears that it serves."""
    parent, worker = socket.socketpair()
    with parent:
        parent.sendall(RELOAD + DRAIN)
        await line.open(worker.detach())
        assert SERVING == parent.recv(10)
        parent.sendall(END_NOW)
        assert ["reload", "drain", "end now"] == await heard.until(3)
    assert ["reload", "drain", "end now", "gone"] == await heard.until(4)


async def test_who_hangs_up_itself_hears_nothing_more(line: ParentLine, heard: Heard) -> None:
    """A worker that has ended does not take its own hanging up for the parent's."""
    parent, worker = socket.socketpair()
    with parent:
        await line.open(worker.detach())
        for _ in range(2):
            line.close()
        reader, writer = await asyncio.open_unix_connection(sock=parent)
        assert SERVING == await reader.read()
        writer.close()
    assert [] == heard.words
