"""Where a prompt is warm: chained digests of its chunks, and which backend has seen which.

A prompt is laid out as one byte string to which every further turn only appends, cut into chunks of a fixed size, and
each chunk is known by a digest of everything up to its end. What is left over at the tail has no digest yet: the next
turn of the conversation goes on in the middle of it, so a digest of it would never be seen again. Hence the same
conversation, one turn later, has all digests of the turn before as its first ones.

The digests are salted with the tenant and the model. Two tenants never learn from a fast first token that the other has
sent the same text, and a cache is never taken for another model's.
"""

from collections import OrderedDict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from hashlib import sha256

import msgspec

from gateway.conversation import Message, Part, Prompt
from gateway.types import ChatRequest

CHUNK_BYTES = 2048
"""About 512 tokens: finer chunks cost CPU on every request and gain little, a cache hit being worth what it saves."""

_DIGEST_BYTES = 16

# UTF-8 never uses these bytes, so no content can pose as the end of a field or as another role.
_TURN = b"\xff"
_FIELD = b"\xfe"
_PART = b"\xfd"


def chain(request: ChatRequest, model: str, *, chunk_bytes: int = CHUNK_BYTES) -> tuple[bytes, ...]:
    """The digests of all full chunks of the prompt, each covering the prompt from its start.

    Args:
        request: chat or completion. Tool definitions come first, where chat templates put them; images and other media
            enter as their digest.
        model: the name under which the prompt is cached.
        chunk_bytes: the size of a chunk; the tail that does not fill one is left out.

    Returns:
        One 16-byte digest a chunk; empty for a prompt shorter than a chunk.
    """
    layout = memoryview(b"".join(_layout(request)))
    if len(layout) < chunk_bytes:
        return ()
    running = sha256(usedforsecurity=False)  # processors have instructions for it: half of blake2b's time
    running.update(_FIELD.join((_utf8(request.arrival.tenant), _utf8(model), b"")))
    digests = []
    for end in range(chunk_bytes, len(layout) + 1, chunk_bytes):
        running.update(layout[end - chunk_bytes : end])
        digests.append(running.digest()[:_DIGEST_BYTES])
    return tuple(digests)


class PrefixIndex:
    """An approximate picture of every backend's prompt cache: which chunks were sent where, the oldest forgotten first.

    It is told of dispatches only, so it needs nothing from the engines; it errs where an engine evicts earlier or later
    than it does. Not for use by several threads.

    Args:
        capacity_blocks: how many chunks are remembered over all backends; about 150 bytes of memory each.
        chunk_bytes: the size of the chunks in the chains that it is given.
    """

    def __init__(self, capacity_blocks: int, *, chunk_bytes: int = CHUNK_BYTES) -> None:
        if capacity_blocks < 1:
            raise ValueError(f"`capacity_blocks` must be at least 1, not {capacity_blocks}")
        self.chunk_bytes = chunk_bytes
        self._capacity_blocks = capacity_blocks
        self._backends_of: OrderedDict[bytes, int] = OrderedDict()  # digest -> bit mask of backends
        self._bit_of: dict[str, int] = {}

    def __len__(self) -> int:
        return len(self._backends_of)

    def warm_bytes(self, chain: Sequence[bytes], backends: Iterable[str]) -> Mapping[str, int]:
        """How many bytes of the prompt, from its start, each backend has been sent before; one walk for all of them."""
        known = {backend: self._bit_of.get(backend, 0) for backend in backends}
        warm = dict.fromkeys(known, 0)
        alive = 0
        for bit in known.values():
            alive |= bit
        depth = 0
        for digest in chain:
            still = alive & self._backends_of.get(digest, 0)
            if still != alive:
                self._settle(warm, known, alive & ~still, depth)
                alive = still
            if not alive:
                return warm
            depth += 1
        self._settle(warm, known, alive, depth)
        return warm

    def remember(self, chain: Sequence[bytes], backend: str) -> None:
        """The prompt is on its way to ``backend``: its chunks are warm there from now on."""
        if not chain:
            return
        blocks = self._backends_of
        bit = self._bit_of.get(backend) or self._new_bit(backend)
        # From the tail to the head, so that a head is always younger than what hangs on it and is forgotten last.
        for digest in reversed(chain):
            blocks[digest] = blocks.get(digest, 0) | bit
            blocks.move_to_end(digest)
        while len(blocks) > self._capacity_blocks:
            blocks.popitem(last=False)

    def forget(self, backend: str) -> None:
        """The backend has restarted or left: nothing is warm there. Walks over the whole index."""
        bit = self._bit_of.pop(backend, 0)
        if not bit:
            return
        for digest, mask in list(self._backends_of.items()):
            if mask == bit:
                del self._backends_of[digest]
            elif mask & bit:
                self._backends_of[digest] = mask ^ bit

    def _settle(self, warm: dict[str, int], known: Mapping[str, int], mask: int, depth: int) -> None:
        for backend, bit in known.items():
            if bit & mask:
                warm[backend] = depth * self.chunk_bytes

    def _new_bit(self, backend: str) -> int:
        taken = 0
        for bit in self._bit_of.values():
            taken |= bit
        free = ~taken & (taken + 1)  # the lowest bit that nobody has
        self._bit_of[backend] = free
        return free


# ---- the prompt as bytes --------------------------------------------------------------------------------------------


def _layout(request: ChatRequest) -> Iterator[bytes]:
    if request.prompt is not None:
        yield from _prompt(request.prompt)
        return
    for definitions in ("tools", "functions"):
        if definitions in request.raw:
            yield _FIELD + bytes(request.raw[definitions])
    for message in request.messages:
        yield from _message(message)


def _prompt(prompt: Prompt) -> Iterator[bytes]:
    if isinstance(prompt, str):
        yield _utf8(prompt)
    elif prompt and isinstance(prompt[0], int):
        yield _FIELD  # else the tokens 1 2 would be the text "1 2"
        yield from (b"%d " % token for token in prompt)
    else:
        for one in prompt:
            yield from _prompt(one)  # type: ignore[arg-type]  # what is not flat holds texts or lists of tokens
            yield _TURN


def _message(message: Message) -> Iterator[bytes]:
    yield _TURN
    yield _utf8(message.role)
    if message.name is not None:
        yield _FIELD + b"name" + _FIELD + _utf8(message.name)
    if message.tool_call_id is not None:
        yield _FIELD + b"tool_call_id" + _FIELD + _utf8(message.tool_call_id)
    yield _FIELD
    if isinstance(message.content, str):
        yield _utf8(message.content)
    elif message.content is not None:
        for part in message.content:
            yield from _part(part)
    for call in message.tool_calls or ():
        yield _FIELD + _utf8(call.id)
        if call.function is not None:
            yield _FIELD.join((b"", _utf8(call.function.name), _utf8(call.function.arguments)))


def _part(part: Part) -> Iterator[bytes]:
    if part.text is not None:
        yield _utf8(part.text)
    elif part.refusal is not None:
        yield _PART + _utf8(part.refusal)
    else:
        media = msgspec.json.encode((part.type, part.image_url, part.input_audio, part.file))
        yield _PART + sha256(media, usedforsecurity=False).hexdigest().encode()


def _utf8(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")
