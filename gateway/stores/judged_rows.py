"""Judged answers on the ledger's disk: written off every request's path, in the order in which they were judged."""

import asyncio
import logging
import secrets
from collections import deque

from gateway.errors import ConfigurationError
from gateway.judgement import JudgedAnswer, Judgement
from gateway.ports import Clock
from gateway.seldom import Seldom
from gateway.stores.ledger_lost import LedgerLost
from gateway.stores.row_values import Value, fitting, label, pico_usd
from gateway.stores.tables import LedgerTables, Statement

_BATCH = 100
_CLOSE_S = 5.0
_FORGET_EVERY = 64
_FORGET_AT_ONCE = 2000

_log = logging.getLogger(__name__)

_ANSWER = """
    INSERT INTO judged_answers (
        id, request_id, received_unix_s, tenant, task, route, occasion, attempt, backend, model, kind, success, score,
        reason, escalated_for, prompt_tokens, cached_tokens, output_tokens, estimated, cost_pico_usd, answer_s,
        judged_unix_s
    ) VALUES (
        :id, :request_id, :received_unix_s, :tenant, :task, :route, :occasion, :attempt, :backend, :model, :kind,
        :success, :score, :reason, :escalated_for, :prompt_tokens, :cached_tokens, :output_tokens, :estimated,
        :cost_pico_usd, :answer_s, :judged_unix_s
    )
"""
_VERDICT = """
    INSERT INTO verdicts (answer_id, n, judge, success, score, reason)
    VALUES (:answer_id, :n, :judge, :success, :score, :reason)
"""
_OLDEST = "SELECT id FROM judged_answers WHERE received_unix_s < :before_unix_s ORDER BY received_unix_s LIMIT :most"
_FORGET = (
    f"DELETE FROM verdicts WHERE answer_id IN ({_OLDEST})",  # noqa: S608  # constants of this page
    f"DELETE FROM judged_answers WHERE id IN ({_OLDEST})",  # noqa: S608  # likewise
)


class JudgedRows:
    """A ``JudgedSink``. At most ``capacity`` answers wait; what cannot be kept is counted by ``dropped``.

    While the database does not take them they wait, and are tried again after ``retry_s``. Rows go after ``keep_s``.
    """

    def __init__(
        self, tables: LedgerTables, *, clock: Clock, keep_s: float | None, capacity: int = 2000, retry_s: float = 1.0
    ) -> None:
        self.dropped = 0
        self._tables = tables
        self._clock = clock
        self._keep_s = keep_s
        self._capacity = capacity
        self._retry_s = retry_s
        self._waiting: deque[JudgedAnswer] = deque()
        self._writer: asyncio.Task[None] | None = None
        self._batches = 0
        self._complain = Seldom(_log)

    def take_judged(self, judged: JudgedAnswer) -> None:
        """See ``JudgedSink``."""
        if len(self._waiting) >= self._capacity:
            self._lose(1)
            return
        self._waiting.append(judged)
        if self._writer is None or self._writer.done():
            self._writer = asyncio.get_running_loop().create_task(self._write(), name="headrace-judged-rows")

    async def flush(self) -> None:
        """Returns when nothing waits any more, or the database is away."""
        if self._writer is not None:
            await asyncio.wait([self._writer], timeout=_CLOSE_S)

    async def close(self) -> None:
        """Writes what waits, for a few seconds, and drops the rest; idempotent."""
        await self.flush()
        if self._writer is not None and not self._writer.done():
            self._writer.cancel()
            await asyncio.wait([self._writer])
        self._lose(len(self._waiting))
        self._waiting.clear()

    async def _write(self) -> None:
        while self._waiting:
            batch = [self._waiting[at] for at in range(min(len(self._waiting), _BATCH))]
            try:
                await self._tables.write(*[statement for judged in batch for statement in _statements(judged)])
                await self._forget()
            except (LedgerLost, ConfigurationError) as error:
                self._complain("judged answers cannot be written, %d wait: %s", len(self._waiting), error)
                await self._clock.sleep(self._retry_s)
                continue
            for _ in batch:
                self._waiting.popleft()

    async def _forget(self) -> None:
        """Takes out what is past its time, now and then."""
        self._batches += 1
        if self._keep_s is None or self._batches % _FORGET_EVERY != 1:
            return
        oldest: dict[str, Value] = {"before_unix_s": self._clock.unix_s() - self._keep_s, "most": _FORGET_AT_ONCE}
        await self._tables.write(*[(statement, oldest) for statement in _FORGET])

    def _lose(self, answers: int) -> None:
        if answers:
            self.dropped += answers
            self._complain("%d judged answers are not on the ledger", answers)


def _statements(judged: JudgedAnswer) -> list[Statement]:
    answer_id = secrets.token_hex(8)
    usage = judged.usage
    answer: dict[str, Value] = {
        "id": answer_id,
        "request_id": _label(judged.request_id),
        "received_unix_s": judged.received_unix_s,
        "tenant": _label(judged.tenant),
        "task": _label(judged.task),
        "route": _label(judged.route),
        "occasion": judged.occasion.value,
        "attempt": judged.attempt,
        "backend": _label(judged.backend),
        "model": _label(judged.model),
        "kind": judged.kind.value if judged.kind is not None else "",
        **_said(judged.judgement),
        "escalated_for": _label(judged.escalated_for),
        "prompt_tokens": fitting(usage.prompt_tokens) if usage is not None else None,
        "cached_tokens": fitting(usage.cached_tokens) if usage is not None else None,
        "output_tokens": fitting(usage.output_tokens) if usage is not None else None,
        "estimated": int(usage.estimated) if usage is not None else None,
        "cost_pico_usd": pico_usd(judged.cost_usd),
        "answer_s": judged.answer_s,
        "judged_unix_s": judged.ended_unix_s,
    }
    verdicts: list[dict[str, Value]] = [
        {"answer_id": answer_id, "n": n, "judge": _label(name), **_said(one)}
        for n, (name, one) in enumerate(judged.judgements, start=1)
    ]
    return [(_ANSWER, answer), *[(_VERDICT, verdict) for verdict in verdicts]]


def _said(judgement: Judgement) -> dict[str, Value]:
    success = None if judgement.success is None else int(judgement.success)
    return {"success": success, "score": judgement.score, "reason": _label(judgement.reason)}


def _label(text: str) -> str:
    """As both databases take it: PostgreSQL has no text with a NUL in it."""
    return label(text).replace("\0", "")
