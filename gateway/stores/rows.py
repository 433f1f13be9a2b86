"""The ledger's tables, and an entry as their rows. No prompt, no answer and nobody's words have a column."""

from collections.abc import Sequence

from msgspec import Struct

from gateway.guard_mark import words_of
from gateway.price import Usage
from gateway.stores.decision_facts import facts_of, pressed
from gateway.stores.prompt_blocks import block_ids, has_blocks
from gateway.stores.row_values import (
    MAX_LABEL_CHARACTERS,
    Value,
    counts,
    fitted,
    label,
    pico_usd,
)
from gateway.stores.task_key import task_key
from gateway.stores.time_steps import step_of
from gateway.types import Attempt, LedgerEntry

MAX_USER_CHARACTERS = 128

_LABELS = frozenset(
    {"tenant", "model", "route", "finish_reason", "backend", "backend_model", "answered_model"},
)
"""Columns of names that people, clients and upstreams chose."""
_NOTHING = Usage()
_NO_USAGE = (None,) * 5
_NO_CHUNKS: tuple[Sequence[bytes], Sequence[int]] = ((), ())

REQUEST_COLUMNS = (
    "id",
    "received_unix_s",
    "tenant",
    "operation",
    "model",
    "route",
    "status",
    "http_status",
    "finish_reason",
    "error",
    "stream",
    "forecast_prompt_tokens",
    "forecast_output_tokens_p50",
    "forecast_output_tokens_p90",
    "prompt_tokens",
    "cached_tokens",
    "output_tokens",
    "ttft_s",
    "duration_s",
    "cost_pico_usd",
    "attempts",
    "trace_id",
    "unverified_user",
    "task",
    "stage",
    "task_key",
    "backend",
    "backend_model",
    "ttft_step",
    "e2e_step",
    "tpot_step",
    "itl_step",
    "cache",
    "saved_pico_usd",
    "guards",
    "decision",
    "blocks",
)
"""The columns of ``requests`` in the order of ``Rows.request_row``; ``seq`` comes before them."""

ATTEMPT_COLUMNS = (
    "n",
    "backend",
    "model",
    "status",
    "error",
    "upstream_status",
    "started_s",
    "first_token_s",
    "ended_s",
    "prompt_tokens",
    "cached_tokens",
    "output_tokens",
    "reasoning_tokens",
    "estimated",
    "cost_pico_usd",
    "last_token_s",
    "bursts",
    "serves",
    "cache_write_tokens",
    "answered_model",
    "cost_source",
    "cost_doubts",
    "stated_pico_usd",
    "units",
)
"""The columns of ``attempts`` in the order of ``Rows.attempts``; ``request_seq`` comes before them."""


class Rows(Struct, frozen=True, array_like=True, gc=False):
    """One entry: its row of ``requests`` without ``seq``, and its rows of ``attempts`` without ``request_seq``.

    What the decision was made from, and the prompt's chunks, are brought into their columns by who writes them: that
    takes its time, and is not for the event loop.
    """

    received_unix_s: float
    request: tuple[Value, ...]
    attempts: tuple[tuple[Value, ...], ...]
    facts: bytes | None = None
    chunks: tuple[Sequence[bytes], Sequence[int]] = ((), ())

    def request_row(self) -> tuple[Value, ...]:
        """The whole row of ``requests``, without ``seq``."""
        return (*self.request, *self.late())

    def late(self) -> tuple[Value, Value]:
        """The row's last two columns."""
        return pressed(self.facts) if self.facts else None, block_ids(*self.chunks) if self.chunks[0] else None

    def attempt_rows(self, request_seq: int) -> list[tuple[Value, ...]]:
        """The whole rows of ``attempts``."""
        return [(request_seq, *attempt) for attempt in self.attempts]


def rows_of(entry: LedgerEntry, *, with_decision: bool = True) -> Rows:
    """The rows of ``entry``. Offsets are seconds since the request arrived; tokens are the sum over all attempts."""
    arrival, tries = entry.arrival, entry.attempts
    received_s = arrival.received_s
    if len(tries) == 1:  # nearly always: what the request took is what its attempt did
        serving: Attempt | None = tries[0]
        tokens, cost = _tokens(tries[0].usage or _NOTHING), pico_usd(tries[0].cost_usd)
        attempts: tuple[tuple[Value, ...], ...] = (_attempt_row(1, tries[0], received_s, cost, serves=True),)
    else:
        serving, tokens, cost = entry.serving, _tokens(_sum(tries)), pico_usd(entry.cost_usd)
        attempts = _attempt_rows(tries, received_s, serving)
    ttft_s = (
        _ttft_s(entry, serving.first_token_s) if serving is not None and serving.first_token_s is not None else None
    )
    ended_s = entry.ended_s - received_s
    row = (
        *_asked(entry),
        *tokens,
        ttft_s,
        ended_s,
        cost,
        len(tries),
        arrival.trace.trace_id,
        *_whose(entry),
        *((serving.backend, serving.model) if serving is not None else (None, None)),
        step_of(ttft_s) if ttft_s is not None else None,
        step_of(ended_s),
        *(_pace(serving) if serving is not None and serving.last_token_s is not None else (None, None)),
        entry.cache,
        pico_usd(entry.saved_usd) if entry.saved_usd is not None else None,
        words_of(entry.guards) if entry.guards else "",
    )
    if not _are_labels(entry):
        row, attempts = _labelled(row, REQUEST_COLUMNS), tuple([_labelled(one, ATTEMPT_COLUMNS) for one in attempts])
    if not with_decision:
        return Rows(arrival.received_unix_s, row, attempts, None, _NO_CHUNKS)
    chunks = entry.chunks if has_blocks(entry.chunks[1]) else _NO_CHUNKS
    return Rows(arrival.received_unix_s, row, attempts, facts_of(entry), chunks)


