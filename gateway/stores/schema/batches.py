"""Version 7: files that clients upload, and batches of requests made from them."""

# A file is in pieces, so that none of it has to be in memory as a whole.
_FILES = """
CREATE TABLE files (
    id TEXT NOT NULL,
    tenant TEXT NOT NULL,
    name TEXT NOT NULL,
    purpose TEXT NOT NULL,
    state TEXT NOT NULL,
    size_bytes INTEGER NOT NULL,
    created_unix_s REAL NOT NULL,
    expires_unix_s REAL NOT NULL,
    PRIMARY KEY (id)
) STRICT, WITHOUT ROWID
"""
_PIECES = """
CREATE TABLE file_pieces (
    file_id TEXT NOT NULL,
    n INTEGER NOT NULL,
    data BLOB NOT NULL,
    PRIMARY KEY (file_id, n)
) STRICT
"""

# Who owns a batch until `lease_unix_s` runs it, and writes its `record`; whoever else wants it to end says so apart.
_BATCHES = """
CREATE TABLE batches (
    id TEXT NOT NULL,
    tenant TEXT NOT NULL,
    api TEXT NOT NULL,
    status TEXT NOT NULL,
    input_file_id TEXT NOT NULL,
    created_unix_s REAL NOT NULL,
    expires_unix_s REAL NOT NULL,
    cancel_unix_s REAL,
    owner TEXT NOT NULL,
    lease_unix_s REAL NOT NULL,
    record BLOB NOT NULL,
    PRIMARY KEY (id)
) STRICT, WITHOUT ROWID
"""

# One row is the one result of a line. `body` comes last: what counts rows need not read over it.
_LINES = """
CREATE TABLE batch_lines (
    batch_id TEXT NOT NULL,
    line INTEGER NOT NULL,
    outcome TEXT NOT NULL,
    input_tokens INTEGER NOT NULL,
    cached_tokens INTEGER NOT NULL,
    output_tokens INTEGER NOT NULL,
    reasoning_tokens INTEGER NOT NULL,
    body BLOB NOT NULL,
    PRIMARY KEY (batch_id, line)
) STRICT
"""

# What has begun and has no result yet. Whoever finds such a row of a process that is no more runs the line again.
_TRIES = """
CREATE TABLE batch_tries (
    batch_id TEXT NOT NULL,
    line INTEGER NOT NULL,
    request_id TEXT NOT NULL,
    begun_unix_s REAL NOT NULL,
    PRIMARY KEY (batch_id, line)
) STRICT, WITHOUT ROWID
"""

STATEMENTS = (
    _FILES,
    "CREATE INDEX files_by_tenant ON files (tenant, created_unix_s, id)",
    "CREATE INDEX files_by_expiry ON files (expires_unix_s)",
    _PIECES,
    _BATCHES,
    "CREATE INDEX batches_by_tenant ON batches (tenant, api, created_unix_s, id)",
    "CREATE INDEX batches_by_status ON batches (status, created_unix_s)",
    _LINES,
    "CREATE INDEX batch_lines_by_outcome ON batch_lines (batch_id, outcome)",
    _TRIES,
)
