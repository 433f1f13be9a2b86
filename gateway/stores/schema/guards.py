"""Version 9: what guards did with a request, in words."""

STATEMENTS = ("ALTER TABLE requests ADD COLUMN guards TEXT NOT NULL DEFAULT ''",)
