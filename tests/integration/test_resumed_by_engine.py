"""A stream that breaks at another backend, and the embedded engine that goes on with it."""

from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.model

WORDS = "The sea is wide and blue, and in the morning the fishermen"


async def test_the_engine_goes_on_where_another_backend_broke_off(
    start_gateway: Any, default_model_path: Path, events_of: Any
) -> None:
    """What was said stands, the model's own words follow, and the official client reads it as one answer."""
    far = {"use": "fake", "text": WORDS + " sleep", "fail": [{"kind": "cut", "after_chunks": len(WORDS.split())}]}
    local = {"use": "embedded", "threads": 1, "slots": 1, "context_tokens": 512}
    targets = ["far", "local"]
    front = await start_gateway(
        {
            "backends": {"far": {**far, "repeat": True}, "local": local},
            "routes": {"sea": {"models": ["sea"], "targets": targets, "resume": True, "rank": "round_robin"}},
        },
        model_dir=default_model_path.parent,
    )
    for _ in range(2):  # one of the two begins at the backend that breaks
        body = {"model": "sea", "stream": True, "temperature": 0, "max_tokens": 30}
        *chunks, end = events_of((await front.post(body)).content)
        text = "".join(choice["delta"].get("content") or "" for chunk in chunks for choice in chunk["choices"])
        if text.startswith(WORDS.rsplit(" ", 1)[0]):
            break
    assert "[DONE]" == end
    assert {"continued_by": "local"} == chunks[-1]["headrace"]
    assert len(text) > len(WORDS)
    assert 1 == len({chunk["id"] for chunk in chunks})
    rows = await front.rows()
    broken, rest = rows[-1]["attempts_made"]
    assert ("far", "truncated", "local", "ok") == (
        broken["backend"],
        broken["status"],
        rest["backend"],
        rest["status"],
    )
