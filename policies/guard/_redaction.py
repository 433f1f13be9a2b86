"""The texts without what patterns match in them."""

from gateway.guard import Seen
from policies.guard._patterns import Patterns


def redacted(seen: Seen, patterns: Patterns, replacement: str) -> tuple[str, ...]:
    """All texts that were seen, each match replaced."""
    return tuple(_without(text.text, patterns, replacement) for text in seen.texts)


def _without(text: str, patterns: Patterns, replacement: str) -> str:
    out: list[str] = []
    at = 0
    for begin, end, instead in patterns.spans(text, 0, replacement):
        out += (text[at:begin], instead)
        at = end
    return "".join((*out, text[at:]))
