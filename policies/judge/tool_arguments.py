"""Passes an answer whose tool calls fit the request's own tools."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from gateway.conversation import ToolCall
from gateway.judgement import Answer, Choice, Judgement, cannot_say, failed, passed
from gateway.types import ChatRequest
from policies.judge._asked import asked
from policies.judge._choices import each_choice
from policies.judge._json_text import parse
from policies.judge._schemas import Schemas

_ANY = "*"
"""No name of a tool: those have letters, digits, `_` and `-`."""


@dataclass(frozen=True, kw_only=True)
class ToolArguments:
    """Passes an answer whose tool calls name tools of the request, with arguments that fit their schemas.

    An answer without a call fails where the request demands one (``tool_choice``), and else it cannot say: not to call
    may be right. Needs ``headrace[judges]``.

    Example::

        judge: [tool_arguments]
    """

    _schemas: Schemas = field(init=False, repr=False, compare=False, default_factory=Schemas)

    def judge(self, request: ChatRequest, answer: Answer) -> Judgement:
        """See ``Judge.judge``."""
        tools = _tools(request)
        demanded = _demanded(asked(request, "tool_choice"))
        if not tools and not any(choice.tool_calls for choice in answer.choices):
            return cannot_say("the request has no tools")
        return each_choice(answer, lambda choice: self._look(choice, tools, demanded))

    def _look(self, choice: Choice, tools: Mapping[str, Any], demanded: str) -> Judgement:
        if not choice.tool_calls:
            return failed("no tool is called, and one was demanded") if demanded else cannot_say("no tool is called")
        for number, call in enumerate(choice.tool_calls, start=1):
            said = self._look_at(call, tools)
            if said.success is not True:
                return Judgement(success=said.success, score=said.score, reason=f"call {number}: {said.reason}")
        names = {call.function.name for call in choice.tool_calls if call.function is not None}
        if demanded and demanded != _ANY and demanded not in names:
            return failed("another tool is called than the one that was demanded")
        return passed()

    def _look_at(self, call: ToolCall, tools: Mapping[str, Any]) -> Judgement:
        if call.function is None or call.function.name not in tools:
            return failed("the request has no tool of that name")
        # A tool without parameters is called without arguments, which models write as nothing or as `{}`.
        parsed = parse(call.function.arguments or "{}", fenced=False)
        if parsed.fault or not isinstance(parsed.value, dict):
            return failed("the arguments are no JSON object")
        schema = tools[call.function.name]
        fits, why = (True, "") if schema is None else self._schemas.fault(schema, parsed.value)
        if fits is None:
            return cannot_say(why)
        return passed() if fits else failed(f"the arguments do not fit: {why}")


def _tools(request: ChatRequest) -> dict[str, Any]:
    """The parameters' schemas by the tools' names."""
    found: dict[str, Any] = {}
    for tool in _list(asked(request, "tools")):
        function = tool.get("function")
        if isinstance(function, dict) and isinstance(function.get("name"), str):
            found[function["name"]] = function.get("parameters")
    for function in _list(asked(request, "functions")):
        if isinstance(function.get("name"), str):
            found[function["name"]] = function.get("parameters")
    return found


def _demanded(choice: Any) -> str:
    """The name of the tool that must be called, ``_ANY`` where any must, empty where none."""
    if isinstance(choice, dict):
        function = choice.get("function")
        name = function.get("name") if isinstance(function, dict) else None
        return name if isinstance(name, str) else ""
    return _ANY if choice == "required" else ""


def _list(value: Any) -> list[dict[str, Any]]:
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []
