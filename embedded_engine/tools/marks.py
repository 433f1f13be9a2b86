"""Finds marks in a text of which more may come."""

__all__ = ["could_begin_at", "matched"]


def matched(text: str, mark: str) -> int | None:
    """Where `mark` ends, if `text` begins with it after white space; -1 if it may yet; None if it does not."""
    start = len(text) - len(text.lstrip())
    if text.startswith(mark, start):
        return start + len(mark)
    return -1 if mark.startswith(text[start:]) else None


def could_begin_at(text: str, mark: str) -> int:
    """From where the rest of `text`, white space first, may be the beginning of `mark`."""
    longest = min(len(mark) - 1, len(text))
    begun = next((size for size in range(longest, 0, -1) if text.endswith(mark[:size])), 0)
    return len(text[: len(text) - begun].rstrip())
