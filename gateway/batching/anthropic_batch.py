"""A batch in the shapes of Anthropic's Message Batches: what a client asks for, and what it is shown."""

import re
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from typing import Literal

import msgspec
from msgspec import Raw, Struct

from gateway.batching.batch import MESSAGES, Batch, LineOutcome, Status
from gateway.batching.lines import BatchLine, read_line
from gateway.errors import InvalidRequest
from gateway.wire.json_body import decode

_CUSTOM_ID = re.compile(r"[a-zA-Z0-9_-]{1,64}")


class NewRequest(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One request: the client's name for it, and the body that ``/v1/messages`` would get."""

    custom_id: str
    params: Raw


class NewMessageBatch(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a client asks for."""

    requests: tuple[NewRequest, ...]


NEW_MESSAGE_BATCH = {
    "type": "object",
    "properties": {
        "requests": {
            "type": "array",
            "minItems": 1,
            "items": {
                "type": "object",
                "properties": {
                    "custom_id": {"type": "string", "pattern": f"^{_CUSTOM_ID.pattern}$"},
                    "params": {
                        "type": "object",
                        "properties": {"model": {"type": "string", "minLength": 1}},
                        "required": ["model"],
                    },
                },
                "required": ["custom_id", "params"],
                "additionalProperties": False,
            },
        }
    },
    "required": ["requests"],
    "additionalProperties": False,
}
"""Its schema."""

_NEW = msgspec.json.Decoder(NewMessageBatch)


def read_new_requests(body: bytes, *, max_lines: int) -> Iterator[bytes]:
    """Each request as a line of a batch's file.

    Raises:
        InvalidRequest: naming the field.
    """
    asked = decode(_NEW, body).requests
    if not asked:
        raise InvalidRequest("requests must have one at least", param="requests")
    if len(asked) > max_lines:
        raise InvalidRequest(f"requests may have {max_lines} at most", param="requests")
    names: set[str] = set()
    for index, one in enumerate(asked):
        where = f"requests[{index}]"
        if not _CUSTOM_ID.fullmatch(one.custom_id):
            words = f"{where}.custom_id must be 1 to 64 letters, digits, _ and -"
            raise InvalidRequest(words, param=f"{where}.custom_id")
        if one.custom_id in names:
            raise InvalidRequest(f"{where}.custom_id stands on an earlier one, too", param=f"{where}.custom_id")
        names.add(one.custom_id)
        yield _line(one, index, where)


def _line(one: NewRequest, index: int, where: str) -> bytes:
    try:
        params = msgspec.json.format(one.params, indent=-1)
    except msgspec.DecodeError:
        raise InvalidRequest(f"{where}.params is not valid JSON", param=f"{where}.params") from None
    line = msgspec.json.encode({"custom_id": one.custom_id, "method": "POST", "url": MESSAGES, "body": Raw(params)})
    found = read_line(index + 1, line, MESSAGES)
    if not isinstance(found, BatchLine):
        param = f"{where}.{(found.param or 'params').replace('body', 'params')}"
        raise InvalidRequest(f"{param}: {found.message.replace('body', 'params')}", param=param)
    return line


class MessageBatchCounts(Struct, kw_only=True):
    """How the requests have ended; all are ``processing`` until the last one has."""

    processing: int
    succeeded: int
    errored: int
    canceled: int
    expired: int


class MessageBatch(Struct, kw_only=True):
    """A batch as Anthropic tells it; times are RFC 3339."""

    id: str
    processing_status: Literal["in_progress", "canceling", "ended"]
    request_counts: MessageBatchCounts
    created_at: str
    expires_at: str
    ended_at: str | None
    cancel_initiated_at: str | None
    results_url: str | None
    archived_at: None = None
    type: Literal["message_batch"] = "message_batch"


class MessageBatchPage(Struct, kw_only=True):
    """A page of them, the newest first."""

    data: list[MessageBatch]
    has_more: bool
    first_id: str | None
    last_id: str | None


class DeletedMessageBatch(Struct, kw_only=True):
    """It is not here any more."""

    id: str
    type: Literal["message_batch_deleted"] = "message_batch_deleted"


def shown(batch: Batch, site: str) -> MessageBatch:
    """The batch; ``site`` is the address at which its results can be asked for."""
    record = batch.record
    counts: Mapping[str, int] = record.counts or {}
    ended_unix_s = record.moments.get(batch.status.value) if batch.over else None
    return MessageBatch(
        id=batch.id,
        processing_status=_status(batch),
        request_counts=MessageBatchCounts(
            processing=0 if batch.over else record.total,
            succeeded=counts.get(LineOutcome.COMPLETED, 0),
            errored=counts.get(LineOutcome.FAILED, 0),
            canceled=counts.get(LineOutcome.CANCELLED, 0),
            expired=counts.get(LineOutcome.EXPIRED, 0),
        ),
        created_at=_rfc3339(batch.created_unix_s),
        expires_at=_rfc3339(batch.expires_unix_s),
        ended_at=None if ended_unix_s is None else _rfc3339(ended_unix_s),
        cancel_initiated_at=None if batch.cancel_unix_s is None else _rfc3339(batch.cancel_unix_s),
        results_url=f"{site}/v1/messages/batches/{batch.id}/results" if batch.over else None,
    )


def _status(batch: Batch) -> Literal["in_progress", "canceling", "ended"]:
    if batch.over:
        return "ended"
    return "canceling" if batch.shown_status is Status.CANCELLING else "in_progress"


def _rfc3339(unix_s: float) -> str:
    return datetime.fromtimestamp(unix_s, UTC).isoformat().replace("+00:00", "Z")
