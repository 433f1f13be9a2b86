"""What advice is drawn from: sums over the ledger, made by the database.

``x`` are thousands of prompt tokens that no cache had, ``y`` the seconds to the first token: their sums are all that a
straight line through them needs.
"""

_RANGE = """
    r.received_unix_s >= :since AND r.received_unix_s < :until
    AND (CAST(:tenant AS TEXT) IS NULL OR r.tenant = CAST(:tenant AS TEXT))
    AND (CAST(:route AS TEXT) IS NULL OR r.route = CAST(:route AS TEXT))
    AND (CAST(:backend AS TEXT) IS NULL OR r.backend = CAST(:backend AS TEXT))
    AND (CAST(:model AS TEXT) IS NULL OR r.backend_model = CAST(:model AS TEXT))
"""

# `started_s` of the attempt that served is from the arrival: what lies before it was waiting, deciding and earlier
# attempts. Of those with one attempt it is waiting alone.
TIMES = f"""
    SELECT backend, count(*), sum(wait_s), sum(wait_s * wait_s), sum(y), sum(decode_s), sum(after_s), sum(duration_s),
        sum(x), sum(x * x), sum(x * y), sum(y * y)
    FROM (
        SELECT a.backend AS backend, a.started_s AS wait_s, a.first_token_s - a.started_s AS y,
            a.last_token_s - a.first_token_s AS decode_s, r.duration_s - a.last_token_s AS after_s, r.duration_s,
            CAST(a.prompt_tokens - a.cached_tokens AS DOUBLE PRECISION) / 1000 AS x
        FROM requests r JOIN attempts a ON a.request_seq = r.seq
        WHERE {_RANGE} AND r.status = 'ok' AND r.attempts = 1 AND a.first_token_s IS NOT NULL
            AND a.last_token_s IS NOT NULL AND a.prompt_tokens IS NOT NULL
    ) served
    GROUP BY backend
    ORDER BY backend
"""  # noqa: S608  # constants of this page

# Within a task, a prompt that goes on from the one before begins with that prompt and its answer.
PREFIXES = f"""
    SELECT count(*), CAST(sum(prompt_tokens) AS BIGINT), CAST(sum(cached_tokens) AS BIGINT),
        CAST(sum(CASE WHEN before > prompt_tokens THEN 0 ELSE before END) AS BIGINT),
        count(*) FILTER (WHERE before > 0), count(*) FILTER (WHERE before > 0 AND before <= prompt_tokens)
    FROM (
        SELECT r.prompt_tokens AS prompt_tokens, r.cached_tokens AS cached_tokens,
            coalesce(lag(r.prompt_tokens + r.output_tokens) OVER (
                PARTITION BY r.task_key, r.stage, r.backend_model ORDER BY r.received_unix_s, r.seq
            ), 0) AS before
        FROM requests r
        WHERE {_RANGE} AND r.task_key IS NOT NULL AND r.attempts = 1 AND r.status = 'ok'
    ) calls
"""  # noqa: S608  # constants of this page

GAPS = f"""
    SELECT count(*), sum(elapsed_s), sum(inference_s)
    FROM (
        SELECT max(r.received_unix_s + r.duration_s) - min(r.received_unix_s) AS elapsed_s,
            sum(r.duration_s) AS inference_s
        FROM requests r
        WHERE {_RANGE} AND r.task_key IS NOT NULL
        GROUP BY r.task_key
        HAVING count(*) > 1
    ) tasks
"""  # noqa: S608  # constants of this page

DAYS = f"""
    SELECT r.backend, CAST(floor(r.received_unix_s / 86400) AS BIGINT), CAST(sum(r.cost_pico_usd) AS BIGINT), count(*)
    FROM requests r
    WHERE {_RANGE} AND r.backend IS NOT NULL AND r.cost_pico_usd > 0
    GROUP BY r.backend, CAST(floor(r.received_unix_s / 86400) AS BIGINT)
"""  # noqa: S608  # constants of this page
