"""Parts a model's answer into what it says and what it calls, as the text comes."""

import re
import secrets
import string
from collections.abc import Collection

from embedded_engine.tools.call_object import CallObject, CallText, NamedCall
from embedded_engine.tools.families import Family, stripped
from embedded_engine.tools.marks import could_begin_at, matched
from embedded_engine.tools.python_calls import PythonCalls
from embedded_engine.turns import CallPiece

__all__ = ["CallReader"]

Said = list[str | CallPiece]

_NAME = re.compile(r"\s*([\w.-]{1,64})")
_NAME_BEGUN = re.compile(r"\s*[\w.-]{0,64}\Z")
_PYTHON = re.compile(r"\s*\[\s*[A-Za-z_][\w.]*\(")
_PYTHON_BEGUN = re.compile(r"\s*(\[\s*([A-Za-z_][\w.]*)?)?\Z")
_LIST_BEGUN = re.compile(r"\s*\[\s*(\S)")
_LETTERS = string.ascii_letters + string.digits
_FREE_TAG = "<|python_tag|>"
"""Llama 3 may put it before a call that is a whole answer."""


class CallReader:
    """One answer's reader. Cutting the text elsewhere changes neither what is said nor what is called.

    What looks like a call and is none (broken JSON, a function that nobody offered) is said, mark and all. White space
    around calls is dropped.

    Args:
        family: How this model writes calls.
        names: The functions that it may call.
        eager: Whether the arguments are shown as they come: for a model that a grammar holds to the format. Otherwise a
            call is shown when it is whole.
        parallel: Whether there may be several.

    Attributes:
        calls: How many were shown.
    """

    def __init__(self, family: Family, names: Collection[str], *, eager: bool, parallel: bool = True) -> None:
        self.calls = 0
        self._family = family
        self._names = frozenset(names)
        self._eager = eager
        self._parallel = parallel
        self._text = ""  # not yet understood
        self._given = ""  # of the call under way: what it is if it is none
        self._place = "named" if family.text_name else "text"
        self._expected: list[str] = []
        self._call: CallText | PythonCalls | None = None
        self._announced = False
        self._shown = 0
        self._at_start = True
        self._objects = False
        self._start = stripped(family.start)
        self._ignored = stripped((*family.end, *family.closing, family.separator))

    @property
    def held_characters(self) -> int:
        """How many characters are held back, because it is not clear yet what they are."""
        return len(self._text) + (0 if self._announced else len(self._given))

    def feed(self, text: str) -> Said:
        """What of `text`, and of text held back before, is understood now."""
        self._text += text
        said: Said = []
        while self._step(said):
            pass
        return said

    def finish(self) -> Said:
        """What was held back, now that no more text comes; half a mark or half a call that must be one is dropped."""
        held = self._text if self._announced else self._given + self._text
        place, self._text, self._given = self._place, "", ""
        if place == "after":
            held = held.strip()
            marks = [*self._ignored, *self._start[:1]]
            return [held] if held and not any(mark.startswith(held) for mark in marks) else []
        begun = place in {"marks", "named", "call"} and self._eager
        return [held] if held and not begun else []

    def _step(self, said: Said) -> bool:
        """Understand a little more; whether there was enough text to."""
        match self._place:
            case "text":
                return self._read_text(said)
            case "marks":
                return self._read_marks(said)
            case "named":
                return self._read_name(said)
            case "call":
                return self._read_call(said)
            case "after":
                return self._read_after()
            case _:  # "rest": nothing is called any more
                _say(said, self._text)
                self._text = ""
                return False

    def _read_text(self, said: Said) -> bool:
        if not self._text:
            return False
        mark = self._family.first_mark
        if not mark:
            return self._read_markless(said)
        if (at := self._text.find(mark)) >= 0:
            _say(said, self._text[:at].rstrip())
            self._given, self._text = mark, self._text[at + len(mark) :]
            self._place, self._expected = "marks", [*stripped(self._family.opening), *self._start][1:]
            return True
        keep = could_begin_at(self._text, mark)
        _say(said, self._text[:keep])
        self._text = self._text[keep:]
        return False

    def _read_markless(self, said: Said) -> bool:
        """Calls without a mark are the whole answer, or are none."""
        if self._at_start and (tag := matched(self._text, _FREE_TAG)) is not None:
            if tag < 0:
                return False
            self._given, self._text, self._at_start = self._text[:tag], self._text[tag:], False
            return bool(self._text)
        python = self._family.body == "python"
        begins = _PYTHON.match(self._text) if python else self._text.lstrip().startswith("{")
        if begins:
            self._place, self._expected = "marks", []
            return True
        if _PYTHON_BEGUN.match(self._text) if python else not self._text.strip():
            return False
        self._place, self._text, self._given = "rest", self._given + self._text, ""
        return self._step(said)

    def _read_marks(self, said: Said) -> bool:
        """The marks after the first one, up to the call itself."""
        while self._expected:
            end = matched(self._text, self._expected[0])
            if end is None and self._expected[0] == "[" and self._text.lstrip().startswith("{"):
                end = 0  # some models leave the bracket out around a single call
            if end is None:
                return self._no_call(said)
            if end < 0:
                return False
            self._given += self._text[:end]
            self._text = self._text[end:]
            self._expected.pop(0)
        if self._family.body == "named" and self._call is None:
            self._place = "named"
            return True
        if self._call is None:
            call = self._new_call()
            if call is None:
                return False
            self._call = call
        self._place = "call"
        return True

    def _new_call(self) -> CallObject | PythonCalls | None:
        """What comes is read as; None while that is not clear. Some models write objects where others write Python."""
        if self._family.body == "object" or self._objects:
            return CallObject()
        begun = _LIST_BEGUN.match(self._text)
        if begun is None:
            return None if self._text.strip() in {"", "["} else PythonCalls()
        if begun[1] != "{":
            return PythonCalls()
        self._objects = True
        self._given += self._text[: begun.start(1)]
        self._text = self._text[begun.start(1) :]
        return CallObject()

    def _read_name(self, said: Said) -> bool:
        if (
            self._at_start and self._family.text_name
        ):  # most prompts end with the first mark, some leave it to the model
            end = matched(self._text, self._family.first_mark)
            if end == -1 or not self._text:
                return False
            self._at_start = False
            self._given, self._text = self._text[: end or 0], self._text[end or 0 :]
        if _NAME_BEGUN.match(self._text):
            return False
        name = _NAME.match(self._text)
        if name is None:
            return self._no_call(said)
        self._given += name[0]
        self._text = self._text[name.end() :]
        if name[1] == self._family.text_name:
            self._given, self._place = "", "text"
            self._text = self._text.removeprefix("\n")
            return True
        self._call = NamedCall(name[1])
        self._expected = stripped(self._family.between)
        self._place = "marks"
        return True

    def _read_call(self, said: Said) -> bool:
        call = self._call
        if call is None or not self._text:
            return False
        end = call.feed(self._text)
        self._given += self._text[:end]
        self._text = self._text[end:]
        if isinstance(call, PythonCalls):
            return self._read_python(call, said)
        if call.broken or (call.name and call.name not in self._names):
            return self._no_call(said)
        if call.name and (call.whole or (self._eager and call.arguments)):
            self._show(call, said)
        if not call.whole:
            return False
        self._over()
        return True

    def _read_python(self, calls: PythonCalls, said: Said) -> bool:
        if not (calls.whole or calls.broken):
            return False
        found = calls.calls() if calls.whole else None
        if found is None or not all(name in self._names for name, _ in found):
            return self._no_call(said)
        for name, arguments in found if self._parallel else found[:1]:
            said += [self._piece(name), CallPiece(index=self.calls, arguments=arguments)]
            self.calls += 1
        self._over()
        return True

    def _show(self, call: CallText, said: Said) -> None:
        if not self._announced:
            said.append(self._piece(call.name))
            self._announced = True
            self.calls += 1
        if len(call.arguments) > self._shown:
            said.append(CallPiece(index=self.calls - 1, arguments=call.arguments[self._shown :]))
            self._shown = len(call.arguments)

    def _over(self) -> None:
        self._forget_call()
        self._place = "after"

    def _forget_call(self) -> None:
        self._call, self._given, self._shown, self._announced = None, "", 0, False

    def _no_call(self, said: Said) -> bool:
        """What has come is said after all; a call that was announced stays, as far as it came."""
        self._text = self._text if self._announced else self._given + self._text
        self._forget_call()
        mark = self._family.first_mark
        self._place = "text" if mark else "rest"
        if mark and self._text.startswith(mark):
            _say(said, mark)
            self._text = self._text[len(mark) :]
        return True

    def _read_after(self) -> bool:
        """Between two calls, or after the last one: marks that end and part are dropped."""
        objects = self._family.body == "object" or self._objects
        again = self._start[0] if self._start else "{" if objects else ""
        ignored = [*self._ignored, ",", "]"] if self._objects else self._ignored
        marks = [*ignored, again] if again else ignored
        ends = {mark: end for mark in marks if (end := matched(self._text, mark)) is not None}
        if not ends:
            if not self._text.strip():
                return False
            self._place = "text" if self._family.first_mark and self._parallel else "rest"
            return True
        mark, end = max(ends.items(), key=lambda found: found[1])
        if end < 0:
            return False
        if mark != again:
            self._text = self._text[end:]
        elif self._parallel:
            end -= 0 if self._start else len(mark)  # the brace belongs to the call
            self._given, self._text = self._text[:end], self._text[end:]
            self._place, self._expected = "marks", self._start[1:]
        else:
            self._place = "rest"
        return True

    def _piece(self, name: str) -> CallPiece:
        characters = self._family.id_characters
        number = "".join(secrets.choice(_LETTERS) for _ in range(characters or 24))
        return CallPiece(index=self.calls, id=number if characters else f"call_{number}", name=name)


def _say(said: Said, text: str) -> None:
    if text:
        said.append(text)
