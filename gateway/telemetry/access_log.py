"""One log line a request, made from its ledger entry: who, what, where, how it ended; never what was said."""

import logging
from collections.abc import Sequence

from gateway.ledger.entry_sink import take_each
from gateway.types import LedgerEntry

MAX_MODEL_CHARACTERS = 128

_log = logging.getLogger("headrace.access")


class AccessLog:
    """A sink of the ledger that writes a line at INFO, and does nothing where that level is off."""

    def take(self, batch: Sequence[LedgerEntry]) -> None:
        """Logs the entries."""
        if _log.isEnabledFor(logging.INFO):
            take_each(batch, _write)

    async def close(self) -> None:
        """Nothing to give back."""


def _write(entry: LedgerEntry) -> None:
    _log.info("%s", _line(entry))


def _line(entry: LedgerEntry) -> str:
    arrival, request, outcome = entry.arrival, entry.request, entry.outcome
    serving = entry.serving
    usage = serving.usage if serving is not None else None
    fields = {
        "request": arrival.id,
        "tenant": arrival.tenant,
        "operation": arrival.operation.value,
        "model": request.model[:MAX_MODEL_CHARACTERS] if request is not None else "",
        "route": entry.route,
        "status": outcome.status.value,
        "http": outcome.http_status,
        "error": outcome.error,
        "backend": serving.backend if serving is not None else "",
        "attempts": len(entry.attempts),
        "prompt_tokens": usage.prompt_tokens if usage is not None else "",
        "output_tokens": usage.output_tokens if usage is not None else "",
        "duration_s": f"{entry.ended_s - arrival.received_s:.3f}",
        "trace": arrival.trace.trace_id,
    }
    return " ".join(f"{name}={_quoted(value)}" for name, value in fields.items() if value != "")


def _quoted(value: object) -> str:
    """A value that cannot pass for a second field: quoted where it has a space, a quote or an equals sign."""
    text = str(value)
    return ascii(text) if any(mark in text for mark in " \"'=") else text
