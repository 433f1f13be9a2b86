"""Puts right how an upstream streams tool calls, so that each call has one index, one id and one name.

Clients join fragments by ``index``. Upstreams that give every call the index 0, leave indexes or ids out, or repeat ids
and names in every fragment make clients glue calls together. A fragment that is right stays as it is. Calls of OpenAI's
custom tools, whose input is free text, are no functions, and nothing says when such a text is whole.
"""

import re
from dataclasses import dataclass, field
from typing import Any
from uuid import uuid4

import msgspec

from gateway.errors import UpstreamInvalid
from gateway.wire.upstream_json import text_of

_MAX_CALLS = 512
_JSON_MARKS = re.compile(r'[\[{\]}"]|\\.?', re.DOTALL)


@dataclass(slots=True)
class ArgumentsSoFar:
    """Follows JSON text that comes in fragments, just far enough to know whether it is a whole value."""

    depth: int = 0
    in_string: bool = False
    after_backslash: bool = False
    complete: bool = False

    def feed(self, text: str) -> None:
        """Goes on with ``text``."""
        start = 1 if self.after_backslash and text else 0
        self.after_backslash = self.after_backslash and not text
        for match in _JSON_MARKS.finditer(text, start):
            mark = match[0]
            if mark[0] == "\\":
                self.after_backslash = self.in_string and len(mark) == 1
            elif mark == '"':
                self.in_string = not self.in_string
            elif not self.in_string:
                self.depth += 1 if mark in "[{" else -1
                self.complete = self.depth == 0


@dataclass(slots=True)
class _Call:
    """One call of one choice; ``upstream_index`` and ``upstream_id`` are what the upstream knows it by."""

    index: int
    upstream_index: int | None
    upstream_id: str
    name: str = ""
    arguments: ArgumentsSoFar = field(default_factory=ArgumentsSoFar)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Fragment:
    """What one entry of ``delta.tool_calls`` says; empty where it is silent. ``kind`` is ``function`` or ``custom``."""

    kind: str
    index: int | None
    id: str
    name: str
    arguments: str


class ToolCallRepair:
    """The tool calls of one stream. Each choice has its own calls, counted from zero."""

    __slots__ = ("_calls",)

    def __init__(self) -> None:
        self._calls: dict[int, list[_Call]] = {}

    def repair(self, choice: int, entries: list[Any]) -> list[Any] | None:
        """The entries of one ``delta.tool_calls`` put right, or ``None`` where they already were.

        Raises:
            UpstreamInvalid: an entry is no object, or there is no end of calls.
        """
        calls = self._calls.setdefault(choice, [])
        repaired = [self._repaired(calls, entry, at if len(entries) > 1 else None) for at, entry in enumerate(entries)]
        return repaired if repaired != entries else None

    def _repaired(self, calls: list[_Call], given: Any, place: int | None) -> dict[str, Any]:
        if not isinstance(given, dict):
            raise UpstreamInvalid("the upstream sent a tool call that is no object")
        said = _read(given, place)
        call = _call_of(calls, said)
        inner = given.get(said.kind)
        entry: dict[str, Any] = {**given, said.kind: dict(inner) if isinstance(inner, dict) else {}}
        if isinstance(entry[said.kind].get("arguments"), dict):
            entry[said.kind]["arguments"] = said.arguments
        if call is None:
            call = _begin(calls, said, entry)
        else:
            _continue(call, said, entry)
        entry["index"] = call.index
        call.arguments.feed(said.arguments)
        return entry


def _read(entry: dict[str, Any], place: int | None) -> _Fragment:
    """``place`` stands in for a missing index where several entries come together."""
    index = entry.get("index")
    kind = "custom" if isinstance(entry.get("custom"), dict) else "function"
    function = entry.get(kind)
    if not isinstance(function, dict):
        function = {}
    arguments = function.get("arguments")
    if isinstance(arguments, dict):
        arguments = msgspec.json.encode(arguments).decode()
    return _Fragment(
        kind=kind,
        index=index if type(index) is int else place,
        id=text_of(entry.get("id")),
        name=text_of(function.get("name")),
        arguments=text_of(arguments),
    )


def _call_of(calls: list[_Call], said: _Fragment) -> _Call | None:
    """The call that a fragment goes on with, or ``None`` where it begins another.

    The id is the best witness, then the index, then the order. A call whose arguments are a whole JSON value cannot
    grow, so more arguments are another call, however they are labelled.
    """
    if said.id:
        call = next((call for call in reversed(calls) if call.upstream_id == said.id), None)
        if call is None:
            return _begun_without_id(calls, said)
        moved = bool(said.name) and said.index is not None and said.index != call.upstream_index
    else:
        known = [call for call in calls if call.upstream_index == said.index] if said.index is not None else calls
        if not known:
            return None
        call = known[-1]
        moved = bool(said.name) and bool(call.name) and said.name != call.name
    grown_up = call.arguments.complete and bool(said.arguments.strip())
    return None if moved or grown_up else call


def _begun_without_id(calls: list[_Call], said: _Fragment) -> _Call | None:
    """The call whose id comes late: the last one at this index, if it has none and the fragment brings no name."""
    if said.name:
        return None
    call = next((call for call in reversed(calls) if call.upstream_index == said.index), None)
    if call is None or call.upstream_id:
        return None
    call.upstream_id = said.id
    return call


def _begin(calls: list[_Call], said: _Fragment, entry: dict[str, Any]) -> _Call:
    """A new call: it takes the next index, and gets an id of its own where it has none or somebody else's."""
    if len(calls) >= _MAX_CALLS:
        raise UpstreamInvalid(f"the upstream sent more than {_MAX_CALLS} tool calls")
    previous = calls[-1].name if calls and not said.name and not said.id else ""
    call = _Call(len(calls), said.index, said.id, said.name or previous)
    if not said.id or any(other.upstream_id == said.id for other in calls):
        entry["id"] = f"call_{uuid4().hex[:24]}"
    if not entry.get("type"):
        entry["type"] = said.kind
    if previous:
        entry[said.kind]["name"] = previous
    calls.append(call)
    return call


def _continue(call: _Call, said: _Fragment, entry: dict[str, Any]) -> None:
    """More of a call: what was said once is not said again, not even as an empty string."""
    if isinstance(entry.get("id"), str):
        del entry["id"]
    if said.name and not call.name:
        call.name = said.name
    elif isinstance(entry[said.kind].get("name"), str):
        del entry[said.kind]["name"]
