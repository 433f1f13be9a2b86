"""Runs an engine in its own process and speaks with it from asyncio.

    engine = await EngineProcess.start(EngineSettings(model_path="model.gguf"))
    ready = await engine.ready()
    async with aclosing(engine.generate(Generate(text="Once", max_tokens=8))) as generation:
        async for event in generation:   # Accepted, Text..., one Done for each choice
            ...
    await engine.close()

Leaving a generation early cancels it. When the process dies, every running request raises `EngineDied` at once;
starting another is the caller's decision. `shared_client.py` is the same for an engine that several processes share.
Imports neither numpy nor kernels.
"""

import asyncio
import logging
import socket
from contextlib import suppress
from typing import Self

from embedded_engine.dialogue import Dialogue, EngineStartFailed
from embedded_engine.frames import FrameTooLarge, NotEncodable, ProtocolError
from embedded_engine.generation import EngineDied, Generation, RequestFailed
from embedded_engine.launch import engine_command
from embedded_engine.settings import EngineSettings

__all__ = [
    "EngineDied",
    "EngineProcess",
    "EngineStartFailed",
    "FrameTooLarge",
    "Generation",
    "NotEncodable",
    "ProtocolError",
    "RequestFailed",
]

_logger = logging.getLogger(__name__)


class EngineProcess(Dialogue):
    """One engine process, this caller's own. Make it with `start`."""

    def __init__(self) -> None:
        super().__init__()
        self._process: asyncio.subprocess.Process
        self._exited: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        self._watch: asyncio.Task[None]

    @classmethod
    async def start(cls, settings: EngineSettings) -> Self:
        """Start the process; returns before the model is loaded."""
        engine = cls()
        ours, theirs = socket.socketpair()
        try:
            engine._process = await asyncio.create_subprocess_exec(
                *engine_command("own", theirs.fileno(), settings),
                stdin=asyncio.subprocess.DEVNULL,
                pass_fds=(theirs.fileno(),),
            )
        except BaseException:
            ours.close()
            raise
        finally:
            theirs.close()
        await asyncio.get_running_loop().create_unix_connection(lambda: engine, sock=ours)
        engine._watch = asyncio.create_task(engine._watch_exit(), name="engine-exit")
        return engine

    @property
    def pid(self) -> int:
        """The child's process id."""
        return self._process.pid

    async def wait_exit(self) -> int:
        """Wait for the process to end, whatever the reason; its return code, negative for a signal."""
        return await asyncio.shield(self._exited)

    async def close(self, *, grace_s: float = 5.0) -> None:
        """End the process: politely, and after `grace_s` by force. Running requests raise `EngineDied`."""
        self._end(EngineDied("the engine was closed"))
        with suppress(ProcessLookupError):
            self._process.terminate()
            try:
                await asyncio.wait_for(self.wait_exit(), grace_s)
            except TimeoutError:
                self._process.kill()
        await self._watch

    def kill(self) -> None:
        """See `Dialogue.kill`."""
        with suppress(ProcessLookupError):
            self._process.kill()

    def _break(self, error: ProtocolError) -> None:
        super()._break(error)
        self.kill()

    async def _watch_exit(self) -> None:
        returncode = await self._process.wait()
        _logger.info("engine process %d ended with code %d", self._process.pid, returncode)
        # The socket may still hold the engine's last words; connection_lost comes after they are read.
        self._exited.set_result(returncode)
