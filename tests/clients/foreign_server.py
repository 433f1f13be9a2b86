"""Servers of others, started for as long as a script needs them."""

import asyncio
import re
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager


@asynccontextmanager
async def listening(
    *command: str, environment: Mapping[str, str], pattern: str, within_s: float = 60.0
) -> AsyncIterator[str]:
    """Starts a server and waits until it says where it listens; gives what the pattern's group has of that."""
    process = await asyncio.create_subprocess_exec(
        *command,
        env=dict(environment),
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    assert process.stdout is not None
    try:
        async with asyncio.timeout(within_s):
            match = None
            while match is None:
                line = await process.stdout.readline()
                assert line, f"{command[0]} ended before it listened"
                match = re.search(pattern, line.decode())
        async with asyncio.TaskGroup() as following:
            reading = following.create_task(process.stdout.read())  # or it would stop at a full pipe
            yield match[1]
            reading.cancel()
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
