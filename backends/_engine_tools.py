"""Tools and how they may be called, as the engine takes them."""

from typing import Any, Literal, NamedTuple

import msgspec

from backends._engine_fields import field, refused, text_of
from embedded_engine.turns import Tool
from gateway.types import ChatRequest

ToolChoice = Literal["auto", "none", "required", "function"]


_NO_PARAMETERS = {"type": "object", "properties": {}, "additionalProperties": False}
"""What leaving ``parameters`` out means to OpenAI."""


class Offered(NamedTuple):
    """What a request offers its model to call; ``name`` is the only one that it may, and must."""

    tools: tuple[Tool, ...] = ()
    choice: ToolChoice = "auto"
    name: str = ""
    parallel: bool = True


class _Function(msgspec.Struct):
    name: str
    description: str | None = None
    parameters: dict[str, Any] | None = None
    strict: bool | None = None


class _Tool(msgspec.Struct):
    type: str
    function: _Function | None = None


class _Named(msgspec.Struct):
    name: str


class _Choice(msgspec.Struct):
    type: str
    function: _Named | None = None


def offered(request: ChatRequest) -> Offered:
    """What ``request`` offers.

    Raises:
        UpstreamRefused: a tool is of a kind that the engine does not know, or the choice is.
    """
    tools = [_tool(at, tool) for at, tool in enumerate(field(request, "tools", list[_Tool]) or ())]
    choice, name = _choice(request, offers=bool(tools))
    return Offered(tuple(tools), choice, name, field(request, "parallel_tool_calls", bool) is not False)


def _tool(at: int, tool: _Tool) -> Tool:
    if tool.type != "function" or tool.function is None:
        raise refused(f"this model takes no tools of type {tool.type!r}", f"tools[{at}].type")
    function = tool.function
    return Tool(
        name=function.name,
        description=function.description or "",
        parameters=text_of(_NO_PARAMETERS if function.parameters is None else function.parameters),
        strict=bool(function.strict),
    )


def _choice(request: ChatRequest, *, offers: bool) -> tuple[ToolChoice, str]:
    raw: Any = field(request, "tool_choice", object)
    if isinstance(raw, str):
        match raw:
            case "auto" | "none" | "required":
                return raw, ""
        raise refused("tool_choice must be none, auto, required or a function", "tool_choice", code="invalid_value")
    if raw is None:
        return ("auto" if offers else "none"), ""
    choice = field(request, "tool_choice", _Choice)
    if choice is None or choice.type != "function" or choice.function is None:
        raise refused("this model takes a tool_choice of type 'function' alone", "tool_choice")
    return "function", choice.function.name
