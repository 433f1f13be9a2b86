"""A batch: requests that a tenant left in a file, and how far they have come.

``validating -> in_progress -> finalizing -> completed``, or ``failed`` where the file is none, ``expired`` where the
window was over, ``cancelled`` where the client did not want it any more. Of each line there is one outcome.
"""

import secrets
from collections.abc import Mapping
from enum import StrEnum

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from gateway.batching.lines import LineFault
from gateway.types import Operation


class Api(StrEnum):
    """Whose API the client speaks: it is answered in its shapes."""

    OPENAI = "openai"
    ANTHROPIC = "anthropic"


class Status(StrEnum):
    """How far a batch is; ``cancelling`` is what one that is not over is shown as when it was cancelled."""

    VALIDATING = "validating"
    IN_PROGRESS = "in_progress"
    FINALIZING = "finalizing"
    COMPLETED = "completed"
    FAILED = "failed"
    EXPIRED = "expired"
    CANCELLING = "cancelling"
    CANCELLED = "cancelled"


UNDER_WAY = frozenset((Status.VALIDATING, Status.IN_PROGRESS, Status.FINALIZING))


class LineOutcome(StrEnum):
    """What became of a line. A metric label, so it stays small."""

    COMPLETED = "completed"
    FAILED = "failed"
    EXPIRED = "expired"
    CANCELLED = "cancelled"


ENDPOINTS: Mapping[str, Operation] = {
    "/v1/chat/completions": Operation.CHAT,
    "/v1/completions": Operation.COMPLETION,
    "/v1/embeddings": Operation.EMBEDDING,
    "/v1/responses": Operation.RESPONSE,
    "/v1/moderations": Operation.MODERATION,
    "/v1/images/generations": Operation.IMAGE,
}
"""What OpenAI's batches may be for."""

MESSAGES = "/v1/messages"
"""What Anthropic's are for."""

WINDOWS_S: Mapping[str, float] = {"24h": 86_400.0}
"""The completion windows that OpenAI's API knows."""


class Tokens(Struct, frozen=True, kw_only=True):
    """What the answers of a batch say that they took, in sum."""

    input: int = 0
    cached: int = 0
    output: int = 0
    reasoning: int = 0


class Record(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """All of a batch that only whoever runs it changes.

    ``key_sha256`` is the key that it was made with, empty where none is asked for. ``headers`` go with each line.
    ``moments`` are when it came to be what it was, by status. ``counts`` are of its end; before that, rows are counted.
    """

    endpoint: str
    window: str
    key_sha256: str
    headers: tuple[tuple[str, str], ...] = ()
    metadata: Mapping[str, str] | None = None
    output_kept_s: float | None = None
    moments: Mapping[str, float] = {}
    errors: tuple[LineFault, ...] = ()
    model: str = ""
    total: int = 0
    counts: Mapping[str, int] | None = None
    tokens: Tokens | None = None
    output_file_id: str | None = None
    error_file_id: str | None = None


class Batch(Struct, frozen=True, kw_only=True):
    """One batch. It belongs to its tenant."""

    id: str
    tenant: str
    api: Api
    status: Status
    input_file_id: str
    created_unix_s: float
    expires_unix_s: float
    cancel_unix_s: float | None
    record: Record

    @property
    def over(self) -> bool:
        """Whether nothing happens to it any more."""
        return self.status not in UNDER_WAY

    @property
    def shown_status(self) -> Status:
        """What its client is told."""
        return self.status if self.over or self.cancel_unix_s is None else Status.CANCELLING

    @property
    def operation(self) -> Operation:
        """What each of its lines asks for."""
        return ENDPOINTS.get(self.record.endpoint, Operation.MESSAGES)

    def become(self, status: Status, now_unix_s: float, **fields: object) -> "Batch":
        """The same with another status from now on, and other fields of its record."""
        moments = {**self.record.moments, status.value: now_unix_s}
        return replace(self, status=status, record=replace(self.record, moments=moments, **fields))


def new_batch_id(api: Api) -> str:
    """A name for a batch, as those of its API look."""
    return f"{'msgbatch' if api is Api.ANTHROPIC else 'batch'}_{secrets.token_hex(12)}"


_RECORDS = msgspec.json.Decoder(Record)


def read_record(data: bytes) -> Record:
    """The record as it was kept."""
    return _RECORDS.decode(data)
