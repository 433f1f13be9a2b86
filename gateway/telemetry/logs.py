"""Logging of the command: one line a record, secrets hidden, nothing that a value could forge."""

import json
import logging
import sys
from collections.abc import Iterable
from contextlib import suppress
from datetime import UTC, datetime
from typing import TextIO

from gateway.telemetry.log_text import Redactor, on_one_line

# Loggers that would write at INFO what we write ourselves, or at DEBUG what nobody may read: bodies and headers.
_QUIET_LOGGERS = ("asyncio", "httpcore", "httpx", "urllib3", "uvicorn.access", "uvicorn.error")


class LineFormatter(logging.Formatter):
    """``2026-01-31T12:00:00.000Z WARNING gateway.fleet: words``, tracebacks included, on one line."""

    def __init__(self, redact: Redactor) -> None:
        super().__init__("%(asctime)s %(levelname)s %(name)s: %(message)s")
        self._redact = redact

    def formatTime(self, record: logging.LogRecord, datefmt: str | None = None) -> str:  # noqa: N802  # logging's name
        """The record's time in UTC, to the millisecond."""
        del datefmt
        return _utc(record)

    def format(self, record: logging.LogRecord) -> str:
        """The line of ``record``. Secrets go first: escaping could make one unrecognisable."""
        return on_one_line(self._redact(super().format(record)))


class JsonFormatter(logging.Formatter):
    """One JSON object a line: ``time``, ``level``, ``logger``, ``message``, and ``exception`` where there is one."""

    def __init__(self, redact: Redactor) -> None:
        super().__init__()
        self._redact = redact

    def format(self, record: logging.LogRecord) -> str:
        """The line of ``record``; JSON's own escapes keep it one line."""
        fields = {
            "time": _utc(record),
            "level": record.levelname,
            "logger": record.name,
            "message": self._redact(record.getMessage()),
        }
        if record.exc_info:
            fields["exception"] = self._redact(self.formatException(record.exc_info))
        if record.stack_info:
            fields["stack"] = self._redact(record.stack_info)
        return json.dumps(fields)


class _Handler(logging.StreamHandler[TextIO]):
    """Names a record that cannot be formatted; logging's own complaint would print its values, secrets and all."""

    def handleError(self, record: logging.LogRecord) -> None:  # noqa: N802  # logging's name
        error = sys.exc_info()[0]
        name = error.__name__ if error is not None else "error"
        with suppress(OSError, ValueError):  # the stream itself may be what is broken
            self.stream.write(f"{_utc(record)} ERROR {__name__}: {name} in a record of {record.name}\n")


def _utc(record: logging.LogRecord) -> str:
    return datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def configure(stream: TextIO, *, level: str = "INFO", json_lines: bool = False, secrets: Iterable[str] = ()) -> None:
    """Sends all logging of the process to ``stream``, replacing what was there.

    Args:
        stream: where the lines go; a command passes ``sys.stderr``.
        level: the least level that is written, a name of the ``logging`` module in any case.
        json_lines: JSON objects instead of text.
        secrets: what must never be written: provider keys and passwords; never keys of clients.

    Raises:
        ValueError: ``level`` is no level.
    """
    redact = Redactor(secrets)
    handler = _Handler(stream)
    handler.setFormatter(JsonFormatter(redact) if json_lines else LineFormatter(redact))
    root = logging.getLogger()
    root.setLevel(level.upper())
    for old in root.handlers[:]:
        root.removeHandler(old)
    root.addHandler(handler)
    for name in _QUIET_LOGGERS:
        logging.getLogger(name).setLevel(logging.WARNING)
    logging.captureWarnings(capture=True)
