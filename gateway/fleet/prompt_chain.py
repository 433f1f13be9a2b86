"""A prompt as a chain of digests: one for each chunk, covering everything up to its end.

A prompt is laid out as one byte string to which every further turn only appends. It is cut at every 2 KB, and at the
end of every turn that has brought it at least a quarter of that since the last cut. Where it is cut depends on what
stands before alone: the same conversation, one turn later, has all digests of the turn before as its first ones.

The digests are salted with the tenant and the model. Two tenants never learn from a fast first token that the other has
sent the same text, and a cache is never taken for another model's.
"""

from collections import OrderedDict
from collections.abc import Iterable, Sequence
from functools import lru_cache
from hashlib import sha256
from sys import getsizeof
from typing import Any, Protocol

from msgspec import Struct

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


class PromptChain(Struct, frozen=True, gc=False):
    """The digests of a prompt's chunks, where in the prompt each of them ends, and how long it is, in bytes."""

    digests: Sequence[bytes]
    ends_bytes: Sequence[int]
    length_bytes: int


_EMPTY = PromptChain((), (), 0)


class Chains(Protocol):
    """Makes the chain of a request."""

    def chain(self, request: ChatRequest) -> PromptChain:
        """The prompt's chain, salted with the tenant and the model that was asked for."""
        ...


class RunningChain:
    """A chain that goes on: hashes what is appended and nothing else, and that no sooner than a digest needs it.

    A turn that ends less than a quarter of ``chunk_bytes`` after a cut makes none: short turns would make a chunk of a
    dozen tokens each.
    """

    __slots__ = ("_chunk_bytes", "_cut_bytes", "_digests", "_ends", "_hash", "_open", "_salt")

    def __init__(self, salt: bytes, chunk_bytes: int) -> None:
        self._salt = salt
        self._chunk_bytes = chunk_bytes
        self._hash: Any = None
        self._digests: list[bytes] = []
        self._ends: list[int] = []
        self._cut_bytes = 0
        self._open = b""

    @property
    def open_bytes(self) -> int:
        """How much stands behind the last cut, and waits to be hashed."""
        return len(self._open)

    def go_on(self, turns: Iterable[bytes], text: bytes = b"") -> PromptChain:
        """Appends whole turns, and text that may go on itself, and returns the whole chain.

        It is cut at every full chunk, and behind a turn where there is enough.
        """
        open_, chunk_bytes = self._open, self._chunk_bytes
        for turn in turns:
            open_ += turn
            if len(open_) >= chunk_bytes:
                open_ = self._behind_full_chunks(open_)
            if len(open_) * 4 >= chunk_bytes:
                self._cut(open_)
                open_ = b""
        self._open = self._behind_full_chunks(open_ + text) if text else open_
        return PromptChain(tuple(self._digests), tuple(self._ends), self._cut_bytes + len(self._open))

    def _behind_full_chunks(self, data: bytes) -> bytes:
        at, chunk_bytes = 0, self._chunk_bytes
        while len(data) - at >= chunk_bytes:
            self._cut(data[at : at + chunk_bytes])
            at += chunk_bytes
        return data[at:]

    def _cut(self, chunk: bytes) -> None:
        if self._hash is None:  # processors have instructions for SHA-256: half of blake2b's time
            self._hash = sha256(self._salt + chunk, usedforsecurity=False)
        else:
            self._hash.update(chunk)
        self._cut_bytes += len(chunk)
        self._digests.append(self._hash.digest()[:DIGEST_BYTES])
        self._ends.append(self._cut_bytes)


class _Session(Struct, frozen=True):
    """A conversation as it last was, and its chain up to there. ``text`` is the prompt of a completion."""

    opening: bytes
    messages: tuple[Message, ...]
    text: str
    running: RunningChain
    chain: PromptChain
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
        self._last: tuple[ChatRequest | None, PromptChain] = (None, _EMPTY)
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
        salt, opening, text = _salt(request.arrival.tenant, request.model), opening_bytes(request), request.prompt or ""
        if not isinstance(text, str):  # lists of tokens, or of texts, are no conversation
            return self._opened(salt, b"").go_on((), opening + prompt_bytes(text))
        if request.prompt_bytes >= self._worth_bytes:
            return self._going_on(request, salt, opening, text)
        return self._opened(salt, opening).go_on(map(message_bytes, request.messages), utf8(text))

    def _going_on(self, request: ChatRequest, salt: bytes, opening: bytes, text: str) -> PromptChain:
        """The same, of what may be a conversation that was here before."""
        key, messages = (salt, session_hint(request), _first_words(request)), request.messages
        known = self._sessions.get(key)
        if known is None or not known.goes_on(opening, messages, text):
            known = _Session(opening, (), "", self._opened(salt, opening), _EMPTY, len(salt) + len(opening))
        elif len(messages) == len(known.messages) and len(text) == len(known.text):
            self._sessions.move_to_end(key)
            return known.chain
        running, new = known.running, messages[len(known.messages) :]
        weight_bytes = known.weight_bytes - running.open_bytes + _weight_bytes(new, known.text, text)
        chain = running.go_on(map(message_bytes, new), utf8(text[len(known.text) :]))
        self._keep(key, _Session(opening, messages, text, running, chain, weight_bytes + running.open_bytes))
        return chain

    def _opened(self, salt: bytes, opening: bytes) -> RunningChain:
        running = RunningChain(salt, self._chunk_bytes)
        if opening:
            running.go_on((opening,))
        return running

    def _keep(self, key: Any, session: _Session) -> None:
        before = self._sessions.pop(key, None)
        if before is not None:
            self.held_bytes -= before.weight_bytes
        if session.weight_bytes * 2 > self._most_bytes:
            return
        self.held_bytes += session.weight_bytes
        self._sessions[key] = session
        while self.held_bytes > self._most_bytes:
            _, gone = self._sessions.popitem(last=False)
            self.held_bytes -= gone.weight_bytes


@lru_cache(maxsize=256)
def _salt(tenant: str, model: str) -> bytes:
    return FIELD.join((utf8(tenant), utf8(model), b""))


def _weight_bytes(messages: Iterable[Message], known_text: str, text: str) -> int:
    """What remembering takes more of memory, for the messages and the longer text."""
    longer_bytes = getsizeof(text) - getsizeof(known_text) if len(text) > len(known_text) else 0
    return longer_bytes + sum([_MESSAGE_BYTES + _memory_bytes(message) for message in messages])


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
