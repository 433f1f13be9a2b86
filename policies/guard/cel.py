"""Decides by an expression in the Common Expression Language."""

import re
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal

from gateway.guard import ALLOWED, CREDENTIALS, CannotSay, Seen, Verdict
from gateway.guard_mark import Action, Stage
from policies.guard._patterns import Patterns
from policies.guard._redaction import redacted
from policies.guard._seen_by_cel import NAMES, variables

_MOST_CHARACTERS = 2000
_MOST_HEADERS = 16
_STRINGS = re.compile(r"""[rR]?("(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)*')""")
_MACRO = re.compile(r"\.\s*(?:all|exists|exists_one|filter|map)\s*\(")
_BOUND = re.compile(r"\.\s*(?:all|exists|exists_one|filter|map)\s*\(\s*(\w+)\s*,")
"""What stands for one item in a macro: a name of the expression's own."""


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
        object.__setattr__(self, "_program", _compiled(self.expression))
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


def _compiled(expression: str) -> Any:
    """The program.

    Raises:
        ValueError: it is none, is too long, may take too long, or names what there is not.
    """
    if len(expression) > _MOST_CHARACTERS:
        raise ValueError(f"`expression` must have at most {_MOST_CHARACTERS} characters")
    try:
        import cel as cel_language  # noqa: PLC0415  # an extra: whoever lists the guards need not have it
    except ModuleNotFoundError as error:
        raise ValueError("this needs `pip install 'headrace[guards]'`") from error
    try:
        program = cel_language.compile(expression)
    except (ValueError, RuntimeError) as error:
        raise ValueError(f"`expression` is no CEL: {str(error).splitlines()[0]}") from error
    plain = _STRINGS.sub('""', expression)
    if _nests(plain):
        raise ValueError(
            "`expression` has `all`, `exists`, `filter` or `map` inside another, which could take for ever"
        )
    unknown = sorted(set(program.variables()) - NAMES - set(_BOUND.findall(plain)))
    if unknown:
        raise ValueError(f"`expression` names `{unknown[0]}`, and there are {', '.join(sorted(NAMES))}")
    return program


def _nests(expression: str) -> bool:
    """Whether one of the macros stands in another's parentheses. ``expression`` has no strings."""
    for macro in _MACRO.finditer(expression):
        depth, at = 1, macro.end()
        while at < len(expression) and depth:
            depth += {"(": 1, ")": -1}.get(expression[at], 0)
            at += 1
        if _MACRO.search(expression, macro.end(), at):
            return True
    return False
