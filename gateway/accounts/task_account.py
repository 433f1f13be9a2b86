"""What a task has cost and come to: rows of the ledger added up. Money is exact, and unknown money is unknown."""

from collections.abc import Sequence
from decimal import Decimal
from typing import Any, NamedTuple

from msgspec import Struct

from gateway.accounts.moments import moment
from gateway.accounts.money import usd

MOST_STAGES = 100


class KnownOutcome(Struct, frozen=True, kw_only=True):
    """One outcome of a task, as its client told it. ``at`` is when it was judged, ``received`` when it was told."""

    success: bool | None
    score: float | None
    tool_cost_usd: Decimal | None
    tool_seconds: float | None
    retrieval_seconds: float | None
    recovery_cost_usd: Decimal | None
    note: str
    at: str
    received: str


class TaskAttempt(Struct, frozen=True, kw_only=True):
    """One try on a backend for a request of the task. ``retry`` is any but the one whose answer the client got."""

    request: str
    stage: str
    route: str
    attempt: int
    backend: str
    model: str
    status: str
    error: str
    retry: bool
    started: str
    seconds: float
    first_token_seconds: float | None
    prompt_tokens: int | None
    cached_tokens: int | None
    output_tokens: int | None
    estimated: bool | None
    cost_usd: Decimal | None


class StageAccount(Struct, frozen=True, kw_only=True):
    """What one stage took; the task's own sums are those of its stages. ``None`` where a price is unknown."""

    stage: str
    requests: int
    attempts: int
    seconds: float
    prompt_tokens: int
    cached_tokens: int
    output_tokens: int
    inference_cost_usd: Decimal | None
    retry_cost_usd: Decimal | None
    unpriced_attempts: int


class TaskAccount(Struct, frozen=True, kw_only=True):
    """The answer of ``GET /v1/tasks/{id}``.

    ``total_cost_usd`` is inference, retries, tools and recovery together, ``None`` where ``unpriced_attempts`` have no
    known price: ``priced_cost_usd`` is then the part that is known. ``seconds`` is from the first request's arrival to
    the end of the last, ``inference_seconds`` the sum over the requests. ``settled`` tells that everything was counted
    which had ended when the question came. ``attempts_made`` are the latest, newest last.
    """

    id: str
    object: str = "task"
    success: bool | None = None
    score: float | None = None
    requests: int = 0
    attempts: int = 0
    inference_cost_usd: Decimal | None = Decimal(0)
    retry_cost_usd: Decimal | None = Decimal(0)
    tool_cost_usd: Decimal = Decimal(0)
    recovery_cost_usd: Decimal = Decimal(0)
    total_cost_usd: Decimal | None = Decimal(0)
    priced_cost_usd: Decimal = Decimal(0)
    unpriced_attempts: int = 0
    prompt_tokens: int = 0
    cached_tokens: int = 0
    output_tokens: int = 0
    seconds: float = 0.0
    inference_seconds: float = 0.0
    tool_seconds: float = 0.0
    retrieval_seconds: float = 0.0
    settled: bool = True
    outcome: KnownOutcome | None = None
    outcomes: tuple[KnownOutcome, ...] = ()
    stages: tuple[StageAccount, ...] = ()
    attempts_made: tuple[TaskAttempt, ...] = ()


Rows = Sequence[tuple[Any, ...]]

_NOTHING_SAID = KnownOutcome(
    success=None,
    score=None,
    tool_cost_usd=None,
    tool_seconds=None,
    retrieval_seconds=None,
    recovery_cost_usd=None,
    note="",
    at="",
    received="",
)


