"""Patterns of names in the policy file."""

import re
from functools import lru_cache


@lru_cache(maxsize=1024)
def name_pattern(pattern: str) -> re.Pattern[str]:
    """``*`` stands for any text; everything else for itself, brackets and dots included."""
    head, *rest = (re.escape(part) for part in pattern.split("*"))
    if not rest:
        return re.compile(head)
    # What is found leftmost between two stars is never looked for again: a client's long name costs linear time.
    middle = "".join(f"(?>.*?{part})" for part in rest[:-1])
    return re.compile(f"{head}{middle}.*{rest[-1]}", re.DOTALL)
