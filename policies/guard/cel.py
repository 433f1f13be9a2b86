"""Decides by an expression in the Common Expression Language."""

from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal

from gateway.guard import ALLOWED, CREDENTIALS, CannotSay, Seen, Verdict
from gateway.guard_mark import Action, Stage
from policies._expressions import compiled
from policies.guard._patterns import Patterns
from policies.guard._redaction import redacted
from policies.guard._seen_by_cel import NAMES, variables

_MOST_HEADERS = 16


@dataclass(frozen=True, kw_only=True)
class Cel:
    """Decides by an expression in the Common Expression Language: where it is true, ``action`` is done.

    It sees ``stage`` (``before`` or ``after``), ``model``, ``tenant``, ``operation``, ``stream``, ``max_tokens`` (0
    where there is no bound), ``messages`` (each with ``role`` and ``text``), ``system``, ``tools`` (their names),
    ``parameters`` (``temperature`` and all other fields that are text, numbers, true or false), ``metadata``, and
    ``headers`` (those listed here); ``texts``, all texts of the request or, after it, of the answer, and ``text``, the
    same with a line end between them. After the answer also ``answer``, ``finish_reason``, ``tool_calls`` (each with
    ``name`` and ``arguments``), ``prompt_tokens`` and ``output_tokens`` (0 where the answer does not tell).

    The language has no loops without end; ``all``, ``exists``, ``filter`` and ``map`` must not stand in each other, so
    that an evaluation takes time in proportion to what it sees. ``matches`` takes linear time. With ``annotate``, text
    or a number that the expression gives is the annotation ``value``. Needs ``headrace[guards]``.

    Attributes:
        expression: at most 2,000 characters.
        action: ``block``, ``redact`` (what ``patterns`` match) or ``annotate``.
        patterns: for ``redact``, as for ``pattern``.
        replacement: what stands in place of a match.
        headers: names of the client's headers that the expression may see, in lower case; none with credentials.

    Example::

        guards:
          - when: before
            use: cel
            name: long-system
            expression: 'size(system) > 20000 && tenant != "research"'
            action: block
            on_error: allow
          - when: after
            use: cel
            expression: 'tool_calls.exists(c, c.name == "shell")'
            action: block
            on_error: refuse
    """

    expression: str
    action: Literal["block", "redact", "annotate"]
    patterns: tuple[str, ...] = ()
    replacement: str = "[redacted]"
    headers: tuple[str, ...] = ()
    _program: Any = field(init=False, repr=False, compare=False)
    _patterns: Patterns | None = field(init=False, repr=False, compare=False)
    stages: ClassVar[frozenset[Stage]] = frozenset(Stage)

    def __post_init__(self) -> None:
        if (self.action == "redact") != bool(self.patterns):
            raise ValueError("`patterns` are what `action: redact` replaces, and for no other action")
        known = [name for name in self.headers if name != name.lower() or name in CREDENTIALS]
        if known or len(self.headers) > _MOST_HEADERS:
            raise ValueError(f"`headers` are at most {_MOST_HEADERS} names in lower case, and none of credentials")
        object.__setattr__(self, "_program", compiled(self.expression, NAMES, extra="guards", may_nest=False))
        object.__setattr__(self, "_patterns", Patterns(self.patterns) if self.patterns else None)

    @property
    def actions(self) -> tuple[Action, ...]:
        """See ``Guard``."""
        return (Action(self.action),)

    def look(self, seen: Seen) -> Verdict:
        """See ``Guard.look``."""
        try:
            said = self._program.execute(variables(seen, self.headers))
        except Exception as error:  # noqa: BLE001  # the language maps its own errors to many of Python's
            raise CannotSay(f"the expression cannot be evaluated: {type(error).__name__}") from None
        annotations: tuple[tuple[str, str], ...] = ()
        if self.action == "annotate" and not isinstance(said, bool) and isinstance(said, str | int | float):
            if said == "":
                return ALLOWED
            annotations = (("value", str(said)),)
        elif not isinstance(said, bool):
            raise CannotSay("the expression gives neither true nor false")
        elif not said:
            return ALLOWED
        texts = redacted(seen, self._patterns, self.replacement) if self._patterns is not None else ()
        return Verdict(action=Action(self.action), texts=texts, annotations=annotations)
