"""``headrace serve`` as a process of its own, for what only a process has: signals, exit codes, its log."""

import asyncio
import os
import re
import signal
import sqlite3
import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, closing
from dataclasses import dataclass, field
from pathlib import Path

from tests.integration.raw_client import PATIENCE_S, RawClient

_ADDRESS = re.compile(r"running on http://127\.0\.0\.1:(\d+)")
_LAST_LINES = 30


@dataclass
class ServedProcess:
    """A running server. ``log`` is what it has written to standard error so far, ``folder`` where its files are."""

    process: asyncio.subprocess.Process
    policy_file: Path
    log: list[str] = field(default_factory=list)
    _clients: list[RawClient] = field(default_factory=list)
    _written: asyncio.Condition = field(default_factory=asyncio.Condition)
    _log_ended: bool = False

    async def read_log(self) -> None:
        """Follows standard error to its end."""
        assert self.process.stderr is not None
        async for line in self.process.stderr:
            self.log.append(line.decode())
            async with self._written:
                self._written.notify_all()
        async with self._written:
            self._log_ended = True
            self._written.notify_all()

    async def until_logged(self, pattern: str, *, within_s: float = 2 * PATIENCE_S) -> re.Match[str]:
        """The first match in the log, as soon as it is there; an error, with the log's end, as soon as it cannot come.

        A log ends when the process and all that it started have gone.
        """
        waited = f"waited {within_s:g} s for"
        try:
            async with asyncio.timeout(within_s), self._written:
                await self._written.wait_for(lambda: self._log_ended or re.search(pattern, "".join(self.log)))
                waited = "the process is gone without"
        except TimeoutError:
            pass
        match = re.search(pattern, "".join(self.log))
        assert match is not None, f"{waited} {pattern!r} in its log:\n{''.join(self.log[-_LAST_LINES:])}"
        return match

    async def connect(self) -> RawClient:
        """A connection of its own."""
        port = int((await self.until_logged(_ADDRESS.pattern))[1])
        client = RawClient(*await asyncio.open_connection("127.0.0.1", port, limit=2**22))
        self._clients.append(client)
        return client

    async def get(self, path: str) -> int:
        """The status of a GET on a fresh connection."""
        client = await self.connect()
        await client.send(f"GET {path} HTTP/1.1\r\nhost: h\r\nconnection: close\r\n\r\n".encode())
        return (await client.answer()).status

    def signal(self, number: signal.Signals) -> None:
        """Sends a signal."""
        self.process.send_signal(number)

    async def exit_code(self) -> int:
        """Waits for the end."""
        async with asyncio.timeout(2 * PATIENCE_S):
            return await self.process.wait()

    def rows(self) -> list[tuple[str, int]]:
        """Status and HTTP status of each request on the ledger, as the process left it."""
        with closing(sqlite3.connect(self.policy_file.parent / "ledger.sqlite3")) as connection:
            return connection.execute("SELECT status, http_status FROM requests ORDER BY seq").fetchall()

    async def close(self) -> None:
        """Ends what still runs."""
        for client in self._clients:
            await client.close()
        if self.process.returncode is None:
            self.process.kill()
            await self.process.wait()


@asynccontextmanager
async def serve_process(policy_file: Path, settings: Mapping[str, str]) -> AsyncIterator[ServedProcess]:
    """Runs ``headrace serve`` on a free port; ``settings`` are further environment variables."""
    environment = {
        "PATH": os.environ["PATH"],
        "HEADRACE_PORT": "0",
        "HEADRACE_STATE_DIR": str(policy_file.parent),
        **settings,
    }
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-W", "error", "-m", "gateway", "serve", str(policy_file)),
        env=environment,
        stderr=asyncio.subprocess.PIPE,
    )
    served = ServedProcess(process, policy_file)
    following = asyncio.create_task(served.read_log())
    try:
        yield served
    finally:
        await served.close()
        await following
