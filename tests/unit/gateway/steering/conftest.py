"""Verdicts and requests for the tests of steering."""

from collections.abc import Callable
from decimal import Decimal
from typing import Any

import pytest

from gateway.forecast import RequestKind
from gateway.task import JudgedRequest, Verdict

Make = Callable[..., Any]


def _request(number: int = 0, **fields: Any) -> JudgedRequest:
    usual = {
        "id": f"req-{number}",
        "route": "chat",
        "backend": "alpha",
        "model": "small",
        "answered": True,
        "kind": RequestKind.SHORT_IN_SHORT_OUT,
        "cost_usd": Decimal("0.001"),
        "received_unix_s": 1_000_000.0,
    }
    return JudgedRequest(**{**usual, **fields})


def _verdict(*requests: JudgedRequest, success: bool | None, task: str = "t-1", **fields: Any) -> Verdict:
    usual = {"tenant": "acme", "task": task, "success": success, "at_unix_s": 1_000_000.0, "requests": requests}
    return Verdict(**{**usual, **fields})


@pytest.fixture(scope="session")
def judged_request() -> Make:
    """A request of a task, answered by ``alpha/small``; the number is that of its id."""
    return _request


@pytest.fixture(scope="session")
def verdict() -> Make:
    """A verdict of the client on a task and its requests."""
    return _verdict
