"""The tools that a request offers: checked, and what becomes of them."""

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import msgspec

from embedded_engine.errors import InvalidRequest
from embedded_engine.messages import Generate, GrammarText
from embedded_engine.tools.families import PLAIN, Family
from embedded_engine.tools.grammar import call_grammar
from embedded_engine.tools.reader import CallReader
from embedded_engine.turns import Tool

__all__ = ["MAX_TOOLS", "Offer", "make_offer"]

MAX_TOOLS = 128
_NAME = re.compile(r"[A-Za-z0-9_.-]{1,64}")

Compile = Callable[[GrammarText], object]
"""Compiles a grammar, or raises `InvalidRequest`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Offer:
    """What a request's answer may call.

    Attributes:
        family: How the model writes its calls.
        names: What may be called.
        grammar: What holds the answer to it; None where nothing does.
        parallel: Whether it may call several.
    """

    family: Family
    names: tuple[str, ...]
    grammar: GrammarText | None
    parallel: bool

    def reader(self) -> CallReader:
        """For one answer."""
        return CallReader(self.family, self.names, eager=self.grammar is not None, parallel=self.parallel)


def make_offer(request: Generate, family: Family, *, control: Mapping[str, int], compile_: Compile) -> Offer | None:
    """What `request` offers; None where nothing may be called.

    Args:
        request: Its tools, how it wants them called, and what else its answer must look like.
        family: How the model writes calls.
        control: The numbers of control tokens, by their text.
        compile_: Tries a grammar. A call that is required must have one; one that is not can be read without.

    Raises:
        InvalidRequest: A tool is badly defined, or the choice cannot be kept; `param` names the field.
    """
    checked = _checked(request)
    if not checked or request.tool_choice == "none":
        return None
    one, required = request.tool_choice == "function", request.tool_choice != "auto"
    tools = [tool for tool in checked if not one or tool.name == request.tool_name]
    answer = _answer(request)
    if family.body == "python" and (required or answer is not None):
        family = PLAIN
    grammar = call_grammar(
        family,
        tools,
        control={mark: control[mark] for mark in family.marks if mark in control},
        required=required,
        parallel=request.parallel_tool_calls and not one,
        answer=None if required else answer,
    )
    if grammar is not None and not _compiles(grammar, request, compile_, needed=required or answer is not None):
        grammar = None
    return Offer(
        family=family,
        names=tuple(tool.name for tool in tools),
        grammar=grammar,
        parallel=request.parallel_tool_calls and not one,
    )


def _answer(request: Generate) -> str | None:
    """The schema of an answer that calls nothing."""
    match request.grammar:
        case None:
            return None
        case GrammarText(kind="json_object"):
            return '{"type":"object"}'
        case GrammarText(kind="json_schema", text=text):
            return text
        case GrammarText(kind=kind, param=param):
            raise InvalidRequest(f"a {kind} cannot be asked for together with tools", param=param)


def _compiles(grammar: GrammarText, request: Generate, compile_: Compile, *, needed: bool) -> bool:
    """Whether it does; where it must, the refusal names the tool at fault."""
    try:
        compile_(grammar)
    except InvalidRequest:
        if not needed:
            return False
        for at, tool in enumerate(request.tools):
            where = f"tools[{at}].function.parameters"
            compile_(GrammarText(kind="json_schema", text=tool.parameters, strict=tool.strict, param=where))
        raise
    return True


def _checked(request: Generate) -> list[Tool]:
    """The tools, whose parameters are objects even where their schemas don't say so."""
    if len(request.tools) > MAX_TOOLS:
        raise InvalidRequest(f"there may be at most {MAX_TOOLS} tools", param="tools")
    names: set[str] = set()
    checked: list[Tool] = []
    for at, tool in enumerate(request.tools):
        where = f"tools[{at}].function"
        if not _NAME.fullmatch(tool.name):
            words = "must be 1 to 64 letters, digits, underscores, dots or dashes"
            raise InvalidRequest(f"{where}.name {words}", param=f"{where}.name")
        if tool.name in names:
            raise InvalidRequest(f"{where}.name is the name of an earlier tool", param=f"{where}.name")
        names.add(tool.name)
        checked.append(msgspec.structs.replace(tool, parameters=_parameters(tool, f"{where}.parameters")))
    if request.tool_choice in {"required", "function"} and not request.tools:
        raise InvalidRequest("tool_choice asks for a call, and there are no tools", param="tool_choice")
    if request.tool_choice == "function" and request.tool_name not in names:
        raise InvalidRequest("tool_choice names a function that is not in tools", param="tool_choice")
    return checked


def _parameters(tool: Tool, where: str) -> str:
    try:
        schema: Any = json.loads(tool.parameters)
    except (ValueError, RecursionError) as error:
        raise InvalidRequest(f"{where} is not JSON", param=where) from error
    if not isinstance(schema, dict) or schema.get("type", "object") != "object":
        raise InvalidRequest(f'{where} must be a JSON Schema of type "object"', param=where)
    return json.dumps({"type": "object", **schema}, ensure_ascii=False)
