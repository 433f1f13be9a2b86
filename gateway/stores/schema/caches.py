"""Version 6: what a route's cache had to do with a request, and what it saved."""

STATEMENTS = (
    "ALTER TABLE requests ADD COLUMN cache TEXT NOT NULL DEFAULT ''",
    "ALTER TABLE requests ADD COLUMN saved_pico_usd INTEGER",
)
