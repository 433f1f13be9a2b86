"""Version 1: a row a request, and a row an attempt."""

# `seq` and not `id` is the key: ids come in with requests, and a repeated one must not cost us a row.
_REQUESTS = """
CREATE TABLE requests (
    seq INTEGER PRIMARY KEY,
    id TEXT NOT NULL,
    received_unix_s REAL NOT NULL,
    tenant TEXT NOT NULL,
    operation TEXT NOT NULL,
    model TEXT,
    route TEXT NOT NULL,
    status TEXT NOT NULL,
    http_status INTEGER NOT NULL,
    finish_reason TEXT NOT NULL,
    error TEXT NOT NULL,
    stream INTEGER,
    forecast_prompt_tokens INTEGER,
    forecast_output_tokens_p50 INTEGER,
    forecast_output_tokens_p90 INTEGER,
    prompt_tokens INTEGER NOT NULL,
    cached_tokens INTEGER NOT NULL,
    output_tokens INTEGER NOT NULL,
    ttft_s REAL,
    duration_s REAL NOT NULL,
    cost_pico_usd INTEGER,
    attempts INTEGER NOT NULL,
    trace_id TEXT NOT NULL,
    unverified_user TEXT NOT NULL
) STRICT
"""

_ATTEMPTS = """
CREATE TABLE attempts (
    request_seq INTEGER NOT NULL REFERENCES requests (seq),
    n INTEGER NOT NULL,
    backend TEXT NOT NULL,
    model TEXT NOT NULL,
    status TEXT NOT NULL,
    error TEXT NOT NULL,
    upstream_status INTEGER,
    started_s REAL NOT NULL,
    first_token_s REAL,
    ended_s REAL NOT NULL,
    prompt_tokens INTEGER,
    cached_tokens INTEGER,
    output_tokens INTEGER,
    reasoning_tokens INTEGER,
    estimated INTEGER,
    cost_pico_usd INTEGER,
    PRIMARY KEY (request_seq, n)
) STRICT, WITHOUT ROWID
"""

STATEMENTS = (
    _REQUESTS,
    "CREATE INDEX requests_by_id ON requests (id)",
    "CREATE INDEX requests_by_time ON requests (received_unix_s)",
    _ATTEMPTS,
)
