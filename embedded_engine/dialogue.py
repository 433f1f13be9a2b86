"""The caller's end of a conversation with an engine, whoever started it: see `client.py` and `shared_client.py`."""

import asyncio
import itertools
import time
from typing import cast

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

__all__ = ["Dialogue", "EngineStartFailed"]


class EngineStartFailed(Exception):
    """The engine said why it cannot start; `code` is `StartFailed.code`. Starting it again unchanged will not help."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code


class Dialogue(asyncio.Protocol):
    """One connection to an engine; all methods belong to the event loop that opened it."""

    def __init__(self) -> None:
        loop = asyncio.get_running_loop()
        self._transport: asyncio.Transport
        self._frames = FrameReader()
        self._ids = itertools.count(1)
        self._generations: dict[int, Generation] = {}
        self._counts: dict[int, asyncio.Future[int]] = {}
        self._ready: asyncio.Future[Ready] = loop.create_future()
        self._over: asyncio.Future[None] = loop.create_future()
        self._died: EngineDied | None = None
        self._progress_at_s = 0.0
        self.facts: Facts | None = None
        """The engine's last word on how busy it is; None before the first."""

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

    async def wait_over(self) -> None:
        """Wait until nothing more can come: the engine is gone, or this end was closed."""
        await asyncio.shield(self._over)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """What asyncio calls first."""
        self._transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        """What asyncio calls: bytes came from the engine."""
        try:
            for body in self._frames.feed(data):
                self._take(decode_from_engine(body))
        except ProtocolError as error:
            self._break(error)

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

    def _break(self, error: ProtocolError) -> None:
        self._end(EngineDied(f"the engine broke the protocol: {error}"))

    def _end(self, death: EngineDied) -> None:
        """Tell everybody, once, that nothing more will come."""
        if self._died is not None:
            return
        self._died = death
        self._transport.close()
        self._over.set_result(None)
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
