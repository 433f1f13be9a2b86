"""Looks for regular expressions."""

from dataclasses import dataclass, field
from typing import ClassVar, Literal

from gateway.guard import ALLOWED, Seen, Span, Verdict
from gateway.guard_mark import Action, Stage
from policies.guard._patterns import Patterns
from policies.guard._redaction import redacted


@dataclass(frozen=True, kw_only=True)
class Pattern:
    r"""Looks for regular expressions in each text: what they match is replaced, or the whole does not pass.

    Patterns are those of RE2 (https://github.com/google/re2/wiki/Syntax): a search takes time in proportion to the
    text, whatever the text is. They are looked for from the left; of two that overlap the first counts. In a tool
    call's arguments each value is a text of its own. On a stream with ``stream: window`` every pattern must have a
    bounded length. Needs ``headrace[guards]``.

    Attributes:
        patterns: at most 64.
        action: ``block``, ``redact`` or ``annotate``.
        replacement: what stands in place of a match.

    Example::

        guards:
          - when: before
            use: pattern
            name: cards
            patterns: ['\b[0-9]{4}[ -]?[0-9]{4}[ -]?[0-9]{4}[ -]?[0-9]{4}\b']
            action: redact
            replacement: '[card]'
            on_error: refuse
          - {when: after, use: pattern, patterns: ['(?i)internal use only'], action: block, on_error: refuse}
    """

    patterns: tuple[str, ...]
    action: Literal["block", "redact", "annotate"]
    replacement: str = "[redacted]"
    _patterns: Patterns = field(init=False, repr=False, compare=False)
    stages: ClassVar[frozenset[Stage]] = frozenset(Stage)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_patterns", Patterns(self.patterns))

    @property
    def actions(self) -> tuple[Action, ...]:
        """See ``Guard``."""
        return (Action(self.action),)

    @property
    def longest_chars(self) -> int | None:
        """See ``WindowGuard``."""
        return self._patterns.longest_chars

    def look(self, seen: Seen) -> Verdict:
        """See ``Guard.look``."""
        if not any(self._patterns.finds(text.text) for text in seen.texts):
            return ALLOWED
        if self.action != "redact":
            return Verdict(action=Action(self.action))
        return Verdict(action=Action.REDACT, texts=redacted(seen, self._patterns, self.replacement))

    def spans(self, text: str, begin: int) -> list[Span]:
        """See ``WindowGuard.spans``."""
        return self._patterns.spans(text, begin, self.replacement)
