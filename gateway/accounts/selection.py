"""Which requests a report is about, what it is broken down by, and how the ledger is asked for them."""

from collections.abc import Mapping, Sequence

from msgspec import Struct

from gateway.forecast import SHORT_OUTPUT_TOKENS, SHORT_PROMPT_TOKENS, RequestKind

PAGE_ROWS = 50_000


class Selection(Struct, frozen=True, kw_only=True):
    """The requests that arrived from ``since_unix_s`` to before ``until_unix_s``, of the named ones; ``None`` for all.

    ``backend`` and ``model`` are those of the attempt whose answer the client got.
    """

    since_unix_s: float | None = None
    until_unix_s: float | None = None
    tenant: str | None = None
    route: str | None = None
    backend: str | None = None
    model: str | None = None

    @property
    def before_first(self) -> tuple[float, int, int]:
        """Where the pages begin. It alone bounds them below: with another bound, SQLite seeks that on each page."""
        return self.since_unix_s if self.since_unix_s is not None else -1.0, -1, -1

    def values(self) -> dict[str, str | float | None]:
        """For the queries of this page."""
        return {
            "until": self.until_unix_s if self.until_unix_s is not None else 1e12,
            "tenant": self.tenant,
            "route": self.route,
            "backend": self.backend,
            "model": self.model,
        }


_READS = f"CASE WHEN {{r}}forecast_prompt_tokens <= {SHORT_PROMPT_TOKENS} THEN 'short' ELSE 'long' END"
_WRITES = f"CASE WHEN {{r}}forecast_output_tokens_p50 <= {SHORT_OUTPUT_TOKENS} THEN 'short' ELSE 'long' END"
_CLASS = f"""CASE WHEN {{r}}forecast_prompt_tokens IS NULL THEN ''
    ELSE {_READS} || '_in_' || {_WRITES} || '_out' END"""

CLASSES = tuple(RequestKind)

_DIMENSIONS: Mapping[str, tuple[str, str]] = {
    "route": ("{r}route", "{r}route"),
    "tenant": ("{r}tenant", "{r}tenant"),
    "model": ("coalesce({r}backend_model, '')", "{a}model"),
    "backend": ("coalesce({r}backend, '')", "{a}backend"),
    "class": (_CLASS, _CLASS),
    "day": ("CAST(floor({r}received_unix_s / 86400) AS BIGINT)",) * 2,
    "stage": ("{r}stage", "{r}stage"),
}
"""How each is said of a request, and of one of several attempts."""

DIMENSIONS = tuple(_DIMENSIONS)

_WHERE = """
    {r}received_unix_s < :until
    AND (CAST(:tenant AS TEXT) IS NULL OR {r}tenant = CAST(:tenant AS TEXT))
    AND (CAST(:route AS TEXT) IS NULL OR {r}route = CAST(:route AS TEXT))
    AND (CAST(:backend AS TEXT) IS NULL OR {r}backend = CAST(:backend AS TEXT))
    AND (CAST(:model AS TEXT) IS NULL OR {r}backend_model = CAST(:model AS TEXT))
"""

# What requests of several attempts used is read from their attempts: it may be several backends'.
_REQUESTS = """
    SELECT received_unix_s, seq, task_key, status, attempts,
        CASE WHEN attempts > 1 THEN 0 ELSE prompt_tokens END,
        CASE WHEN attempts > 1 THEN 0 ELSE cached_tokens END,
        CASE WHEN attempts > 1 THEN 0 ELSE output_tokens END,
        CASE WHEN attempts > 1 THEN 0 ELSE cost_pico_usd END,
        ttft_step, itl_step, tpot_step, e2e_step{dimensions}
    FROM requests
    WHERE (received_unix_s, seq) > (:after_unix_s, :after_seq) AND {where}
    ORDER BY received_unix_s, seq
    LIMIT :most
"""
_ATTEMPTS = """
    SELECT r.received_unix_s, r.seq, a.n, r.task_key, a.status, a.error, a.serves, coalesce(a.prompt_tokens, 0),
        coalesce(a.cached_tokens, 0), coalesce(a.output_tokens, 0), a.cost_pico_usd{dimensions}
    FROM requests r JOIN attempts a ON a.request_seq = r.seq
    WHERE (r.received_unix_s, r.seq, a.n) > (:after_unix_s, :after_seq, :after_n) AND r.attempts > 1 AND {where}
    ORDER BY r.received_unix_s, r.seq, a.n
    LIMIT :most
"""

OUTCOMES = """
    SELECT tenant, task, task_key, success, coalesce(tool_cost_pico_usd, 0), coalesce(recovery_cost_pico_usd, 0)
    FROM task_outcomes
    WHERE (tenant, task) > (:after_tenant, :after_task)
        AND (CAST(:tenant AS TEXT) IS NULL OR tenant = CAST(:tenant AS TEXT))
    ORDER BY tenant, task
    LIMIT :most
"""

# What judges say of answers that clients saw, the latest of a task last. Of a step that went further the next one's
# answer is what came of it.
JUDGED = """
    SELECT judged_unix_s, id, tenant, CASE WHEN task = '' THEN request_id ELSE task END, success
    FROM judged_answers
    WHERE (judged_unix_s, id) > (:after_unix_s, :after_id) AND occasion <> 'shadow' AND escalated_for = ''
        AND success IS NOT NULL AND (CAST(:tenant AS TEXT) IS NULL OR tenant = CAST(:tenant AS TEXT))
    ORDER BY judged_unix_s, id
    LIMIT :most
"""

# Requests that name no task are judged by their own ids, which all begin alike.
JUDGED_ALONE = """
    SELECT r.seq, r.tenant, r.id
    FROM task_outcomes o JOIN requests r ON r.id = o.task AND r.tenant = o.tenant
    WHERE r.task = '' AND substr(o.task, 1, 4) = 'req_'
        AND (CAST(:tenant AS TEXT) IS NULL OR o.tenant = CAST(:tenant AS TEXT))
    UNION
    SELECT r.seq, r.tenant, r.id
    FROM judged_answers j JOIN requests r ON r.id = j.request_id AND r.tenant = j.tenant
    WHERE r.task = '' AND j.occasion <> 'shadow' AND j.escalated_for = '' AND j.success IS NOT NULL
        AND (CAST(:tenant AS TEXT) IS NULL OR j.tenant = CAST(:tenant AS TEXT))
"""


def requests_query(by: Sequence[str]) -> str:
    """A page of requests; what they are broken down ``by`` comes last."""
    dimensions = "".join(f", {_DIMENSIONS[name][0].format(r='')}" for name in by)
    return _REQUESTS.format(dimensions=dimensions, where=_WHERE.format(r=""))


def attempts_query(by: Sequence[str]) -> str:
    """A page of the attempts of requests that took several; what they are broken down ``by`` comes last."""
    dimensions = "".join(f", {_DIMENSIONS[name][1].format(r='r.', a='a.')}" for name in by)
    return _ATTEMPTS.format(dimensions=dimensions, where=_WHERE.format(r="r."))
