"""Rows of answered prompts, as ``headrace forecast eval`` reads them; and the request that each row stands for.

A row has ``conv``, ``turn``, ``prompt``, ``context_tokens``, ``prev_answer_tokens`` (a list, the oldest first) and
``answer_tokens``; ``model`` and ``tenant`` where they are known. Also used where they stand: ``prompt_chars`` of a
prompt that was shortened, and ``last_answer_tail``. Other fields are ignored.
"""

import gzip
import zlib
from collections import OrderedDict
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any, BinaryIO, cast

import msgspec
from msgspec import Meta, Struct

from gateway.conversation import Message
from gateway.errors import ConfigurationError
from gateway.price import Usage
from gateway.types import Arrival, Attempt, ChatRequest, LedgerEntry, Operation, Outcome, Status, TraceContext

MOST_LINE_BYTES = 64 * 1024 * 1024
_MOST_ANSWER_CHARS = 1024 * 1024
"""Longer than any answer whose length is believed."""
_CONVERSATIONS = 256
_PROMPTS = 8
_KEPT_CHARS = 2000
_CHARS_PER_TOKEN = 4
_SECONDS_PER_TOKEN = 0.02
_GZIP = b"\x1f\x8b"

Tokens = Annotated[int, Meta(ge=0, le=100_000_000)]


class Row(Struct, frozen=True, kw_only=True):
    """One answered prompt."""

    conv: str | int
    turn: Tokens
    prompt: str
    context_tokens: Tokens
    prev_answer_tokens: list[Tokens]
    answer_tokens: Tokens
    model: str = "model"
    tenant: str = "tenant"
    prompt_chars: Tokens = 0
    last_answer_tail: str = ""


def read_rows(path: Path) -> Iterator[Row]:
    """The rows of a file of JSON lines, compressed or not, one at a time.

    Raises:
        ConfigurationError: with the number of the line that is no row, or that there is none.
    """
    number = 0
    try:
        with _opened(path) as file:
            for number, line in enumerate(_lines(file, path), start=1):
                if line.strip():
                    yield _row(line, path, number)
    except (OSError, EOFError, zlib.error) as error:
        reason = getattr(error, "strerror", None) or str(error)
        where = f"line {number + 1}" if number else ""
        raise ConfigurationError(f"cannot be read: {reason}", file=str(path), where=where) from error


def _row(line: bytes, path: Path, number: int) -> Row:
    try:
        return msgspec.json.decode(line, type=Row)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise ConfigurationError(str(error), file=str(path), where=f"line {number}") from error


def _opened(path: Path) -> BinaryIO:
    with path.open("rb") as file:
        compressed = file.read(2) == _GZIP
    return cast("BinaryIO", gzip.open(path, "rb") if compressed else path.open("rb"))


def _lines(file: BinaryIO, path: Path) -> Iterator[bytes]:
    number = 0
    while line := file.readline(MOST_LINE_BYTES + 1):
        number += 1
        if len(line) > MOST_LINE_BYTES:
            fault = f"longer than {MOST_LINE_BYTES // 1024**2} MB"
            raise ConfigurationError(fault, file=str(path), where=f"line {number}")
        yield line


class Conversations:
    """Makes of each row the request that a client would have sent, with the turns before it: one a second.

    The prompts of earlier rows of the conversation stand there as they were; an answer whose text is not known is
    filled with words of its length. Bounded: a few prompts of the conversations seen last are kept.
    """

    def __init__(self) -> None:
        self._prompts: OrderedDict[Any, list[str]] = OrderedDict()
        self._filler = ""
        self._rows = 0

    def request(self, row: Row) -> ChatRequest:
        """The request of the row."""
        key = (row.tenant, row.conv)
        earlier = self._prompts.pop(key, [])
        if not row.turn:
            earlier = []
        messages = self._turns(row, earlier)
        kept = earlier if len(earlier) < _PROMPTS else [earlier[0], *earlier[2:]]
        self._prompts[key] = [*kept, row.prompt[:_KEPT_CHARS]]
        if len(self._prompts) > _CONVERSATIONS:
            self._prompts.popitem(last=False)
        messages.append(Message(role="user", content=self._prompt(row)))
        self._rows += 1
        return request_with(row, tuple(messages), received_s=float(self._rows))

    def _turns(self, row: Row, earlier: list[str]) -> list[Message]:
        answers = row.prev_answer_tokens
        messages = []
        for place, tokens in enumerate(answers):
            behind = len(answers) - place
            asked = earlier[-behind] if behind < len(earlier) else ""
            if place == 0 and earlier:
                asked = earlier[0]
            messages.append(Message(role="user", content=asked))
            tail = row.last_answer_tail if behind == 1 else ""
            messages.append(Message(role="assistant", content=self._words(tokens, len(tail)) + tail))
        return messages

    def _prompt(self, row: Row) -> str:
        missing = min(row.prompt_chars - len(row.prompt), MOST_LINE_BYTES)
        if missing <= 0:
            return row.prompt
        half = len(row.prompt) // 2
        return row.prompt[:half] + self._filled(missing) + row.prompt[half:]

    def _words(self, tokens: int, but_chars: int) -> str:
        return self._filled(min(max(tokens * _CHARS_PER_TOKEN - but_chars, 0), _MOST_ANSWER_CHARS))

    def _filled(self, chars: int) -> str:
        if chars > len(self._filler):
            self._filler = "word " * (chars // 5 + 1)
        return self._filler[:chars]


def request_with(row: Row, messages: tuple[Message, ...], *, received_s: float = 0.0) -> ChatRequest:
    """A request of the row's tenant for its model, which came at ``received_s``."""
    return ChatRequest(
        arrival=Arrival(
            id=f"{row.tenant}/{row.conv}/{row.turn}",
            operation=Operation.CHAT,
            tenant=row.tenant,
            received_s=received_s,
            received_unix_s=received_s,
            trace=_NO_TRACE,
        ),
        model=row.model,
        messages=messages,
        prompt_bytes=row.context_tokens * _CHARS_PER_TOKEN,
    )


def entry_of(request: ChatRequest, row: Row) -> LedgerEntry:
    """The ledger's entry of the row: an answer that ended well."""
    started_s = request.arrival.received_s
    ended_s = started_s + 1.0 + row.answer_tokens * _SECONDS_PER_TOKEN
    attempt = Attempt(
        backend="backend",
        model=row.model,
        status=Status.OK,
        started_s=started_s,
        ended_s=ended_s,
        span_id=_NO_TRACE.span_id,
        usage=Usage(prompt_tokens=row.context_tokens, output_tokens=row.answer_tokens),
    )
    return LedgerEntry(
        arrival=request.arrival,
        request=request,
        route="",
        forecast=None,
        decision=None,
        attempts=(attempt,),
        outcome=Outcome(status=Status.OK, http_status=200, finish_reason="stop"),
        ended_s=ended_s,
    )


_NO_TRACE = TraceContext(trace_id="0" * 31 + "1", span_id="0" * 15 + "1")
