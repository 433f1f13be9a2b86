"""Version 5: answers that were judged, what each judge said, and what shadows cost."""

# A shadow's row is all there is of it: its cost is in no request's.
_ANSWERS = """
CREATE TABLE judged_answers (
    id TEXT PRIMARY KEY,
    request_id TEXT NOT NULL,
    received_unix_s REAL NOT NULL,
    tenant TEXT NOT NULL,
    task TEXT NOT NULL,
    route TEXT NOT NULL,
    occasion TEXT NOT NULL,
    attempt INTEGER NOT NULL,
    backend TEXT NOT NULL,
    model TEXT NOT NULL,
    kind TEXT NOT NULL,
    success INTEGER,
    score REAL,
    reason TEXT NOT NULL,
    escalated_for TEXT NOT NULL,
    prompt_tokens INTEGER,
    cached_tokens INTEGER,
    output_tokens INTEGER,
    estimated INTEGER,
    cost_pico_usd INTEGER,
    answer_s REAL NOT NULL,
    judged_unix_s REAL NOT NULL
) STRICT, WITHOUT ROWID
"""

_VERDICTS = """
CREATE TABLE verdicts (
    answer_id TEXT NOT NULL REFERENCES judged_answers (id),
    n INTEGER NOT NULL,
    judge TEXT NOT NULL,
    success INTEGER,
    score REAL,
    reason TEXT NOT NULL,
    PRIMARY KEY (answer_id, n)
) STRICT, WITHOUT ROWID
"""

STATEMENTS = (
    _ANSWERS,
    "CREATE INDEX judged_answers_by_request ON judged_answers (request_id)",
    "CREATE INDEX judged_answers_by_time ON judged_answers (received_unix_s)",
    _VERDICTS,
)
