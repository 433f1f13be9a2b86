"""The tools that a request offers: checked, and what becomes of them."""

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from embedded_engine.errors import InvalidRequest
from embedded_engine.messages import Generate
from embedded_engine.tools.families import PLAIN, Family
from embedded_engine.tools.grammar import Schema, call_grammar
from embedded_engine.tools.reader import CallReader
from embedded_engine.turns import Tool

__all__ = ["MAX_TOOLS", "Offer", "make_offer"]

MAX_TOOLS = 128
_NAME = re.compile(r"[A-Za-z0-9_.-]{1,64}")

Compiles = Callable[[str], str | None]
"""Why a grammar in Lark cannot be used; None where it can."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Offer:
    """What a request's answer may call.

    Attributes:
        family: How the model writes its calls.
        tools: What may be called.
        grammar: What holds the answer to it, in Lark; None where nothing does.
        parallel: Whether it may call several.
    """

    family: Family
    tools: tuple[Tool, ...]
    grammar: str | None
    parallel: bool

    def reader(self) -> CallReader:
        """For one answer."""
        names = [tool.name for tool in self.tools]
        return CallReader(self.family, names, eager=self.grammar is not None, parallel=self.parallel)


def make_offer(
    request: Generate, family: Family, *, control: Mapping[str, int], compiles: Compiles, answer: Schema | None = None
) -> Offer | None:
    """What `request` offers; None where nothing may be called.

    Args:
        request: Its tools and how it wants them called.
        family: How the model writes calls.
        control: The numbers of control tokens, by their text.
        compiles: Tells whether a grammar can be used.
        answer: The schema of an answer that calls nothing, where there is one.

    Raises:
        InvalidRequest: A tool is badly defined, or the choice cannot be kept; `param` names the field.
    """
    schemas = _check(request)
    if not request.tools or request.tool_choice == "none":
        return None
    chosen = [
        at for at, tool in enumerate(request.tools) if request.tool_choice != "function" or _is_named(request, tool)
    ]
    tools = tuple(request.tools[at] for at in chosen)
    required = request.tool_choice in {"required", "function"}
    if family.body == "python" and (required or answer is not None):
        family = PLAIN
    forced = required or answer is not None
    usable = [_usable(schemas[at], at, compiles, forced=forced) for at in chosen]
    marks = {mark: control[mark] for mark in family.marks if mark in control}
    parallel = request.parallel_tool_calls and not one
    grammar = call_grammar(
        family, tools, usable, control=marks, required=required, parallel=parallel, answer=None if required else answer
    )
    return Offer(family=family, tools=tools, grammar=grammar, parallel=parallel)


def _check(request: Generate) -> list[Schema]:
    """The tools' schemas."""
    if len(request.tools) > MAX_TOOLS:
        raise InvalidRequest(f"there may be at most {MAX_TOOLS} tools", param="tools")
    schemas: list[Schema] = []
    names: set[str] = set()
    for at, tool in enumerate(request.tools):
        where = f"tools[{at}].function"
        if not _NAME.fullmatch(tool.name):
            words = "must be 1 to 64 letters, digits, underscores, dots or dashes"
            raise InvalidRequest(f"{where}.name {words}", param=f"{where}.name")
        if tool.name in names:
            raise InvalidRequest(f"{where}.name is the name of an earlier tool", param=f"{where}.name")
        names.add(tool.name)
        schemas.append(_schema(tool, f"{where}.parameters"))
    if request.tool_choice in {"required", "function"} and not request.tools:
        raise InvalidRequest("tool_choice asks for a call, and there are no tools", param="tool_choice")
    if request.tool_choice == "function" and request.tool_name not in names:
        raise InvalidRequest("tool_choice names a function that is not in tools", param="tool_choice")
    return schemas


def _schema(tool: Tool, where: str) -> Schema:
    try:
        schema: Any = json.loads(tool.parameters)
    except (ValueError, RecursionError) as error:
        raise InvalidRequest(f"{where} is not JSON", param=where) from error
    if not isinstance(schema, dict) or schema.get("type", "object") != "object":
        raise InvalidRequest(f'{where} must be a JSON Schema of type "object"', param=where)
    return {"type": "object", **schema}


def _usable(schema: Schema, at: int, compiles: Compiles, *, forced: bool) -> Schema:
    """The schema, or, where it cannot be enforced and need not be, any object."""
    probe = call_grammar(PLAIN, [Tool(name="f")], [schema], control={}, required=True, parallel=False)
    why = compiles(probe or "")
    if why is None:
        return schema
    if forced:
        where = f"tools[{at}].function.parameters"
        raise InvalidRequest(f"{where} cannot be enforced: {why}", param=where)
    return {"type": "object"}
