"""Runs an engine in its own process and speaks with it from asyncio.

    engine = await EngineProcess.start(EngineSettings(model_path="model.gguf"))
    ready = await engine.ready()
    async with aclosing(engine.generate(Generate(text="Once", max_tokens=8))) as generation:
        async for event in generation:   # Accepted, Text..., one Done for each choice
            ...
    await engine.close()

Leaving a generation early cancels it. When the process dies, every running request raises `EngineDied` at once;
starting another is the caller's decision. Imports neither numpy nor kernels.
"""

import asyncio
import itertools
import logging
import socket
import sys
import time
from contextlib import suppress
from typing import Self

import msgspec

from embedded_engine.frames import FrameReader, ProtocolError, decode_from_engine, frame
from embedded_engine.generation import EngineDied, Generation, RequestFailed
from embedded_engine.messages import (
    Accepted,
    Cancel,
    Counted,
    CountTokens,
    Done,
    Facts,
    Failed,
    FromEngine,
    Generate,
    Ready,
    StartFailed,
    Text,
    ToEngine,
)
from embedded_engine.settings import EngineSettings

__all__ = ["EngineDied", "EngineProcess", "EngineStartFailed", "Generation", "ProtocolError", "RequestFailed"]

_logger = logging.getLogger(__name__)


class EngineStartFailed(Exception):
    """The engine said why it cannot start; `code` is `StartFailed.code`. Starting it again unchanged will not help."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code


class EngineProcess(asyncio.Protocol):
    """One engine process. Make it with `start`; all methods belong to the event loop that started it."""

    def __init__(self) -> None:
        loop = asyncio.get_running_loop()
        self._process: asyncio.subprocess.Process
        self._transport: asyncio.Transport
        self._frames = FrameReader()
        self._ids = itertools.count(1)
        self._generations: dict[int, Generation] = {}
        self._counts: dict[int, asyncio.Future[int]] = {}
        self._ready: asyncio.Future[Ready] = loop.create_future()
        self._exited: asyncio.Future[int] = loop.create_future()
        self._watch: asyncio.Task[None]
        self._died: EngineDied | None = None
        self._progress_at_s = 0.0
        self.facts: Facts | None = None
        """The engine's last word on how busy it is; None before the first."""

    @classmethod
    async def start(cls, settings: EngineSettings) -> Self:
        """Start the process; returns before the model is loaded.

        `-P` keeps the working directory off the child's path, so that a folder there cannot stand in for this package.
        """
        engine = cls()
        ours, theirs = socket.socketpair()
        try:
            engine._process = await asyncio.create_subprocess_exec(
                *(sys.executable, "-P", "-m", "embedded_engine.process"),
                *(str(theirs.fileno()), msgspec.json.encode(settings).decode()),
                stdin=asyncio.subprocess.DEVNULL,
                pass_fds=(theirs.fileno(),),
            )
        except BaseException:
            ours.close()
            raise
        finally:
            theirs.close()
        engine._transport, _ = await asyncio.get_running_loop().create_unix_connection(lambda: engine, sock=ours)
        engine._watch = asyncio.create_task(engine._watch_exit(), name="engine-exit")
        return engine

    @property
    def pid(self) -> int:
        """The child's process id."""
        return self._process.pid

    @property
    def alive(self) -> bool:
        """Whether requests can be sent."""
        return self._died is None

    @property
    def stalled_s(self) -> float:
        """Seconds since the engine last made a step while it had work; 0.0 when it has none. For a readiness check."""
        return time.monotonic() - self._progress_at_s if self._generations else 0.0

    async def ready(self) -> Ready:
        """Wait for the model to be loaded and self-tested.

        Raises:
            EngineStartFailed: The engine said why it cannot.
            EngineDied: The process went away without a word.
        """
        return await asyncio.shield(self._ready)

    def generate(self, request: Generate) -> Generation:
        """Send a request; `request.id` is replaced by a number of our own.

        Raises:
            EngineDied: The process is gone.
            ProtocolError: The request is larger than a frame may be, or its text is not Unicode.
        """
        request = msgspec.structs.replace(request, id=next(self._ids))
        generation = Generation(request, self._forget)
        if not self._generations:
            self._progress_at_s = time.monotonic()
        self._send(request)
        self._generations[request.id] = generation
        return generation

    async def count_tokens(self, request: CountTokens) -> int:
        """How many prompt tokens a conversation or a text is, template included.

        Raises:
            RequestFailed: The conversation cannot be rendered.
            EngineDied: The process is gone.
        """
        request = msgspec.structs.replace(request, id=next(self._ids))
        answer: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        self._send(request)
        self._counts[request.id] = answer
        try:
            return await answer
        finally:
            self._counts.pop(request.id, None)

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

    def data_received(self, data: bytes) -> None:
        """What asyncio calls: bytes came from the engine."""
        try:
            for body in self._frames.feed(data):
                self._take(decode_from_engine(body))
        except ProtocolError as error:
            self._end(EngineDied(f"the engine broke the protocol: {error}"))
            with suppress(ProcessLookupError):
                self._process.kill()

    def connection_lost(self, exc: Exception | None) -> None:
        """What asyncio calls: the engine closed its end, which it does only by ending."""
        self._end(EngineDied(f"the engine process went away{f': {exc}' if exc else ''}"))

    def _take(self, message: FromEngine) -> None:
        match message:
            case Accepted() | Text() | Done() | Failed():
                self._progress_at_s = time.monotonic()
                self._deliver(message)
            case Facts():
                if self.facts is None or message.steps != self.facts.steps:
                    self._progress_at_s = time.monotonic()
                self.facts = message
            case Counted(id=number, prompt_tokens=prompt_tokens):
                if (answer := self._counts.get(number)) and not answer.done():
                    answer.set_result(prompt_tokens)
            case Ready():
                if not self._ready.done():
                    self._ready.set_result(message)
            case StartFailed(code=code, message=text):
                self._fail_ready(EngineStartFailed(code, text))

    def _deliver(self, message: Accepted | Text | Done | Failed) -> None:
        generation = self._generations.get(message.id)
        if generation is not None:
            if generation.receive(message):
                del self._generations[message.id]
        elif isinstance(message, Failed) and (answer := self._counts.get(message.id)) and not answer.done():
            answer.set_exception(RequestFailed(message))

    def _send(self, message: ToEngine) -> None:
        if self._died is not None:
            raise EngineDied(str(self._died)) from self._died
        self._transport.write(frame(message))

    def _forget(self, number: int) -> None:
        if self._generations.pop(number, None) is not None and self._died is None:
            self._transport.write(frame(Cancel(id=number)))

    def _end(self, death: EngineDied) -> None:
        """Tell everybody, once, that nothing more will come."""
        if self._died is not None:
            return
        self._died = death
        self._transport.close()
        self._fail_ready(death)
        for generation in self._generations.values():
            generation.finish(EngineDied(str(death)))
        self._generations.clear()
        for answer in self._counts.values():
            if not answer.done():
                answer.set_exception(EngineDied(str(death)))

    def _fail_ready(self, error: Exception) -> None:
        if not self._ready.done():
            self._ready.set_exception(error)
            self._ready.exception()  # nobody may be waiting; that is no reason for asyncio to complain

    async def _watch_exit(self) -> None:
        returncode = await self._process.wait()
        _logger.info("engine process %d ended with code %d", self._process.pid, returncode)
        # The socket may still hold the engine's last words; connection_lost comes after they are read.
        self._exited.set_result(returncode)
