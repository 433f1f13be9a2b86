"""Expressions in the Common Expression Language, compiled and checked when the policy file is read."""

import re
from collections.abc import Set as AbstractSet
from typing import Any

_MOST_CHARACTERS = 2000
_STRINGS = re.compile(r"""[rR]?("(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)*')""")
_MACRO = re.compile(r"\.\s*(?:all|exists|exists_one|filter|map)\s*\(")
_BOUND = re.compile(r"\.\s*(?:all|exists|exists_one|filter|map)\s*\(\s*(\w+)\s*,")
"""What stands for one item in a macro: a name of the expression's own."""


def compiled(expression: str, names: AbstractSet[str], *, extra: str, may_nest: bool) -> Any:
    """The program of an expression that sees ``names``.

    Args:
        expression: at most 2,000 characters.
        names: its variables.
        extra: the extra of ours that brings the language.
        may_nest: whether a macro may stand in another, which takes time beyond proportion to what it sees.

    Raises:
        ValueError: it is none, is too long, may take too long, or names what there is not; or nothing brings the
            language.
    """
    if len(expression) > _MOST_CHARACTERS:
        raise ValueError(f"`expression` must have at most {_MOST_CHARACTERS} characters")
    try:
        import cel as cel_language  # noqa: PLC0415  # an extra: whoever lists the plugins need not have it
    except ModuleNotFoundError as error:
        raise ValueError(f"this needs `pip install 'headrace[{extra}]'`") from error
    try:
        program = cel_language.compile(expression)
    except (ValueError, RuntimeError) as error:
        raise ValueError(f"`expression` is no CEL: {str(error).splitlines()[0]}") from error
    plain = _STRINGS.sub('""', expression)
    if not may_nest and _nests(plain):
        raise ValueError(
            "`expression` has `all`, `exists`, `filter` or `map` inside another, which could take for ever"
        )
    unknown = sorted(set(program.variables()) - names - set(_BOUND.findall(plain)))
    if unknown:
        raise ValueError(f"`expression` names `{unknown[0]}`, and there are {', '.join(sorted(names))}")
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
