"""Version 2: what a decision was made from, and which prompts began alike."""

STATEMENTS = (
    "ALTER TABLE requests ADD COLUMN decision BLOB",
    "ALTER TABLE requests ADD COLUMN blocks BLOB",
)
