"""Turns texts into vectors: the mean of what the model's last layer says at each token, scaled to length 1.

Texts are read apart from all running requests, a few tokens a step, so that they hold up no stream. Vectors go out one
by one: a request of any size needs the memory of one text.
"""

from collections import deque
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from embedded_engine.errors import BadNumerics, DecodeFailed, QueueFull, RequestError
from embedded_engine.kernels.port import DecodeError, Kernels
from embedded_engine.messages import Accepted, Embedded, Failed

__all__ = ["Embedder", "PreparedEmbedding"]


@dataclass(frozen=True, slots=True, kw_only=True)
class PreparedEmbedding:
    """A request whose texts are read: token ids, none of them empty, each within the context."""

    id: int
    texts: tuple[tuple[int, ...], ...]


@dataclass(slots=True, kw_only=True)
class _Reading:
    """A request, and how far it is: so many texts done, so many tokens of the next."""

    request: PreparedEmbedding
    texts_done: int = 0
    tokens_done: int = 0
    total: NDArray[np.float64] = field(default_factory=lambda: np.zeros(1))


class Embedder:
    """The embedding requests of one engine, which take turns text by text.

    Args:
        kernels: The model.
        queue_limit: So many may wait.
    """

    def __init__(self, kernels: Kernels, *, queue_limit: int) -> None:
        self._kernels = kernels
        self._queue_limit = queue_limit
        self._queue: deque[_Reading] = deque()

    @property
    def busy(self) -> bool:
        """Whether a step would have anything to do."""
        return bool(self._queue)

    @property
    def requests(self) -> tuple[int, ...]:
        """The numbers of all requests."""
        return tuple(reading.request.id for reading in self._queue)

    def submit(self, request: PreparedEmbedding) -> Accepted:
        """Put a request into the queue; its other events come from `step`.

        Raises:
            QueueFull: Too many wait already.
        """
        if len(self._queue) > self._queue_limit:
            raise QueueFull(f"{len(self._queue)} requests for embeddings are waiting already; try again later")
        self._queue.append(_Reading(request=request))
        return Accepted(id=request.id, prompt_tokens=sum(map(len, request.texts)))

    def cancel(self, number: int) -> None:
        """Drop a request; unknown numbers are ignored."""
        self._queue = deque(reading for reading in self._queue if reading.request.id != number)

    def step(self, most_tokens: int) -> list[Embedded | Failed]:
        """Read up to `most_tokens`, of one text or of several, and say what came of it."""
        events: list[Embedded | Failed] = []
        while most_tokens > 0 and self._queue:
            reading = self._queue[0]
            text, start = reading.request.texts[reading.texts_done], reading.tokens_done
            tokens = text[start : start + most_tokens]
            most_tokens -= len(tokens)
            try:
                events += self._read(reading, tokens)
            except DecodeError as error:
                events.append(self._fail(reading, DecodeFailed(str(error))))
            except BadNumerics as error:
                events.append(self._fail(reading, error))
        return events

    def _read(self, reading: _Reading, tokens: tuple[int, ...]) -> list[Embedded]:
        """Read the next tokens; with the last of a text comes its vector, and it is another request's turn."""
        states = self._kernels.hidden_states(tokens, reading.tokens_done)
        total: NDArray[np.float64] = np.add.reduce(states, axis=0, dtype=np.float64)
        reading.total = reading.total + total if reading.tokens_done else total
        reading.tokens_done += len(tokens)
        if reading.tokens_done < len(reading.request.texts[reading.texts_done]):
            return []
        vector = _unit(reading.total).astype("<f4").tobytes()
        event = Embedded(id=reading.request.id, text=reading.texts_done, vector=vector)
        reading.texts_done, reading.tokens_done = reading.texts_done + 1, 0
        self._queue.popleft()
        if reading.texts_done < len(reading.request.texts):
            self._queue.append(reading)
        return [event]

    def _fail(self, reading: _Reading, error: RequestError) -> Failed:
        self._queue.popleft()
        return Failed(id=reading.request.id, code=error.code, message=str(error), param=error.param)


def _unit(vector: NDArray[np.float64]) -> NDArray[np.float64]:
    """The direction alone: of a sum it is the same as of a mean.

    Raises:
        BadNumerics: It has none.
    """
    length = float(np.linalg.norm(vector))
    if not np.isfinite(length) or length == 0:
        raise BadNumerics(f"the model's hidden states have the length {length}")
    return vector / length
