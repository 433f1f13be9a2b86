"""A row of a trace as the request that the gateway would have seen.

Where the trace has words they are read as the gateway reads a body. Where it has only block ids, each stands for a text
of its own of four bytes a token: the gateway then cuts, hashes and matches what it would have cut, hashed and matched.
"""

from collections.abc import Sequence
from hashlib import sha256

import msgspec

from gateway.errors import ConfigurationError, HeadraceError
from gateway.replay.block_cache import Block
from gateway.replay.trace_rows import Row
from gateway.types import Arrival, ChatRequest, Operation, TraceContext
from gateway.wire.format import BYTES_PER_TOKEN, BodyLimits
from gateway.wire.formats import FORMATS

_NO_TRACE = TraceContext(trace_id="0" * 32, span_id="0" * 16, sampled=False)
_LIMITS = BodyLimits()


def request_of(
    row: Row, *, line: int, arrived_s: float, block_tokens: int, file: str
) -> tuple[ChatRequest, tuple[Block, ...], int]:
    """The request, the blocks that an engine may have cached of it, and the tokens of its prompt.

    Raises:
        ConfigurationError: the row's words are no request, or its blocks do not go with its length.
    """
    if row.prompt is not None or row.messages is not None:
        request = _from_words(row, line, arrived_s, file)
        hashed = _hashed(request, block_tokens * BYTES_PER_TOKEN)
        return request, hashed, row.input_length or max(request.prompt_bytes // BYTES_PER_TOKEN, 1)
    prompt_tokens = row.input_length or 1
    blocks = _blocks(row, prompt_tokens, line, block_tokens, file)
    prompt_bytes = prompt_tokens * BYTES_PER_TOKEN
    request = ChatRequest(
        arrival=_arrival(row, Operation.COMPLETION, line, arrived_s),
        model=row.model,
        prompt=_text(blocks, block_tokens * BYTES_PER_TOKEN, prompt_bytes),
        stream=True,
        max_tokens=row.max_tokens,
        prompt_bytes=prompt_bytes,
    )
    return request, blocks, prompt_tokens


def _from_words(row: Row, line: int, arrived_s: float, file: str) -> ChatRequest:
    operation = Operation.CHAT if row.messages is not None else Operation.COMPLETION
    words = {"messages": row.messages} if row.messages is not None else {"prompt": row.prompt}
    limit = {} if row.max_tokens is None else {"max_tokens": row.max_tokens}
    body = msgspec.json.encode({"model": row.model, "stream": True, **limit, **words})
    try:
        return FORMATS[operation].read(_arrival(row, operation, line, arrived_s), body, _LIMITS)
    except HeadraceError as error:
        raise ConfigurationError(f"this is no request: {error.message}", file=file, where=f"line {line}") from error


def _arrival(row: Row, operation: Operation, line: int, arrived_s: float) -> Arrival:
    return Arrival(
        id=f"replay-{line}",
        operation=operation,
        tenant=row.tenant,
        received_s=arrived_s,
        received_unix_s=arrived_s,
        trace=_NO_TRACE,
    )


def _blocks(row: Row, prompt_tokens: int, line: int, block_tokens: int, file: str) -> tuple[int, ...]:
    """The row's block ids; what they leave out of the prompt is nobody else's."""
    wanted = -(-prompt_tokens // block_tokens)
    given = row.hash_ids or ()
    if len(given) > wanted:
        fault = f"{len(given)} `hash_ids` are more than the {wanted} blocks of {prompt_tokens} tokens"
        raise ConfigurationError(fault, file=file, where=f"line {line}", hint="`--block-tokens` is the trace's block")
    if len(given) == wanted:
        return given
    return (*given, *(-(line << 32) - n for n in range(len(given), wanted)))


def _text(blocks: Sequence[int], block_bytes: int, prompt_bytes: int) -> str:
    return "".join([f"{block} ".ljust(block_bytes, "-") for block in blocks])[:prompt_bytes]


def _hashed(request: ChatRequest, block_bytes: int) -> tuple[bytes, ...]:
    """What an engine caches of a prompt in words: full blocks, each known by everything up to its end.

    Engines know nothing of tenants: who says the same shares the blocks.
    """
    said = "".join(f"\n{message.role}\n{message.text()}" for message in request.messages) or str(request.prompt)
    layout = said.encode("utf-8", "surrogatepass")
    running = sha256(request.model.encode("utf-8", "surrogatepass"), usedforsecurity=False)
    blocks: list[bytes] = []
    for end in range(block_bytes, len(layout) + 1, block_bytes):
        running.update(layout[end - block_bytes : end])
        blocks.append(running.digest())
    return tuple(blocks)
