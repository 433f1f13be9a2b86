"""A batch in OpenAI's shapes: what a client asks for, and what it is shown."""

from collections.abc import Mapping
from typing import Annotated, Literal

import msgspec
from msgspec import Meta, Struct

from gateway.batching.batch import ENDPOINTS, WINDOWS_S, Batch, LineOutcome, Status, Tokens
from gateway.batching.lines import LineFault
from gateway.batching.upload import LONGEST_KEPT_S, SHORTEST_KEPT_S
from gateway.errors import InvalidRequest
from gateway.wire.json_body import decode

_Key = Annotated[str, Meta(max_length=64)]
_Word = Annotated[str, Meta(max_length=512)]


class OutputExpiry(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """For how long the files stay that come out of it, from when they are made."""

    anchor: Literal["created_at"]
    seconds: Annotated[int, Meta(ge=SHORTEST_KEPT_S, le=LONGEST_KEPT_S)]


class NewBatch(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a client asks for."""

    input_file_id: str
    endpoint: Annotated[str, Meta(extra_json_schema={"enum": [*ENDPOINTS]})]
    completion_window: Annotated[str, Meta(extra_json_schema={"enum": [*WINDOWS_S]})]
    metadata: Annotated[Mapping[_Key, _Word], Meta(max_length=16)] | None = None
    output_expires_after: OutputExpiry | None = None


_NEW = msgspec.json.Decoder(NewBatch)


def read_new_batch(body: bytes) -> NewBatch:
    """The request.

    Raises:
        InvalidRequest: naming the field.
    """
    asked = decode(_NEW, body)
    if asked.endpoint not in ENDPOINTS:
        raise InvalidRequest(f"endpoint must be one of {', '.join(ENDPOINTS)}", param="endpoint")
    if asked.completion_window not in WINDOWS_S:
        raise InvalidRequest(f"completion_window must be {' or '.join(WINDOWS_S)}", param="completion_window")
    return asked


class FaultList(Struct, kw_only=True):
    """What is wrong with a file, line by line."""

    data: tuple[LineFault, ...]
    object: Literal["list"] = "list"


class RequestCounts(Struct, kw_only=True):
    """How many requests there are, and have ended well or not."""

    total: int
    completed: int
    failed: int


class CachedTokens(Struct, kw_only=True):
    """Of those that went in."""

    cached_tokens: int


class ReasoningTokens(Struct, kw_only=True):
    """Of those that came out."""

    reasoning_tokens: int


class BatchUsage(Struct, kw_only=True):
    """What all answers took."""

    input_tokens: int
    input_tokens_details: CachedTokens
    output_tokens: int
    output_tokens_details: ReasoningTokens
    total_tokens: int


class BatchObject(Struct, kw_only=True):
    """A batch as OpenAI tells it; times are Unix seconds."""

    id: str
    endpoint: str
    errors: FaultList | None
    input_file_id: str
    completion_window: str
    status: Status
    output_file_id: str | None
    error_file_id: str | None
    created_at: int
    in_progress_at: int | None
    expires_at: int
    finalizing_at: int | None
    completed_at: int | None
    failed_at: int | None
    expired_at: int | None
    cancelling_at: int | None
    cancelled_at: int | None
    request_counts: RequestCounts
    metadata: Mapping[str, str] | None
    usage: BatchUsage | None = None
    model: str | None = None
    object: Literal["batch"] = "batch"


class BatchList(Struct, kw_only=True):
    """A page of batches, the newest first."""

    data: list[BatchObject]
    has_more: bool
    first_id: str | None
    last_id: str | None
    object: Literal["list"] = "list"


def shown(batch: Batch, counts: Mapping[str, int]) -> BatchObject:
    """The batch, with how many of its lines have which outcome."""
    record = batch.record
    completed = counts.get(LineOutcome.COMPLETED, 0)
    return BatchObject(
        id=batch.id,
        endpoint=record.endpoint,
        errors=FaultList(data=record.errors) if record.errors else None,
        input_file_id=batch.input_file_id,
        completion_window=record.window,
        status=batch.shown_status,
        output_file_id=record.output_file_id,
        error_file_id=record.error_file_id,
        created_at=int(batch.created_unix_s),
        in_progress_at=_moment(batch, Status.IN_PROGRESS),
        expires_at=int(batch.expires_unix_s),
        finalizing_at=_moment(batch, Status.FINALIZING),
        completed_at=_moment(batch, Status.COMPLETED),
        failed_at=_moment(batch, Status.FAILED),
        expired_at=_moment(batch, Status.EXPIRED),
        cancelling_at=None if batch.cancel_unix_s is None else int(batch.cancel_unix_s),
        cancelled_at=_moment(batch, Status.CANCELLED),
        request_counts=RequestCounts(total=record.total, completed=completed, failed=sum(counts.values()) - completed),
        metadata=record.metadata,
        usage=None if record.tokens is None else _usage(record.tokens),
        model=record.model or None,
    )


def _moment(batch: Batch, status: Status) -> int | None:
    unix_s = batch.record.moments.get(status.value)
    return None if unix_s is None else int(unix_s)


def _usage(tokens: Tokens) -> BatchUsage:
    return BatchUsage(
        input_tokens=tokens.input,
        input_tokens_details=CachedTokens(cached_tokens=tokens.cached),
        output_tokens=tokens.output,
        output_tokens_details=ReasoningTokens(reasoning_tokens=tokens.reasoning),
        total_tokens=tokens.input + tokens.output,
    )
