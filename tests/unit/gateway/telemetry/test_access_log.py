import logging
from collections.abc import Callable

import pytest
from msgspec.structs import replace

from gateway.telemetry.access_log import AccessLog
from gateway.types import LedgerEntry, Outcome, Status

MakeEntry = Callable[..., LedgerEntry]


async def test_one_line_a_request(make_entry: MakeEntry, caplog: pytest.LogCaptureFixture) -> None:
    """Who asked for what, where it went, how it ended and what it took."""
    sink = AccessLog()
    with caplog.at_level(logging.INFO, "headrace.access"):
        sink.take([make_entry()])
    await sink.close()
    expected = (
        "request=req-0 tenant=acme operation=chat model=fast route=default status=ok http=200 backend=groq attempts=1 "
        "prompt_tokens=100 output_tokens=51 duration_s=2.500 trace=00000000000000000000000000000001"
    )
    assert [expected] == [record.message for record in caplog.records]


def test_refused_request_has_a_line_too(make_entry: MakeEntry, caplog: pytest.LogCaptureFixture) -> None:
    """Fields that a request never got are left out."""
    outcome = Outcome(status=Status.REJECTED, http_status=401, error="Unauthenticated")
    with caplog.at_level(logging.INFO, "headrace.access"):
        AccessLog().take([make_entry(request=None, route="", forecast=None, attempts=(), outcome=outcome)])
    assert "status=rejected http=401 error=Unauthenticated attempts=0 duration_s" in caplog.text
    assert "model=" not in caplog.text


def test_client_cannot_forge_a_field(make_entry: MakeEntry, caplog: pytest.LogCaptureFixture) -> None:
    """A model's name with blanks, quotes or equals signs stays one quoted value."""
    entry = make_entry()
    forged = replace(entry, request=replace(entry.request, model="x status=ok tenant='admin'"))
    with caplog.at_level(logging.INFO, "headrace.access"):
        AccessLog().take([forged])
    assert """model="x status=ok tenant='admin'" route""" in caplog.text


def test_no_words_in_the_line(marked_entry: LedgerEntry, marker: str, caplog: pytest.LogCaptureFixture) -> None:
    """Not even an entry that still has its words brings them into the log."""
    with caplog.at_level(logging.INFO, "headrace.access"):
        AccessLog().take([marked_entry])
    assert 1 == len(caplog.records)
    assert marker not in caplog.text


def test_silent_above_info(make_entry: MakeEntry, caplog: pytest.LogCaptureFixture) -> None:
    """Where INFO is off, no line is made."""
    with caplog.at_level(logging.WARNING, "headrace.access"):
        AccessLog().take([make_entry()])
    assert [] == caplog.records
