"""Version 8: what an attempt took that is counted otherwise than in tokens of text."""

STATEMENTS = ("ALTER TABLE attempts ADD COLUMN units TEXT NOT NULL DEFAULT ''",)
