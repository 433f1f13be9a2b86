"""What a guard did with a request: its name, when it looked, and what came of it. No word of what it looked at."""

import re
from collections.abc import Sequence
from enum import StrEnum

from msgspec import Struct

MOST_WORD_CHARACTERS = 64
WORD = re.compile(rf"[A-Za-z0-9][A-Za-z0-9_.:/+-]{{0,{MOST_WORD_CHARACTERS - 1}}}\Z")
"""What an annotation's name and its value are: one word, so that neither can quote a prompt."""


class Stage(StrEnum):
    """When a guard looks. A metric label."""

    BEFORE = "before"
    AFTER = "after"


class Action(StrEnum):
    """What a guard does on a hit, ``allow`` where there is none. A metric label."""

    ALLOW = "allow"
    BLOCK = "block"
    REDACT = "redact"
    ANNOTATE = "annotate"


class GuardMark(Struct, frozen=True, kw_only=True, gc=False, omit_defaults=True):
    """One guard's look at one request, for the ledger, headers, metrics and spans.

    ``failed`` tells that the guard could not say, and that ``action`` is what its ``on_error`` makes of that.
    ``annotations`` are words under names that the policy file allows. It took ``took_s`` seconds.
    """

    guard: str
    stage: Stage
    action: Action
    failed: bool = False
    annotations: tuple[tuple[str, str], ...] = ()
    took_s: float = 0.0

    @property
    def silent(self) -> bool:
        """Whether there is nothing to tell of it."""
        return self.action is Action.ALLOW and not self.failed

    def in_words(self) -> str:
        """As headers and the ledger have it: ``cards:redact``, ``topic:annotate:risk=high``, ``topic:failed:allow``."""
        failed = ":failed" if self.failed else ""
        told = "".join(f":{name}={value}" for name, value in self.annotations)
        return f"{self.guard}{failed}:{self.action}{told}"


def words_of(marks: Sequence[GuardMark]) -> str:
    """All that there is to tell of them, in one line."""
    return ", ".join(mark.in_words() for mark in marks if not mark.silent)