def task_account(
    task: str, *, requests: Rows, costs: Rows, attempts: Rows, outcomes: Sequence[KnownOutcome], settled: bool
) -> TaskAccount:
    """The account of the rows that the queries of ``gateway.accounts.task_queries`` answer."""
    last = outcomes[0] if outcomes else _NOTHING_SAID
    by_serves = {(stage, serves): (pico_usd, unpriced) for stage, serves, pico_usd, unpriced in costs}
    inference, retries = (_sum(costs, serves=serves) for serves in (1, 0))
    tools_usd, recovery_usd = last.tool_cost_usd or Decimal(0), last.recovery_cost_usd or Decimal(0)
    priced_usd = usd(inference.pico_usd + retries.pico_usd) + tools_usd + recovery_usd
    unpriced = inference.unpriced + retries.unpriced
    return TaskAccount(
        id=task,
        success=last.success,
        score=last.score,
        requests=sum(row[1] for row in requests),
        attempts=sum(row[2] for row in requests),
        inference_cost_usd=inference.usd,
        retry_cost_usd=retries.usd,
        tool_cost_usd=tools_usd,
        recovery_cost_usd=recovery_usd,
        total_cost_usd=priced_usd if not unpriced else None,
        priced_cost_usd=priced_usd,
        unpriced_attempts=unpriced,
        prompt_tokens=sum(row[6] for row in requests),
        cached_tokens=sum(row[7] for row in requests),
        output_tokens=sum(row[8] for row in requests),
        seconds=_elapsed_s(requests),
        inference_seconds=round(sum(row[5] for row in requests), 6),
        tool_seconds=last.tool_seconds or 0.0,
        retrieval_seconds=last.retrieval_seconds or 0.0,
        settled=settled,
        outcome=last if outcomes else None,
        outcomes=tuple(outcomes),
        stages=tuple([_stage(row, by_serves) for row in requests[:MOST_STAGES]]),
        attempts_made=tuple([_attempt(row) for row in reversed(attempts)]),
    )


class _Sum(NamedTuple):
    pico_usd: int
    unpriced: int

    @property
    def usd(self) -> Decimal | None:
        return None if self.unpriced else usd(self.pico_usd)


def _sum(costs: Rows, *, serves: int) -> _Sum:
    mine = [(pico_usd, unpriced) for _, kind, pico_usd, unpriced in costs if kind == serves]
    return _Sum(sum(pico_usd for pico_usd, _ in mine), sum(unpriced for _, unpriced in mine))


def _elapsed_s(requests: Rows) -> float:
    return round(max(row[4] for row in requests) - min(row[3] for row in requests), 6) if requests else 0.0


def known_outcome(row: tuple[Any, ...]) -> KnownOutcome:
    """A row of the outcomes' history."""
    at_unix_s, received_unix_s, success, score, tools_pico, tool_s, retrieval_s, recovery_pico, note, _ = row
    return KnownOutcome(
        success=bool(success) if success is not None else None,
        score=score,
        tool_cost_usd=usd(tools_pico) if tools_pico is not None else None,
        tool_seconds=tool_s,
        retrieval_seconds=retrieval_s,
        recovery_cost_usd=usd(recovery_pico) if recovery_pico is not None else None,
        note=note,
        at=moment(at_unix_s),
        received=moment(received_unix_s),
    )


def _stage(row: tuple[Any, ...], costs: dict[tuple[str, int], tuple[int, int]]) -> StageAccount:
    stage, requests, attempts, _, _, seconds, prompt_tokens, cached_tokens, output_tokens = row
    served_pico, served_unpriced = costs.get((stage, 1), (0, 0))
    retry_pico, retry_unpriced = costs.get((stage, 0), (0, 0))
    return StageAccount(
        stage=stage,
        requests=requests,
        attempts=attempts,
        seconds=round(seconds, 6),
        prompt_tokens=prompt_tokens,
        cached_tokens=cached_tokens,
        output_tokens=output_tokens,
        inference_cost_usd=usd(served_pico) if not served_unpriced else None,
        retry_cost_usd=usd(retry_pico) if not retry_unpriced else None,
        unpriced_attempts=served_unpriced + retry_unpriced,
    )


def _attempt(row: tuple[Any, ...]) -> TaskAttempt:
    request, stage, route, received_unix_s, number, backend, model, status, error, *rest = row
    started_s, first_token_s, ended_s, prompt_tokens, cached_tokens, output_tokens, estimated, pico_usd, serves = rest
    return TaskAttempt(
        request=request,
        stage=stage,
        route=route,
        attempt=number,
        backend=backend,
        model=model,
        status=status,
        error=error,
        retry=not serves,
        started=moment(received_unix_s + started_s),
        seconds=round(ended_s - started_s, 6),
        first_token_seconds=round(first_token_s - started_s, 6) if first_token_s is not None else None,
        prompt_tokens=prompt_tokens,
        cached_tokens=cached_tokens,
        output_tokens=output_tokens,
        estimated=bool(estimated) if estimated is not None else None,
        cost_usd=usd(pico_usd) if pico_usd is not None else None,
    )
