"""Version 3: the task of a request, what reports group by, and the outcomes that clients tell of their tasks."""

_CURRENT = """
CREATE TABLE task_outcomes (
    tenant TEXT NOT NULL,
    task TEXT NOT NULL,
    task_key INTEGER NOT NULL,
    at_unix_s REAL NOT NULL,
    received_unix_s REAL NOT NULL,
    success INTEGER,
    score REAL,
    tool_cost_pico_usd INTEGER,
    tool_s REAL,
    retrieval_s REAL,
    recovery_cost_pico_usd INTEGER,
    note TEXT NOT NULL,
    PRIMARY KEY (tenant, task)
) STRICT, WITHOUT ROWID
"""

# `given_key` is the client's idempotency key: NULLs are distinct from each other in a unique index, in both databases.
_HISTORY = """
CREATE TABLE task_outcome_history (
    seq INTEGER PRIMARY KEY,
    tenant TEXT NOT NULL,
    task TEXT NOT NULL,
    at_unix_s REAL NOT NULL,
    received_unix_s REAL NOT NULL,
    success INTEGER,
    score REAL,
    tool_cost_pico_usd INTEGER,
    tool_s REAL,
    retrieval_s REAL,
    recovery_cost_pico_usd INTEGER,
    note TEXT NOT NULL,
    given_key TEXT
) STRICT
"""

# In the order in which reports read, with all that they need of a request: they never touch the wide table. What can be
# long is not in it, since PostgreSQL refuses an index entry of more than 2,704 bytes.
_FOR_REPORTS = """
CREATE INDEX requests_for_reports ON requests (
    received_unix_s, seq, tenant, route, backend, backend_model, status, task_key, stage, prompt_tokens, cached_tokens,
    output_tokens, ttft_step, e2e_step, tpot_step, itl_step, cost_pico_usd, attempts, forecast_prompt_tokens,
    forecast_output_tokens_p50
)
"""

_BACKENDS = """
UPDATE requests SET backend =
    (SELECT a.backend FROM attempts a WHERE a.request_seq = requests.seq AND a.n = requests.attempts)
"""
_MODELS = """
UPDATE requests SET backend_model =
    (SELECT a.model FROM attempts a WHERE a.request_seq = requests.seq AND a.n = requests.attempts)
"""

STATEMENTS = (
    "ALTER TABLE requests ADD COLUMN task TEXT NOT NULL DEFAULT ''",
    "ALTER TABLE requests ADD COLUMN stage TEXT NOT NULL DEFAULT ''",
    "ALTER TABLE requests ADD COLUMN backend TEXT",
    "ALTER TABLE requests ADD COLUMN backend_model TEXT",
    "ALTER TABLE requests ADD COLUMN task_key INTEGER",
    "ALTER TABLE requests ADD COLUMN ttft_step INTEGER",
    "ALTER TABLE requests ADD COLUMN e2e_step INTEGER",
    "ALTER TABLE requests ADD COLUMN tpot_step INTEGER",
    "ALTER TABLE requests ADD COLUMN itl_step INTEGER",
    "ALTER TABLE attempts ADD COLUMN last_token_s REAL",
    "ALTER TABLE attempts ADD COLUMN bursts INTEGER",
    "ALTER TABLE attempts ADD COLUMN serves INTEGER NOT NULL DEFAULT 0",
    _BACKENDS,
    _MODELS,
    "UPDATE attempts SET serves = 1 WHERE n = (SELECT attempts FROM requests WHERE seq = attempts.request_seq)",
    "CREATE INDEX requests_by_task ON requests (tenant, task) WHERE task <> ''",
    _FOR_REPORTS,
    "DROP INDEX requests_by_time",
    _CURRENT,
    "CREATE INDEX task_outcomes_by_time ON task_outcomes (received_unix_s)",
    _HISTORY,
    "CREATE UNIQUE INDEX task_outcome_history_by_key ON task_outcome_history (tenant, task, given_key)",
    "CREATE INDEX task_outcome_history_by_time ON task_outcome_history (received_unix_s)",
)
