"""A conversation as a chat template sees it.

Where the template knows tools it gets them, calls and results as published templates expect them. For the others tools
are put in words, in the way of Hermes: a block at the end of the system's turn, calls as text of the assistant, results
as turns of the user.
"""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from msgspec import Struct

from embedded_engine.client_words import Words, in_words
from embedded_engine.errors import InvalidMessages, InvalidRequest
from embedded_engine.turns import ChatMessage, PastCall, Reasoning, Tool

__all__ = ["ROLES", "Conversation", "check_conversation", "template_variables"]

ROLES = ("system", "developer", "user", "assistant", "tool")

_OURS = frozenset({"messages", "tools", "documents", "add_generation_prompt", "bos_token", "eos_token"})

_SYSTEM_BLOCK = """You can call functions. Their definitions, one a line:
<tools>
{tools}
</tools>
To call a function, answer with this for each call:
<tool_call>
{{"name": the name of the function, "arguments": its arguments as a JSON object}}
</tool_call>"""


class Conversation(Struct, frozen=True, kw_only=True):
    """What is rendered.

    Attributes:
        messages: The turns.
        tools: What may be called.
        reasoning: How to think.
        arguments: Further variables for the template, as the JSON text of an object.
        begun: The answer's beginning, where it is to be gone on with.
    """

    messages: Sequence[ChatMessage]
    tools: Sequence[Tool] = ()
    reasoning: Reasoning = Reasoning()
    arguments: str = ""
    begun: str = ""


def check_conversation(conversation: Conversation) -> None:
    """Refuses what no template can render.

    Raises:
        InvalidMessages: There are no messages, or a role is unknown: templates make control texts of them.
        InvalidRequest: A text is not Unicode.
    """
    if not conversation.messages:
        raise InvalidMessages("there must be at least one message", param="messages")
    for at, message in enumerate(conversation.messages):
        where = f"messages[{at}]"
        if message.role not in ROLES:
            raise InvalidMessages(f"role {message.role!r} is not one of {', '.join(ROLES)}", param=f"{where}.role")
        said = (message.content, message.name or "", message.call_id or "", message.reasoning)
        called = (text for call in message.calls for text in (call.id, call.name, call.arguments))
        for text in (*said, *called):
            check_unicode(text, where)
    check_unicode(conversation.begun, f"messages[{len(conversation.messages)}]")
    for at, tool in enumerate(conversation.tools):
        check_unicode(tool.name + tool.description + tool.parameters, f"tools[{at}]")


def check_unicode(text: str, param: str) -> None:
    """Refuses lone surrogates.

    Raises:
        InvalidRequest: `text` has one.
    """
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise InvalidRequest(f"{param} is not Unicode text: {error.reason}", param=param) from error


def template_variables(
    conversation: Conversation, *, knows_tools: bool, arguments_as_text: bool = False
) -> dict[str, Any]:
    """What the template is given: a tree in which the client's words are `Words`.

    Args:
        conversation: What is rendered.
        knows_tools: Whether the template has a place for tools.
        arguments_as_text: Whether it wants the arguments of past calls as JSON text; most want them parsed.

    Raises:
        InvalidRequest: `arguments` is no JSON object, or has a name that is ours.
    """
    variables = _arguments(conversation.arguments)
    reasoning = conversation.reasoning
    if reasoning.enabled is not None:  # templates call it by one name or the other
        variables |= {"enable_thinking": reasoning.enabled, "thinking": reasoning.enabled}
    if reasoning.effort is not None:
        variables["reasoning_effort"] = Words(reasoning.effort)
    if knows_tools:
        variables["messages"] = [_message(message, arguments_as_text) for message in conversation.messages]
        variables["tools"] = [_tool(tool) for tool in conversation.tools] or None
    else:
        variables["messages"] = [_plain(message) for message in _in_text(conversation)]
    return variables


def _arguments(text: str) -> dict[str, Any]:
    where = "chat_template_kwargs"
    if not text:
        return {}
    try:
        given: Any = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise InvalidRequest(f"{where} is not JSON", param=where) from error
    if not isinstance(given, dict):
        raise InvalidRequest(f"{where} must be an object", param=where)
    if taken := sorted(_OURS & given.keys()):
        raise InvalidRequest(f"{where} cannot set {taken[0]}", param=where)
    check_unicode(json.dumps(given, ensure_ascii=False), where)
    return {name: in_words(value) for name, value in given.items() if name.isidentifier()}


def _plain(message: ChatMessage) -> dict[str, Any]:
    fields: dict[str, Any] = {"role": message.role, "content": Words(message.content)}
    if message.name is not None:
        fields["name"] = Words(message.name)
    if message.reasoning:
        fields["reasoning_content"] = Words(message.reasoning)
    return fields


def _message(message: ChatMessage, arguments_as_text: bool) -> dict[str, Any]:  # noqa: FBT001  # private, one call
    fields = _plain(message)
    if message.calls:
        fields["tool_calls"] = [
            {
                "id": Words(call.id),
                "type": "function",
                "function": {
                    "name": Words(call.name),
                    "arguments": Words(call.arguments) if arguments_as_text else _parsed(call),
                },
            }
            for call in message.calls
        ]
    if message.call_id is not None:
        fields["tool_call_id"] = Words(message.call_id)
    return fields


def _parsed(call: PastCall) -> Any:
    """The arguments as a value; as they are where they are no JSON, which a model may have written."""
    try:
        return in_words(json.loads(call.arguments))
    except (ValueError, RecursionError):
        return Words(call.arguments)


def _tool(tool: Tool) -> Mapping[str, Any]:
    function: dict[str, Any] = {
        "name": Words(tool.name),
        "description": Words(tool.description),
        "parameters": in_words(json.loads(tool.parameters)),
    }
    return {"type": "function", "function": function}


def _in_text(conversation: Conversation) -> list[ChatMessage]:
    """The conversation in words alone."""
    turns: list[ChatMessage] = []
    for message in conversation.messages:
        turn = _in_words(message)
        if turns and message.role == "tool" and turns[-1].role == "user" and turns[-1].call_id is not None:
            turns[-1] = ChatMessage(role="user", content=f"{turns[-1].content}\n{turn.content}", call_id="")
        else:
            turns.append(turn)
    if not conversation.tools:
        return turns
    block = _SYSTEM_BLOCK.format(tools="\n".join(_definition(tool) for tool in conversation.tools))
    if turns and turns[0].role in {"system", "developer"}:
        first = turns[0]
        return [ChatMessage(role=first.role, content=f"{first.content}\n\n{block}", name=first.name), *turns[1:]]
    return [ChatMessage(role="system", content=block), *turns]


def _in_words(message: ChatMessage) -> ChatMessage:
    if message.role == "tool":
        content = f"<tool_response>\n{message.content}\n</tool_response>"
        return ChatMessage(role="user", content=content, call_id=message.call_id or "")
    if not message.calls:
        return message
    calls = [f"<tool_call>\n{_call(call)}\n</tool_call>" for call in message.calls]
    return ChatMessage(role=message.role, content="\n".join(filter(None, (message.content, *calls))), name=message.name)


def _definition(tool: Tool) -> str:
    fields = {"name": tool.name, "description": tool.description, "parameters": json.loads(tool.parameters)}
    return json.dumps({"type": "function", "function": fields}, ensure_ascii=False)


def _call(call: PastCall) -> str:
    return f'{{"name": {json.dumps(call.name, ensure_ascii=False)}, "arguments": {call.arguments}}}'
