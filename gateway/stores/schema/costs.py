"""Version 4: where the cost of an attempt comes from; and what of each spool has been written."""

# One row a spool: what it holds up to `position` is in the tables, for it was put there in the same transaction.
_SPOOLS = """
CREATE TABLE spools (
    name TEXT PRIMARY KEY,
    position INTEGER NOT NULL,
    written_unix_s REAL NOT NULL
) STRICT, WITHOUT ROWID
"""

STATEMENTS = (
    "ALTER TABLE attempts ADD COLUMN cache_write_tokens INTEGER",
    "ALTER TABLE attempts ADD COLUMN answered_model TEXT NOT NULL DEFAULT ''",
    "ALTER TABLE attempts ADD COLUMN cost_source TEXT NOT NULL DEFAULT ''",
    "ALTER TABLE attempts ADD COLUMN cost_doubts TEXT NOT NULL DEFAULT ''",
    "ALTER TABLE attempts ADD COLUMN stated_pico_usd INTEGER",
    _SPOOLS,
)
