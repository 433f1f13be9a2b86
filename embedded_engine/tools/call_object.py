"""Reads a call that is a JSON object with a name and arguments, as its text comes."""

import json
from abc import ABC, abstractmethod

from embedded_engine.tools.json_text import JsonText

__all__ = ["CallObject", "CallText", "NamedCall"]

_NAMES = frozenset({"name", "function", "tool"})
_ARGUMENTS = frozenset({"arguments", "parameters", "args"})
_WHITE = " \t\r\n"


class CallText(ABC):
    """What both kinds of call show.

    Attributes:
        name: The function's, as soon as it is known.
        arguments: JSON text of an object, as far as it has come.
        whole: Whether the call is complete.
        broken: Whether it is no call.
    """

    def __init__(self) -> None:
        self.name = ""
        self.arguments = ""
        self.whole = False
        self.broken = False

    @abstractmethod
    def feed(self, text: str) -> int:
        """Read on; returns how much of `text` belongs to the call."""


class NamedCall(CallText):
    """Arguments alone: the name stood before them."""

    def __init__(self, name: str) -> None:
        super().__init__()
        self.name = name
        self._value = JsonText()

    def feed(self, text: str) -> int:
        """See `CallText.feed`."""
        end = self._value.feed(text)
        self.arguments += text[:end] if self.arguments else text[:end].lstrip(_WHITE)
        self.whole = self._value.whole
        self.broken = self._value.broken or self.arguments[:1] not in {"", "{"}
        return end


class CallObject(CallText):
    """`{"name": ..., "arguments": {...}}`, its members in any order and with any others beside."""

    def __init__(self) -> None:
        super().__init__()
        self._place = "open"
        self._value = JsonText()
        self._taken = ""
        self._key = ""

    def feed(self, text: str) -> int:
        """See `CallText.feed`."""
        at = 0
        while at < len(text) and not (self.whole or self.broken):
            if self._place in {"key", "value"} and (self._taken or text[at] not in _WHITE):
                at = self._feed_value(text, at)
                continue
            if text[at] not in _WHITE:
                self._feed_mark(text[at])
            at += not self.broken
        return at

    def _feed_mark(self, character: str) -> None:
        following = {("open", "{"): "key", ("colon", ":"): "value", ("next", ","): "key", ("next", "}"): "whole"}
        self._place = following.get((self._place, character), "broken")
        self.whole = self._place == "whole" and bool(self.name)
        self.broken = self._place == "broken" or (self._place == "whole" and not self.name)
        if self.whole and not self.arguments:
            self.arguments = "{}"

    def _feed_value(self, text: str, at: int) -> int:
        if self._place == "key" and not self._taken and text[at] != '"':
            self.broken = True
            return at
        end = self._value.feed(text, at)
        self._taken += text[at:end]
        if self._key in _ARGUMENTS and self._place == "value" and self._taken[:1] == "{":
            self.arguments += text[at:end]
        if self._value.broken:
            self.broken = True
        elif self._value.whole:
            self._take_value(self._taken)
            self._value, self._taken = JsonText(), ""
        return end

    def _take_value(self, taken: str) -> None:
        if self._place == "key":
            self._key, self._place = json.loads(taken), "colon"
            return
        self._place = "next"
        if self._key in _NAMES:
            name = json.loads(taken)
            self.name = name if isinstance(name, str) else ""
            self.broken = not self.name
        elif self._key in _ARGUMENTS and not self.arguments:
            self.arguments = _unpacked(taken)
            self.broken = not self.arguments


def _unpacked(taken: str) -> str:
    """Arguments that some models write as text in text; empty where they are no object at all."""
    text = json.loads(taken)
    value = JsonText()
    if not isinstance(text, str) or not text.lstrip(_WHITE).startswith("{"):
        return ""
    end = value.feed(text)
    return text.strip(_WHITE) if value.whole and not text[end:].strip(_WHITE) else ""
