"""The clients of a scripted day, and its clock."""

import asyncio
import time
from collections.abc import Sequence
from dataclasses import dataclass, field

import msgspec

from gateway.types import Operation

DAY_UNIX_S = 1_700_006_400.0
"""A midnight."""


class ScriptedClock:
    """Real seconds for what takes time; the time of day is that of the script."""

    def __init__(self) -> None:
        self.unix = DAY_UNIX_S + 60

    def now_s(self) -> float:
        """See ``Clock``."""
        return time.monotonic()

    def unix_s(self) -> float:
        """See ``Clock``."""
        return self.unix

    async def sleep(self, seconds: float) -> None:
        """See ``Clock``."""
        await asyncio.sleep(seconds)


@dataclass(eq=False)
class Call:
    """The client's side of one call; it hangs up after so many pieces where ``patience`` says so."""

    task: str
    prompt_bytes: int
    patience: int | None = None
    operation: Operation = Operation.CHAT
    gone: bool = False
    started: bool = False
    streaming: bool = False
    status: int = 0
    backend: str = ""
    received: bytearray = field(default_factory=bytearray)
    pieces: int = 0

    @property
    def headers(self) -> Sequence[tuple[bytes, bytes]]:
        """Only the task's name."""
        return ((b"x-headrace-task", self.task.encode()),)

    async def body(self) -> bytes:
        """See ``Exchange``."""
        messages = [{"role": "user", "content": "a" * self.prompt_bytes}]
        return msgspec.json.encode({"model": "assistant", "stream": True, "messages": messages})

    async def answer(self, status: int, headers: Sequence[tuple[bytes, bytes]], body: bytes) -> None:
        """See ``Exchange``."""
        await self.open(status, headers)
        self.received += body

    async def open(self, status: int, headers: Sequence[tuple[bytes, bytes]]) -> None:
        """See ``Exchange``."""
        self.started = self.streaming = True
        self.status = status
        self.backend = dict(headers).get(b"x-headrace-backend", b"").decode()

    async def write(self, data: bytes) -> None:
        """See ``Exchange``."""
        self.received += data
        self.pieces += 1
        if self.patience is not None and self.pieces >= self.patience:
            self.gone = True
            task = asyncio.current_task()
            if task is not None:
                task.cancel()
            await asyncio.sleep(0)

    async def close(self) -> None:
        """See ``Exchange``."""
        self.streaming = False

    @property
    def whole(self) -> bool:
        """Whether the whole answer came."""
        return self.status == 200 and bytes(self.received).endswith(b"[DONE]\n\n") and b'"error"' not in self.received
