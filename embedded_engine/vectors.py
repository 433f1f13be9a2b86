"""The caller's end of one request for embeddings."""

import asyncio
from typing import NamedTuple

from embedded_engine.generation import EngineDied, RequestFailed
from embedded_engine.messages import Accepted, Embed, Embedded, Failed

__all__ = ["Vectors", "VectorsInTheMaking"]


class Vectors(NamedTuple):
    """What came of it.

    Attributes:
        vectors: One a text, in order: 32-bit little-endian floats, of length 1 together.
        prompt_tokens: Of all texts together.
    """

    vectors: tuple[bytes, ...]
    prompt_tokens: int


class VectorsInTheMaking:
    """Collects the vectors of one request.

    Attributes:
        done: Its result, `RequestFailed` or `EngineDied`.
    """

    def __init__(self, request: Embed) -> None:
        self.done: asyncio.Future[Vectors] = asyncio.get_running_loop().create_future()
        self._texts = len(request.texts if request.texts is not None else request.token_ids or ())
        self._vectors: list[bytes] = []
        self._prompt_tokens = 0

    def receive(self, event: Accepted | Embedded | Failed) -> None:
        """Take one event from the engine."""
        if isinstance(event, Accepted):
            self._prompt_tokens = event.prompt_tokens
        elif isinstance(event, Failed):
            self._end(RequestFailed(event))
        else:
            self._vectors.append(event.vector)
            if len(self._vectors) == self._texts and not self.done.done():
                self.done.set_result(Vectors(tuple(self._vectors), self._prompt_tokens))

    def die(self, death: EngineDied) -> None:
        """Nothing more comes."""
        self._end(death)

    def _end(self, error: Exception) -> None:
        if not self.done.done():
            self.done.set_exception(error)
