import io
import json
import logging
from collections.abc import Iterator

import pytest

from gateway.telemetry.logs import configure

PROVIDER_KEY = "gsk-canary-provider-key"
LOG = logging.getLogger("gateway.test")


@pytest.fixture(autouse=True)
def _logging_as_it_was() -> Iterator[None]:
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    yield
    root.handlers[:] = handlers
    root.setLevel(level)
    logging.captureWarnings(capture=False)


@pytest.fixture(params=[False, True], ids=["text", "json"])
def json_lines(request: pytest.FixtureRequest) -> bool:
    """Both forms of a line."""
    return bool(request.param)


def _fail() -> None:
    raise ConnectionError(f"cannot reach https://me:{PROVIDER_KEY}@api.example/v1?key={PROVIDER_KEY}\nFORGED line")


def test_no_secret_at_any_level(*, json_lines: bool) -> None:
    """A key in a message, in its values, in an error, in a traceback and in its causes is hidden, at DEBUG too."""
    out = io.StringIO()
    configure(out, level="debug", json_lines=json_lines, secrets=[PROVIDER_KEY])
    LOG.debug("headers %s", [(b"authorization", f"Bearer {PROVIDER_KEY}".encode())])
    LOG.warning("key is %r", PROVIDER_KEY)
    try:
        try:
            _fail()
        except ConnectionError as error:
            raise RuntimeError(f"with {PROVIDER_KEY}") from error
    except RuntimeError:
        LOG.exception("upstream %s broke", PROVIDER_KEY)
    LOG.info("where", stack_info=True)
    assert "canary" not in out.getvalue()
    assert 4 == len(out.getvalue().splitlines())
    assert "RuntimeError" in out.getvalue()


def test_one_line_a_record(*, json_lines: bool) -> None:
    """A value with line ends and terminal escapes forges neither a line nor a colour."""
    out = io.StringIO()
    configure(out, json_lines=json_lines)
    LOG.info("model %s", "x\n2026-01-01 INFO gateway: all is well\x1b[2K\u2028\ud800")
    (line,) = out.getvalue().splitlines()
    assert "\x1b" not in line
    assert "gateway.test" in line


def test_json_lines_have_their_fields() -> None:
    """Each line is an object with time, level, logger and message, and the exception where there is one."""
    out = io.StringIO()
    configure(out, json_lines=True)
    try:
        _fail()
    except ConnectionError:
        LOG.exception("it %s", "broke")
    record = json.loads(out.getvalue())
    assert ("ERROR", "gateway.test", "it broke") == (record["level"], record["logger"], record["message"])
    assert record["time"].endswith("Z")
    assert "ConnectionError" in record["exception"]


def test_record_that_cannot_be_formatted_is_named_and_not_shown(capsys: pytest.CaptureFixture[str]) -> None:
    """A log call with the wrong values must not print them, as logging does by itself."""
    out = io.StringIO()
    configure(out, secrets=[PROVIDER_KEY])
    LOG.info("%d tokens", PROVIDER_KEY)
    assert "TypeError in a record of gateway.test" in out.getvalue()
    assert ("", False) == (capsys.readouterr().err, "canary" in out.getvalue())


def test_closed_stream_breaks_nobody() -> None:
    """A log that nobody reads any more is no reason to fail a request."""
    out = io.StringIO()
    configure(out)
    out.close()
    LOG.info("hello")
    assert out.closed


def test_level_comes_from_the_settings() -> None:
    """Below the level nothing is written, and a word that is no level is refused."""
    out = io.StringIO()
    configure(out, level="warning")
    LOG.info("quiet")
    LOG.warning("loud")
    assert 1 == len(out.getvalue().splitlines())
    with pytest.raises(ValueError, match="LOUD"):
        configure(out, level="loud")


def test_libraries_do_not_tell_what_they_send() -> None:
    """HTTP libraries log URLs at INFO and headers at DEBUG; ours stay off whatever the level."""
    out = io.StringIO()
    configure(out, level="debug")
    for name in ("httpx", "httpcore.http11", "urllib3.connectionpool", "uvicorn.access"):
        logging.getLogger(name).info("GET https://api.example/?key=canary")
    assert "" == out.getvalue()


def test_configuring_again_replaces() -> None:
    """A second call, as after a reload, does not write every line twice."""
    first, second = io.StringIO(), io.StringIO()
    configure(first)
    configure(second)
    LOG.info("hello")
    assert ("", 1) == (first.getvalue(), len(second.getvalue().splitlines()))
