"""Reads calls that are written as a list of Python calls: `[name(argument="value"), other()]`."""

import ast
import json

__all__ = ["PythonCalls"]

_PAIRS = {")": "(", "]": "[", "}": "{"}
_MOST_CHARACTERS = 100_000
"""Longer ones are no calls: the parser of Python's own grammar has limits of its own."""


class PythonCalls:
    """The list in the making.

    Attributes:
        text: What has come of it.
        whole: Whether its last bracket has closed.
        broken: Whether its brackets do not match.
    """

    def __init__(self) -> None:
        self.text = ""
        self.whole = False
        self.broken = False
        self._open: list[str] = []
        self._quote = ""
        self._escaped = False

    def feed(self, text: str) -> int:
        """Read on; returns how much of `text` belongs to the list."""
        at = 0
        while at < len(text) and not (self.whole or self.broken):
            self._take(text[at])
            at += not self.broken
        self.text += text[:at]
        self.broken = self.broken or len(self.text) > _MOST_CHARACTERS
        return at

    def calls(self) -> list[tuple[str, str]] | None:
        """Names, and arguments as JSON text; None where this is no list of calls with literal arguments by name."""
        try:
            tree = ast.parse(self.text.strip(), mode="eval").body
            if not isinstance(tree, ast.List) or not tree.elts:
                return None
            return [_read(call) for call in tree.elts]
        except (SyntaxError, ValueError, TypeError, RecursionError, MemoryError):
            return None

    def _take(self, character: str) -> None:
        if self._quote:
            if self._escaped:
                self._escaped = False
            elif character == "\\":
                self._escaped = True
            elif character == self._quote:
                self._quote = ""
        elif character in "\"'":
            self._quote = character
        elif character in "([{":
            self._open.append(character)
        elif character in _PAIRS:
            self.broken = not self._open or self._open.pop() != _PAIRS[character]
            self.whole = not self.broken and not self._open
        elif not self._open and not character.isspace():
            self.broken = True


def _read(call: ast.expr) -> tuple[str, str]:
    if not isinstance(call, ast.Call) or call.args:
        raise TypeError("not a call with named arguments alone")
    if not isinstance(call.func, ast.Name | ast.Attribute) or any(argument.arg is None for argument in call.keywords):
        raise TypeError("not a call of a name")
    arguments = {argument.arg: _literal(argument.value) for argument in call.keywords}
    return ast.unparse(call.func), json.dumps(arguments, ensure_ascii=False, allow_nan=False)


def _literal(value: ast.expr) -> object:
    """JSON's own words for nothing, yes and no are taken, too."""
    if isinstance(value, ast.Name) and value.id in {"true", "false", "null"}:
        return {"true": True, "false": False, "null": None}[value.id]
    return ast.literal_eval(value)