def _are_labels(entry: LedgerEntry) -> bool:
    """Whether all names in it are labels as they are: so they are where all together are short and plain."""
    request, outcome = entry.request, entry.outcome
    names = f"{entry.arrival.tenant}{entry.route}{outcome.finish_reason}{request.model if request is not None else ''}"
    for attempt in entry.attempts:
        names = f"{names}{attempt.backend}{attempt.model}{attempt.answered_model}"
    return len(names) <= MAX_LABEL_CHARACTERS and names.isascii()


def _labelled(row: tuple[Value, ...], columns: Sequence[str]) -> tuple[Value, ...]:
    """The row with labels in place of names."""
    named = zip(columns, row, strict=False)  # a request's last columns come later
    return tuple([label(value) if column in _LABELS and isinstance(value, str) else value for column, value in named])


def _asked(entry: LedgerEntry) -> tuple[Value, ...]:
    """What was asked for, how it ended, and what was forecast."""
    arrival, request, forecast, outcome = entry.arrival, entry.request, entry.forecast, entry.outcome
    return (
        arrival.id,
        arrival.received_unix_s,
        arrival.tenant,
        arrival.operation._value_,  # ``value`` is a function in Python, here and below
        request.model if request is not None else None,
        entry.route,
        outcome.status._value_,
        outcome.http_status,
        outcome.finish_reason,
        outcome.error,
        (1 if request.stream else 0) if request is not None else None,
        *(
            counts(forecast.prompt_tokens, forecast.output_tokens_p50, forecast.output_tokens_p90)
            if forecast is not None
            else (None, None, None)
        ),
    )


def _tokens(usage: Usage) -> tuple[int, int, int]:
    """Of the prompt, of it cached, and of the output."""
    return counts(usage.prompt_tokens, usage.cached_tokens, usage.output_tokens)


def _sum(attempts: Sequence[Attempt]) -> Usage:
    """The tokens of all of them, but for what only attempts tell."""
    usages = [attempt.usage for attempt in attempts if attempt.usage is not None]
    return Usage(
        prompt_tokens=sum([usage.prompt_tokens for usage in usages]),
        cached_tokens=sum([usage.cached_tokens for usage in usages]),
        output_tokens=sum([usage.output_tokens for usage in usages]),
    )


def _whose(entry: LedgerEntry) -> tuple[Value, ...]:
    """The end user and the task, as the client named them."""
    request, task = entry.request, entry.arrival.task
    user = request.unverified_user if request is not None else ""
    if user:
        user = label(user, MAX_USER_CHARACTERS)
    if task is None or not task.id:
        return user, "", "", None
    return user, task.id, task.stage, task_key(entry.arrival.tenant, task.id)


def _ttft_s(entry: LedgerEntry, first_token_s: float) -> float:
    """Seconds from the arrival to the first token that was seen."""
    return max(first_token_s, entry.outcome.shown_s or 0.0) - entry.arrival.received_s


def _pace(serving: Attempt) -> tuple[int | None, int | None]:
    """The steps of the seconds from token to token, and from burst to burst, in an answer that was streamed."""
    if serving.first_token_s is None or serving.last_token_s is None:
        return None, None
    decoding_s = serving.last_token_s - serving.first_token_s
    later_tokens = serving.usage.output_tokens - 1 if serving.usage is not None else 0
    return (
        step_of(decoding_s / later_tokens) if later_tokens > 0 else None,
        step_of(decoding_s / (serving.bursts - 1)) if serving.bursts > 1 else None,
    )


def _attempt_rows(
    attempts: Sequence[Attempt], received_s: float, serving: Attempt | None
) -> tuple[tuple[Value, ...], ...]:
    return tuple(
        [
            _attempt_row(n, attempt, received_s, pico_usd(attempt.cost_usd), serves=attempt is serving)
            for n, attempt in enumerate(attempts, 1)
        ]
    )


def _attempt_row(n: int, attempt: Attempt, received_s: float, cost: int | None, *, serves: bool) -> tuple[Value, ...]:
    usage = fitted(attempt.usage) if attempt.usage is not None else None
    return (
        n,
        attempt.backend,
        attempt.model,
        attempt.status._value_,
        attempt.error,
        attempt.upstream_status,
        attempt.started_s - received_s,
        attempt.first_token_s - received_s if attempt.first_token_s is not None else None,
        attempt.ended_s - received_s,
        *(
            (
                usage.prompt_tokens,
                usage.cached_tokens,
                usage.output_tokens,
                usage.reasoning_tokens,
                1 if usage.estimated else 0,
            )
            if usage is not None
            else _NO_USAGE
        ),
        cost,
        attempt.last_token_s - received_s if attempt.last_token_s is not None else None,
        attempt.bursts,
        1 if serves else 0,
        usage.cache_write_tokens if usage is not None else None,
        attempt.answered_model,
        attempt.cost_source,
        " ".join(attempt.cost_doubts),
        pico_usd(usage.stated_usd) if usage is not None and usage.stated_usd is not None else None,
        usage.units.words() if usage is not None and usage.units is not None else "",
    )
