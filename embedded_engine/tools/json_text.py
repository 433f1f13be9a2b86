"""Follows JSON text as it comes, and tells where a value ends."""

import re
from typing import Literal

__all__ = ["JsonText"]

_PLAIN = re.compile(r'[^"\\\x00-\x1f]*')
_WHITE = " \t\n\r"
_ESCAPES = '"\\/bfnrt'
_HEX = frozenset("0123456789abcdefABCDEF")
_LITERALS = {"t": "rue", "f": "alse", "n": "ull"}
_DIGITS = "0123456789"

# By state of a number, the characters that may come and the states that they lead to. RFC 8259, section 6.
_NUMBER = {
    "start": {"-": "minus", "0": "zero", **dict.fromkeys("123456789", "whole")},
    "minus": {"0": "zero", **dict.fromkeys("123456789", "whole")},
    "zero": {".": "point", "e": "exponent", "E": "exponent"},
    "whole": {".": "point", "e": "exponent", "E": "exponent", **dict.fromkeys(_DIGITS, "whole")},
    "point": dict.fromkeys(_DIGITS, "fraction"),
    "fraction": {"e": "exponent", "E": "exponent", **dict.fromkeys(_DIGITS, "fraction")},
    "exponent": {"+": "sign", "-": "sign", **dict.fromkeys(_DIGITS, "power")},
    "sign": dict.fromkeys(_DIGITS, "power"),
    "power": dict.fromkeys(_DIGITS, "power"),
}
_WHOLE_NUMBERS = frozenset({"zero", "whole", "fraction", "power"})

Place = Literal["value", "first item", "first key", "key", "colon", "next"]


class JsonText:
    """One value in the making.

    Attributes:
        whole: Whether the value is complete. A number is when something else follows.
        broken: Whether the text cannot become JSON any more.
    """

    def __init__(self) -> None:
        self.whole = False
        self.broken = False
        self._open: list[str] = []
        self._place: Place = "value"
        self._in_string = False
        self._escape = ""
        self._literal = ""
        self._number = ""

    def feed(self, text: str, start: int = 0) -> int:
        """Read on from `start`; where the value or the sense of it ends, or the end of `text`."""
        at = start
        while at < len(text) and not (self.whole or self.broken):
            at = self._feed_string(text, at) if self._in_string else self._feed_other(text, at)
        return at

    def _feed_string(self, text: str, at: int) -> int:
        if self._escape:
            self._go_on_escaping(text[at])
            return at + 1
        plain = _PLAIN.match(text, at)
        at = plain.end() if plain else at
        if at == len(text):
            return at
        if text[at] == '"':
            self._in_string = False
            self._value_ended()
        elif text[at] == "\\":
            self._escape = "\\"
        else:
            self.broken = True
            return at
        return at + 1

    def _go_on_escaping(self, character: str) -> None:
        if self._escape == "\\":
            self._escape = "u" if character == "u" else ""
            self.broken = character not in _ESCAPES and character != "u"
        else:
            self.broken = character not in _HEX
            self._escape = "" if len(self._escape) == 4 else self._escape + character  # noqa: PLR2004  # u and four digits

    def _feed_other(self, text: str, at: int) -> int:
        character = text[at]
        if self._literal:
            self.broken = character != self._literal[0]
            self._literal = self._literal[1:]
            if not self._literal and not self.broken:
                self._value_ended()
            return at + (not self.broken)
        if self._number:
            if following := _NUMBER[self._number].get(character):
                self._number = following
                return at + 1
            self.broken = self._number not in _WHOLE_NUMBERS
            self._number = ""
            if not self.broken:
                self._value_ended()
            return at
        if character not in _WHITE:
            self._begin(character)
        return at + (not self.broken)

    def _begin(self, character: str) -> None:
        """A character that begins, parts or ends something."""
        place = self._place
        if place in {"value", "first item"} and self._begin_value(character):
            return
        if character == '"' and place in {"first key", "key"}:
            self._in_string, self._place = True, "colon"
        elif character == ":" and place == "colon":
            self._place = "value"
        elif character == "," and place == "next":
            self._place = "key" if self._open[-1] == "{" else "value"
        elif self._closes(character):
            self._open.pop()
            self._value_ended()
        else:
            self.broken = True

    def _begin_value(self, character: str) -> bool:
        if character in "{[":
            self._open.append(character)
            self._place = "first key" if character == "{" else "first item"
        elif character == '"':
            self._in_string, self._place = True, "next"
        elif character in _LITERALS:
            self._literal, self._place = _LITERALS[character], "next"
        elif character in _NUMBER["start"]:
            self._number, self._place = _NUMBER["start"][character], "next"
        else:
            return False
        return True

    def _closes(self, character: str) -> bool:
        if not self._open:
            return False
        if character == "}":
            return self._open[-1] == "{" and self._place in {"first key", "next"}
        return character == "]" and self._open[-1] == "[" and self._place in {"first item", "next"}

    def _value_ended(self) -> None:
        if self._place == "colon":  # it was a key
            return
        self._place = "next"
        self.whole = not self._open
