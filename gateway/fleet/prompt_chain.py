"""A prompt as a chain of digests: one for each chunk, covering everything up to its end.

A prompt is laid out as one byte string to which every further turn only appends. It is cut at every 2 KB, and at the
end of every turn that has brought it at least a quarter of that since the last cut. Where it is cut depends on what
stands before alone: the same conversation, one turn later, has all digests of the turn before as its first ones.

The digests are salted with the tenant and the model. Two tenants never learn from a fast first token that the other has
sent the same text, and a cache is never taken for another model's.
"""

from collections import OrderedDict
from collections.abc import Sequence
from hashlib import sha256
from sys import getsizeof
from typing import Any, NamedTuple, Protocol

from gateway.conversation import Message
from gateway.fleet.events import DIGEST_BYTES
from gateway.fleet.prompt_layout import FIELD, message_bytes, opening_bytes, prompt_bytes, utf8
from gateway.request_hints import session_hint
from gateway.types import ChatRequest

CHUNK_BYTES = 2048
"""About 512 tokens: finer chunks cost CPU on every request and gain little, a cache hit being worth what it saves."""

_OPENING_CHARACTERS = 256
_MESSAGE_BYTES = 300
"""What a turn takes in memory besides its text."""


class PromptChain(NamedTuple):
    """The digests of a prompt's chunks, where in the prompt each of them ends, and how long it is, in bytes."""

    digests: Sequence[bytes]
    ends_bytes: Sequence[int]
    length_bytes: int


class Chains(Protocol):
    """Makes the chain of a request."""

    def chain(self, request: ChatRequest) -> PromptChain:
        """The prompt's chain, salted with the tenant and the model that was asked for."""
        ...


class RunningChain:
    """A chain that goes on: hashes what is appended and nothing else.

    A turn that ends less than a quarter of ``chunk_bytes`` after a cut makes none: short turns would make a chunk of a
    dozen tokens each.
    """

    __slots__ = ("_chunk_bytes", "_digests", "_ends", "_fill_bytes", "_hash", "length_bytes")

    def __init__(self, salt: bytes, *, chunk_bytes: int = CHUNK_BYTES) -> None:
        self._chunk_bytes = chunk_bytes
        self._hash = sha256(salt, usedforsecurity=False)  # processors have instructions for it: half of blake2b's time
        self._digests: list[bytes] = []
        self._ends: list[int] = []
        self._fill_bytes = 0
        self.length_bytes = 0

    def append(self, data: bytes) -> None:
        """Goes on with ``data``, cutting at every full chunk."""
        at, left = 0, len(data)
        if self._fill_bytes + left >= self._chunk_bytes:
            view = memoryview(data)
            while self._fill_bytes + left >= self._chunk_bytes:
                step = self._chunk_bytes - self._fill_bytes
                self._hash.update(view[at : at + step])
                at, left = at + step, left - step
                self.length_bytes += step
                self._cut()
            data = data[at:]
        self._hash.update(data)
        self.length_bytes += left
        self._fill_bytes += left

    def end_turn(self) -> None:
        """A turn ends here, and with it a chunk, if there is enough in it."""
        if self._fill_bytes * 4 >= self._chunk_bytes:
            self._cut()

    def chain(self) -> PromptChain:
        """What there is so far."""
        return PromptChain(tuple(self._digests), tuple(self._ends), self.length_bytes)

    def _cut(self) -> None:
        self._digests.append(self._hash.digest()[:DIGEST_BYTES])
        self._ends.append(self.length_bytes)
        self._fill_bytes = 0


class _Session(NamedTuple):
    """A conversation as it last was, and its chain up to there. ``text`` is the prompt of a completion."""

    opening: bytes
    messages: tuple[Message, ...]
    text: str
    running: RunningChain
    weight_bytes: int

    def goes_on(self, opening: bytes, messages: tuple[Message, ...], text: str) -> bool:
        """Whether what is asked now begins with all of this, word for word."""
        count = len(self.messages)
        if count > len(messages) or self.opening != opening or not text.startswith(self.text):
            return False
        return self.messages == (messages if count == len(messages) else messages[:count])


