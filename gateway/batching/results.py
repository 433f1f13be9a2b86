"""The result of a line as its API's files have it: OpenAI's output and error files, Anthropic's results."""

import hashlib
from collections.abc import Mapping

import msgspec
from msgspec import Raw, Struct

from gateway.batching.batch import Api, Batch, LineOutcome, Tokens
from gateway.batching.line_book import Result
from gateway.batching.lines import BatchLine
from gateway.errors import HeadraceError
from gateway.wire import anthropic_errors

_OK = 200

_WORDS: Mapping[LineOutcome, tuple[str, str]] = {
    LineOutcome.EXPIRED: (
        "batch_expired",
        "This request could not be executed before the completion window expired.",
    ),
    LineOutcome.CANCELLED: ("batch_cancelled", "This request was not executed, since the batch was cancelled."),
}


class _Details(Struct):
    cached_tokens: int | None = 0
    reasoning_tokens: int | None = 0


class _Usage(Struct):
    prompt_tokens: int | None = 0
    completion_tokens: int | None = 0
    input_tokens: int | None = 0
    output_tokens: int | None = 0
    cache_read_input_tokens: int | None = 0
    cache_creation_input_tokens: int | None = 0
    prompt_tokens_details: _Details | None = None
    completion_tokens_details: _Details | None = None
    input_tokens_details: _Details | None = None
    output_tokens_details: _Details | None = None


class _Answer(Struct):
    usage: _Usage | None = None


_ANSWERS = msgspec.json.Decoder(_Answer)


def answered(batch: Batch, line: BatchLine, status: int, request_id: str, body: bytes) -> Result:
    """The result of a line that was answered, well or not."""
    try:
        compact = msgspec.json.format(body, indent=-1)  # a pretty answer would be many lines
    except (msgspec.DecodeError, RecursionError):
        return _broken(batch, line)
    outcome = LineOutcome.COMPLETED if status == _OK else LineOutcome.FAILED
    if batch.api is Api.ANTHROPIC:
        kind, name = ("succeeded", "message") if status == _OK else ("errored", "error")
        told = _anthropic(line, {"type": kind, name: Raw(compact)})
    else:
        told = _openai(batch, line, {"status_code": status, "request_id": request_id, "body": Raw(compact)}, None)
    return Result(line=line.number, outcome=outcome, body=told, tokens=_tokens(compact))


def unanswered(batch: Batch, line: BatchLine, outcome: LineOutcome) -> Result:
    """The result of a line that was never answered, and will not be."""
    if batch.api is Api.ANTHROPIC:
        kind = "expired" if outcome is LineOutcome.EXPIRED else "canceled"
        return Result(line=line.number, outcome=outcome, body=_anthropic(line, {"type": kind}))
    code, message = _WORDS[outcome]
    body = _openai(batch, line, None, {"code": code, "message": message})
    return Result(line=line.number, outcome=outcome, body=body)


def _broken(batch: Batch, line: BatchLine) -> Result:
    error = HeadraceError("what was answered is no JSON")
    if batch.api is Api.ANTHROPIC:
        body = _anthropic(line, {"type": "errored", "error": Raw(anthropic_errors.error_body(error))})
    else:
        body = _openai(batch, line, None, {"code": error.code, "message": error.message})
    return Result(line=line.number, outcome=LineOutcome.FAILED, body=body)


def _openai(batch: Batch, line: BatchLine, response: object, error: object) -> bytes:
    name = hashlib.blake2b(f"{batch.id}/{line.number}".encode(), digest_size=12).hexdigest()
    told = {"id": f"batch_req_{name}", "custom_id": line.custom_id, "response": response, "error": error}
    return msgspec.json.encode(told)


def _anthropic(line: BatchLine, result: object) -> bytes:
    return msgspec.json.encode({"custom_id": line.custom_id, "result": result})


def _tokens(body: bytes) -> Tokens:
    """What the answer says that it took, whichever format it is in; nothing where it does not say."""
    try:
        usage = _ANSWERS.decode(body).usage
    except (msgspec.DecodeError, RecursionError):
        return Tokens()
    if usage is None:
        return Tokens()
    read = usage.prompt_tokens_details or usage.input_tokens_details or _Details()
    written = usage.completion_tokens_details or usage.output_tokens_details or _Details()
    kept, stored = usage.cache_read_input_tokens or 0, usage.cache_creation_input_tokens or 0
    return Tokens(
        input=(usage.prompt_tokens or 0) + (usage.input_tokens or 0) + kept + stored,
        cached=(read.cached_tokens or 0) + kept,
        output=(usage.completion_tokens or 0) + (usage.output_tokens or 0),
        reasoning=written.reasoning_tokens or 0,
    )
