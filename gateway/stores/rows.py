"""The ledger's tables, and an entry as their rows. No prompt, no answer and nobody's words have a column."""

from collections.abc import Sequence
from decimal import Decimal

from msgspec import Struct

from gateway.forecast import Forecast
from gateway.guard_mark import words_of
from gateway.price import PICO_USD_PER_USD, Usage
from gateway.stores.decision_facts import facts_of, pressed
from gateway.stores.prompt_blocks import block_ids
from gateway.stores.task_key import task_key
from gateway.stores.time_steps import step_of
from gateway.types import Arrival, Attempt, LedgerEntry

MAX_LABEL_CHARACTERS = 256
MAX_USER_CHARACTERS = 128

_INT64_MAX = 2**63 - 1

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


Value = str | int | float | bytes | None


class Rows(Struct, frozen=True, array_like=True):
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
        return (*self.request, pressed(self.facts) if self.facts else None, block_ids(*self.chunks))

    def attempt_rows(self, request_seq: int) -> list[tuple[Value, ...]]:
        """The whole rows of ``attempts``."""
        return [(request_seq, *attempt) for attempt in self.attempts]


def rows_of(entry: LedgerEntry, *, with_decision: bool = True) -> Rows:
    """The rows of ``entry``. Offsets are seconds since the request arrived; tokens are the sum over all attempts."""
    arrival, request, forecast, outcome = entry.arrival, entry.request, entry.forecast, entry.outcome
    serving = entry.serving
    first_s = serving.first_token_s if serving is not None else None
    if first_s is not None and outcome.shown_s is not None:
        first_s = max(first_s, outcome.shown_s)
    return Rows(
        received_unix_s=arrival.received_unix_s,
        request=(
            arrival.id,
            arrival.received_unix_s,
            label(arrival.tenant),
            arrival.operation,
            label(request.model) if request is not None else None,
            label(entry.route),
            outcome.status,
            outcome.http_status,
            label(outcome.finish_reason),
            outcome.error,
            int(request.stream) if request is not None else None,
            *(_forecast_counts(forecast) if forecast is not None else (None, None, None)),
            *_tokens(entry.attempts),
            first_s - arrival.received_s if first_s is not None else None,
            entry.ended_s - arrival.received_s,
            pico_usd(entry.cost_usd),
            len(entry.attempts),
            arrival.trace.trace_id,
            label(request.unverified_user, MAX_USER_CHARACTERS) if request is not None else "",
            *_task(arrival),
            *((label(serving.backend), label(serving.model)) if serving is not None else (None, None)),
            *_steps(entry, first_s),
            *_pace(serving),
            *_beside(entry),
        ),
        attempts=_attempt_rows(entry.attempts, arrival.received_s, serving),
        facts=facts_of(entry) if with_decision else None,
        chunks=entry.chunks if with_decision else ((), ()),
    )


def _beside(entry: LedgerEntry) -> tuple[Value, ...]:
    """What a cache had to do with the request, and guards."""
    return entry.cache, pico_usd(entry.saved_usd), words_of(entry.guards)


def pico_usd(cost_usd: Decimal | None) -> int | None:
    """US dollars as whole pico-dollars, rounded half to even; ``None`` where the cost is unknown or no number."""
    if cost_usd is None or not cost_usd.is_finite():
        return None
    pico_usd = round(cost_usd * PICO_USD_PER_USD)
    return pico_usd if -_INT64_MAX <= pico_usd <= _INT64_MAX else fitting(pico_usd)


def _tokens(attempts: Sequence[Attempt]) -> tuple[int, ...]:
    """Of the prompt, of it cached, and of the output; over all attempts."""
    prompt_tokens = cached_tokens = output_tokens = 0
    for attempt in attempts:
        if attempt.usage is not None:
            prompt_tokens += attempt.usage.prompt_tokens
            cached_tokens += attempt.usage.cached_tokens
            output_tokens += attempt.usage.output_tokens
    return _counts(prompt_tokens, cached_tokens, output_tokens)


def _task(arrival: Arrival) -> tuple[Value, ...]:
    task = arrival.task
    if task is None or not task.id:
        return "", "", None
    return task.id, task.stage, task_key(arrival.tenant, task.id)


def _steps(entry: LedgerEntry, first_s: float | None) -> tuple[int | None, int | None]:
    """The steps of the seconds from the arrival to the first token that was seen, and to the end."""
    received_s = entry.arrival.received_s
    return step_of(first_s - received_s) if first_s is not None else None, step_of(entry.ended_s - received_s)


def _pace(serving: Attempt | None) -> tuple[int | None, int | None]:
    """The steps of the seconds from token to token, and from burst to burst, in an answer that was streamed."""
    if serving is None or serving.first_token_s is None or serving.last_token_s is None:
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
    numbered = enumerate(attempts, 1)
    return tuple([_attempt_row(n, attempt, received_s, serves=attempt is serving) for n, attempt in numbered])


def _attempt_row(n: int, attempt: Attempt, received_s: float, *, serves: bool) -> tuple[Value, ...]:
    usage = attempt.usage
    tokens: tuple[Value, ...] = (None, None, None, None, None)
    if usage is not None:
        tokens = (
            *_counts(usage.prompt_tokens, usage.cached_tokens, usage.output_tokens, usage.reasoning_tokens),
            int(usage.estimated),
        )
    return (
        n,
        label(attempt.backend),
        label(attempt.model),
        attempt.status,
        attempt.error,
        attempt.upstream_status,
        attempt.started_s - received_s,
        attempt.first_token_s - received_s if attempt.first_token_s is not None else None,
        attempt.ended_s - received_s,
        *tokens,
        pico_usd(attempt.cost_usd),
        attempt.last_token_s - received_s if attempt.last_token_s is not None else None,
        attempt.bursts,
        int(serves),
        fitting(usage.cache_write_tokens) if usage is not None else None,
        *_cost(attempt, usage),
    )


def _cost(attempt: Attempt, usage: Usage | None) -> tuple[Value, ...]:
    """Who answered, what that is said to cost and why, and what was paid for besides tokens of text."""
    said_usd, units = (usage.stated_usd, usage.units) if usage is not None else (None, None)
    doubts = " ".join(attempt.cost_doubts)
    said = units.words() if units is not None else ""
    return label(attempt.answered_model), attempt.cost_source, doubts, pico_usd(said_usd), said


def label(text: str, most: int = MAX_LABEL_CHARACTERS) -> str:
    """A label of bounded length that SQLite can store: a lone surrogate has no UTF-8."""
    if len(text) <= most and text.isascii():
        return text
    return text[:most].encode("utf-8", "replace").decode()


def _forecast_counts(forecast: Forecast) -> tuple[int, ...]:
    return _counts(forecast.prompt_tokens, forecast.output_tokens_p50, forecast.output_tokens_p90)


def _counts(*numbers: int) -> tuple[int, ...]:
    """Counts that fit SQLite's 64 bits: an upstream may claim any number of tokens."""
    if max(numbers) <= _INT64_MAX and min(numbers) >= -_INT64_MAX:
        return numbers
    return tuple(map(fitting, numbers))


def fitting(number: int) -> int:
    """The count itself, or the largest that 64 bits hold."""
    if -_INT64_MAX <= number <= _INT64_MAX:
        return number
    return _INT64_MAX if number > 0 else -_INT64_MAX
