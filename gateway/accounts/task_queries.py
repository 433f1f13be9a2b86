"""What is asked of the ledger's tables about one task, and how its outcomes are put in."""

MOST_OUTCOMES_KEPT = 20
"""Of one task: the latest by the client's own time."""

REMEMBER = """
    INSERT INTO task_outcome_history (
        tenant, task, at_unix_s, received_unix_s, success, score, tool_cost_pico_usd, tool_s, retrieval_s,
        recovery_cost_pico_usd, note, given_key
    )
    VALUES (
        :tenant, :task, :at_unix_s, :received_unix_s, :success, :score, :tool_cost_pico_usd, :tool_s, :retrieval_s,
        :recovery_cost_pico_usd, :note, :given_key
    )
    ON CONFLICT (tenant, task, given_key) DO NOTHING
"""

# The latest of the history, whichever of its rows came last: so doing it again or in another order is the same.
SETTLE = """
    INSERT INTO task_outcomes (
        tenant, task, task_key, at_unix_s, received_unix_s, success, score, tool_cost_pico_usd, tool_s, retrieval_s,
        recovery_cost_pico_usd, note
    )
    SELECT tenant, task, CAST(:task_key AS BIGINT), at_unix_s, received_unix_s, success, score, tool_cost_pico_usd,
        tool_s, retrieval_s, recovery_cost_pico_usd, note
    FROM task_outcome_history
    WHERE tenant = :tenant AND task = :task
    ORDER BY at_unix_s DESC, seq DESC
    LIMIT 1
    ON CONFLICT (tenant, task) DO UPDATE SET
        at_unix_s = excluded.at_unix_s, received_unix_s = excluded.received_unix_s, success = excluded.success,
        score = excluded.score, tool_cost_pico_usd = excluded.tool_cost_pico_usd, tool_s = excluded.tool_s,
        retrieval_s = excluded.retrieval_s, recovery_cost_pico_usd = excluded.recovery_cost_pico_usd,
        note = excluded.note
"""

FORGET_EARLIER = """
    DELETE FROM task_outcome_history
    WHERE tenant = :tenant AND task = :task AND seq NOT IN (
        SELECT seq FROM task_outcome_history
        WHERE tenant = :tenant AND task = :task
        ORDER BY at_unix_s DESC, seq DESC
        LIMIT :most
    )
"""

FORGET_OLD = "DELETE FROM task_outcomes WHERE received_unix_s < :oldest_unix_s"
FORGET_OLD_HISTORY = "DELETE FROM task_outcome_history WHERE received_unix_s < :oldest_unix_s"

HISTORY = """
    SELECT at_unix_s, received_unix_s, success, score, tool_cost_pico_usd, tool_s, retrieval_s, recovery_cost_pico_usd,
        note, seq
    FROM task_outcome_history
    WHERE tenant = :tenant AND task = :task
    ORDER BY at_unix_s DESC, seq DESC
"""

_IN_TASK = "r.tenant = :tenant AND r.task = :task AND r.task <> ''"
_ALONE = "r.tenant = :tenant AND r.id = :task AND r.task = ''"

_REQUESTS = """
    SELECT r.stage, count(*), CAST(sum(r.attempts) AS BIGINT), min(r.received_unix_s),
        max(r.received_unix_s + r.duration_s), sum(r.duration_s), CAST(sum(r.prompt_tokens) AS BIGINT),
        CAST(sum(r.cached_tokens) AS BIGINT), CAST(sum(r.output_tokens) AS BIGINT)
    FROM requests r
    WHERE {which}
    GROUP BY r.stage
    ORDER BY min(r.received_unix_s)
"""
_COSTS = """
    SELECT r.stage, a.serves, CAST(coalesce(sum(a.cost_pico_usd), 0) AS BIGINT),
        count(*) FILTER (WHERE a.cost_pico_usd IS NULL)
    FROM requests r JOIN attempts a ON a.request_seq = r.seq
    WHERE {which}
    GROUP BY r.stage, a.serves
"""
_ATTEMPTS = """
    SELECT r.id, r.stage, r.route, r.received_unix_s, a.n, a.backend, a.model, a.status, a.error, a.started_s,
        a.first_token_s, a.ended_s, a.prompt_tokens, a.cached_tokens, a.output_tokens, a.estimated, a.cost_pico_usd,
        a.serves
    FROM requests r JOIN attempts a ON a.request_seq = r.seq
    WHERE {which}
    ORDER BY r.received_unix_s DESC, r.seq DESC, a.n DESC
    LIMIT :most
"""
_JUDGED = """
    SELECT r.id, r.received_unix_s, r.route, r.backend, r.backend_model, r.status, r.forecast_prompt_tokens,
        r.forecast_output_tokens_p50, r.cost_pico_usd
    FROM requests r
    WHERE {which}
    ORDER BY r.received_unix_s, r.seq
    LIMIT :most
"""

REQUESTS, REQUEST_ALONE = _REQUESTS.format(which=_IN_TASK), _REQUESTS.format(which=_ALONE)
COSTS, COSTS_ALONE = _COSTS.format(which=_IN_TASK), _COSTS.format(which=_ALONE)
ATTEMPTS, ATTEMPTS_ALONE = _ATTEMPTS.format(which=_IN_TASK), _ATTEMPTS.format(which=_ALONE)
JUDGED, JUDGED_ALONE = _JUDGED.format(which=_IN_TASK), _JUDGED.format(which=_ALONE)
