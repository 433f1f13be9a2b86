"""The caller's end of a conversation with an engine, whoever started it: see `client.py` and `shared_client.py`."""

import asyncio
import itertools
import logging
from abc import ABC, abstractmethod
from typing import cast

import msgspec

from embedded_engine.frames import FrameReader, ProtocolError, decode_from_engine, frame
from embedded_engine.generation import EngineDied, Generation, RequestFailed
from embedded_engine.messages import (
    Accepted,
    Cancel,
    Check,
    Counted,
    CountTokens,
    Done,
    Echo,
    Embed,
    Embedded,
    Facts,
    Failed,
    FromEngine,
    Generate,
    Ping,
    Ready,
    StartFailed,
    Text,
    ToEngine,
)
from embedded_engine.vectors import Vectors, VectorsInTheMaking

__all__ = ["Dialogue", "EngineStartFailed"]

_WATCH_TURNS = 4

_logger = logging.getLogger(__name__)


class EngineStartFailed(Exception):
    """The engine said why it cannot start; `code` is `StartFailed.code`. Starting it again unchanged will not help."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code


class Dialogue(asyncio.Protocol, ABC):
    """One connection to an engine; all methods belong to the event loop that opened it."""

    def __init__(self) -> None:
        loop = asyncio.get_running_loop()
        self._transport: asyncio.Transport
        self._frames = FrameReader()
        self._ids = itertools.count(1)
        self._generations: dict[int, Generation] = {}
        self._counts: dict[int, asyncio.Future[int]] = {}
        self._embeddings: dict[int, VectorsInTheMaking] = {}
        self._ready: asyncio.Future[Ready] = loop.create_future()
        self._over: asyncio.Future[None] = loop.create_future()
        self._died: EngineDied | None = None
        self._turns_seen = 0
        self.facts: Facts | None = None
        """The engine's last word on how busy it is; None before the first."""

    @property
    def alive(self) -> bool:
        """Whether requests can be sent."""
        return self._died is None

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
            FrameTooLarge: The request is larger than a frame may be.
            NotEncodable: Its text is not Unicode, or an integer has more than 64 bits.
        """
        request = msgspec.structs.replace(request, id=next(self._ids))
        generation = Generation(request, self._forget)
        self._send(request)
        self._generations[request.id] = generation
        return generation

    async def embed(self, request: Embed) -> Vectors:
        """A vector for each text; `request.id` is replaced by a number of our own. Cancelling it frees the engine.

        Raises:
            RequestFailed: The engine refused or failed the request.
            EngineDied: The process is gone.
            ProtocolError: As for `generate`.
        """
        request = msgspec.structs.replace(request, id=next(self._ids))
        self._send(request)
        embedding = self._embeddings[request.id] = VectorsInTheMaking(request)
        try:
            return await embedding.done
        finally:
            del self._embeddings[request.id]
            if embedding.done.cancelled() and self._died is None:
                self._transport.write(frame(Cancel(id=request.id)))

    async def count_tokens(self, request: CountTokens) -> int:
        """How many prompt tokens a conversation or a text is, template included.

        Raises:
            RequestFailed: The conversation cannot be rendered.
            EngineDied: The process is gone.
            ProtocolError: As for `generate`.
        """
        return await self._ask(msgspec.structs.replace(request, id=next(self._ids)))

    async def check(self, request: Generate) -> int:
        """How many prompt tokens a request has that could be served; it takes no place.

        Raises:
            RequestFailed: It could not, whatever else runs.
            EngineDied: The process is gone.
            ProtocolError: As for `generate`.
        """
        return await self._ask(Check(id=next(self._ids), request=request))

    async def wait_over(self) -> None:
        """Wait until nothing more can come: the engine is gone, or this end was closed."""
        await asyncio.shield(self._over)

    async def keep_watch(self, patience_s: float) -> None:
        """The same, and end an engine by force that makes no step for so long, be it busy or idle.

        The time is counted in turns of ours: a caller that was itself stopped for a while blames nobody.

        Args:
            patience_s: More than the longest step takes, and than the quarter of a second from facts to facts.
        """
        silent_turns = 0
        while silent_turns < _WATCH_TURNS:
            seen = self._turns_seen
            if self.alive:
                self._send(Ping())
            over, _ = await asyncio.wait((self._over,), timeout=patience_s / _WATCH_TURNS)
            if over:
                return
            silent_turns = 0 if seen != self._turns_seen else silent_turns + 1
        _logger.error("the engine made no step for %g s and is ended", patience_s)
        self.kill()
        self._end(EngineDied("the engine stood still and was ended"))

    @abstractmethod
    def kill(self) -> None:
        """End the process by force, for all who use it; harmless when it is gone."""

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
            case Accepted() | Failed() | Embedded() if message.id in self._embeddings:
                self._embeddings[message.id].receive(message)
            case Accepted() | Echo() | Text() | Done() | Failed():
                self._deliver(message)
            case Facts():
                idle = message.queued + message.running == 0
                if idle or self.facts is None or message.steps != self.facts.steps:
                    self._turns_seen += 1
                self.facts = message
            case Counted(id=number, prompt_tokens=prompt_tokens):
                if (answer := self._counts.get(number)) and not answer.done():
                    answer.set_result(prompt_tokens)
            case Ready():
                if not self._ready.done():
                    self._ready.set_result(message)
            case StartFailed(code=code, message=text):
                self._fail_ready(EngineStartFailed(code, text))

    def _deliver(self, message: Accepted | Echo | Text | Done | Failed) -> None:
        generation = self._generations.get(message.id)
        if generation is not None:
            if generation.receive(message):
                del self._generations[message.id]
        elif isinstance(message, Failed) and (answer := self._counts.get(message.id)) and not answer.done():
            answer.set_exception(RequestFailed(message))

    async def _ask(self, message: CountTokens | Check) -> int:
        answer: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        self._send(message)
        self._counts[message.id] = answer
        try:
            return await answer
        finally:
            self._counts.pop(message.id, None)

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
        for embedding in self._embeddings.values():
            embedding.die(EngineDied(str(death)))
        for answer in self._counts.values():
            if not answer.done():
                answer.set_exception(EngineDied(str(death)))

    def _fail_ready(self, error: Exception) -> None:
        if not self._ready.done():
            self._ready.set_exception(error)
            self._ready.exception()  # nobody may be waiting; that is no reason for asyncio to complain
