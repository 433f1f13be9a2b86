"""``schemathesis`` on a served gateway, against the document that it serves: a short hunt, the same one each time.

`make hunt` runs a long one. Which checks have exceptions, and why, stands in ``tests/openapi/checks.py``.
"""

from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from tests.integration.conftest import KEY
from tests.openapi.hunt import hunt

SEED = ("--seed", "1", "--generation-deterministic")
HUNTS = {
    # Every case that the schemas define, of routes whose bodies nobody else reads in their place.
    "cases": ("--phases", "coverage", "--exclude-tag", "passed on", "--exclude-tag", "ollama"),
    # Made-up cases for all routes, alone and one after the other.
    "examples": ("--phases", "fuzzing,stateful", "--max-examples", "5"),
}


@pytest.mark.timeout(400)
@pytest.mark.parametrize("kind", HUNTS)
async def test_what_is_served_is_what_the_document_says(
    kind: str, start_gateway: Callable[..., Awaitable[Any]]
) -> None:
    """What it allows is taken, what it forbids is refused; answers, events, errors and headers are as it says."""
    running = await start_gateway({"locked": True}, metrics_key=KEY)
    code, report = await hunt(running.url.removesuffix("/v1"), KEY, *SEED, *HUNTS[kind])
    assert 0 == code, report
    assert "No issues found" in report
