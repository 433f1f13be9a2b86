"""What of an answer comes into the files of a batch."""

import msgspec
import pytest

from gateway.batching.batch import Api, Batch, LineOutcome, Record, Status, Tokens
from gateway.batching.lines import BatchLine
from gateway.batching.results import answered

BATCH = Batch(
    id="batch_1",
    tenant="acme",
    api=Api.OPENAI,
    status=Status.IN_PROGRESS,
    input_file_id="file-1",
    created_unix_s=0.0,
    expires_unix_s=1.0,
    cancel_unix_s=None,
    record=Record(endpoint="/v1/chat/completions", window="24h", key_sha256=""),
)
LINE = BatchLine(number=1, custom_id="a", model="m", body=b"{}")


@pytest.mark.parametrize("body", [b"[" * 50_000 + b"]" * 50_000, b'{"usage"', b""], ids=["deep", "cut", "empty"])
def test_an_answer_that_nobody_can_write_down_fails_its_line(body: bytes) -> None:
    """And not its batch, which would never end."""
    result = answered(BATCH, LINE, 200, "req-1", body)
    told = msgspec.json.decode(result.body)
    assert (LineOutcome.FAILED, Tokens()) == (result.outcome, result.tokens)
    assert ("a", None, "what was answered is no JSON") == (
        told["custom_id"],
        told["response"],
        told["error"]["message"],
    )