class SessionChains:
    """Chains of requests; of a conversation that goes on only what is new is hashed.

    A conversation is found again by what its client calls it and by its first words, and is believed to be the same
    only after every turn that it had compares equal. The turns that are remembered for that take at most ``most_bytes``
    of memory, one conversation at most half of it; who was asked for longest ago goes first. Prompts of less than
    ``worth_bytes`` are hashed each time: that takes no longer than to find them again.
    """

    def __init__(
        self, *, most_bytes: int = 2 * 1024 * 1024, worth_bytes: int = 4096, chunk_bytes: int = CHUNK_BYTES
    ) -> None:
        self._most_bytes = most_bytes
        self._worth_bytes = worth_bytes
        self._chunk_bytes = chunk_bytes
        self._sessions: OrderedDict[Any, _Session] = OrderedDict()
        self._last: tuple[ChatRequest | None, PromptChain] = (None, PromptChain((), (), 0))
        self.held_bytes = 0

    def __len__(self) -> int:
        return len(self._sessions)

    def chain(self, request: ChatRequest) -> PromptChain:
        """See ``Chains``. Of the same request, asked for again, it is known."""
        asked, chain = self._last
        if asked is not request:
            chain = self._chain(request)
            self._last = (request, chain)
        return chain

    def _chain(self, request: ChatRequest) -> PromptChain:
        salt = FIELD.join((utf8(request.arrival.tenant), utf8(request.model), b""))
        opening, messages, text = opening_bytes(request), request.messages, request.prompt or ""
        if not isinstance(text, str):  # lists of tokens, or of texts, are no conversation
            running = RunningChain(salt, chunk_bytes=self._chunk_bytes)
            running.append(opening + prompt_bytes(text))
            return running.chain()
        if request.prompt_bytes < self._worth_bytes:
            return _from_scratch(salt, opening, messages, text, self._chunk_bytes)
        key = (salt, session_hint(request), _first_words(request))
        known = self._take(key)
        if known is None or not known.goes_on(opening, messages, text):
            known = _Session(opening, (), "", _opened(salt, opening, self._chunk_bytes), len(salt) + len(opening))
        weight_bytes = _go_on(known, messages, text)
        self._keep(key, _Session(opening, messages, text, known.running, weight_bytes))
        return known.running.chain()

    def _take(self, key: Any) -> _Session | None:
        session = self._sessions.pop(key, None)
        if session is not None:
            self.held_bytes -= session.weight_bytes
        return session

    def _keep(self, key: Any, session: _Session) -> None:
        if session.weight_bytes * 2 > self._most_bytes:
            return
        self.held_bytes += session.weight_bytes
        self._sessions[key] = session
        while self.held_bytes > self._most_bytes:
            _, gone = self._sessions.popitem(last=False)
            self.held_bytes -= gone.weight_bytes


def _from_scratch(
    salt: bytes, opening: bytes, messages: tuple[Message, ...], text: str, chunk_bytes: int
) -> PromptChain:
    running = _opened(salt, opening, chunk_bytes)
    for message in messages:
        running.append(message_bytes(message))
        running.end_turn()
    if text:
        running.append(utf8(text))
    return running.chain()


def _opened(salt: bytes, opening: bytes, chunk_bytes: int) -> RunningChain:
    running = RunningChain(salt, chunk_bytes=chunk_bytes)
    if opening:
        running.append(opening)
        running.end_turn()
    return running


def _go_on(known: _Session, messages: tuple[Message, ...], text: str) -> int:
    """Takes what is new into the running chain; returns the weight of the whole."""
    running, weight_bytes = known.running, known.weight_bytes
    for message in messages[len(known.messages) :]:
        running.append(message_bytes(message))
        running.end_turn()
        weight_bytes += _MESSAGE_BYTES + _memory_bytes(message)
    if len(text) > len(known.text):
        running.append(utf8(text[len(known.text) :]))
        weight_bytes += getsizeof(text) - getsizeof(known.text)
    return weight_bytes


def _first_words(request: ChatRequest) -> str:
    """How the conversation begins, after what many have in common: of its first turn that is no system prompt."""
    if isinstance(request.prompt, str):
        return request.prompt[:_OPENING_CHARACTERS]
    for message in request.messages:
        if message.role not in {"system", "developer"}:
            return message.text()[:_OPENING_CHARACTERS]
    return ""


def _memory_bytes(message: Message) -> int:
    content = message.content
    total = getsizeof(content) if isinstance(content, str) else 0
    if isinstance(content, tuple):
        total += sum(_any_bytes((part.text, part.image_url, part.input_audio, part.file)) for part in content)
    for call in message.tool_calls or ():
        total += _MESSAGE_BYTES + (getsizeof(call.function.arguments) if call.function is not None else 0)
    return total


def _any_bytes(value: Any) -> int:
    if isinstance(value, dict):
        value = (*value.keys(), *value.values())
    if isinstance(value, (list, tuple)):
        return getsizeof(value) + sum(map(_any_bytes, value))
    return getsizeof(value)
