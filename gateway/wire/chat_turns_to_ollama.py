"""A chat's messages as Ollama's, for backends that speak Ollama's format.

Pictures and sound go beside the text, as base64 without a word on what they are. A call's arguments are an object, and
its result names the function, too.
"""

from typing import Any

from gateway.wire.call_arguments import arguments_object, called
from gateway.wire.cannot_carry import cannot_carry
from gateway.wire.data_url import inline

Fields = dict[str, Any]

_ROLES = {"developer": "system", "function": "tool"}
_KNOWN = frozenset({"system", "user", "assistant", "tool"})


def messages_of(messages: list[Fields]) -> list[Fields]:
    """Ollama's messages.

    Raises:
        UpstreamRefused: something in a message has no place there, which ``param`` names.
    """
    names: dict[str, str] = {}
    return [_message(message, f"messages[{at}]", names) for at, message in enumerate(messages)]


def _message(message: Fields, where: str, names: dict[str, str]) -> Fields:
    given = message.get("role")
    role = _ROLES.get(given, given) if isinstance(given, str) else None
    if role not in _KNOWN or message.get("audio") is not None:
        raise cannot_carry(f"{where}.role" if role not in _KNOWN else f"{where}.audio")
    text, media = _content(message, where)
    if role == "user" and message.get("name"):
        text = f"{message['name']}: {text}"  # who speaks has no field of its own there
    made: Fields = {"role": role, "content": text}
    if media:
        made["images"] = media
    if role == "assistant":
        made |= _said(message, where, names)
    if role == "tool":
        call_id = message.get("tool_call_id") or message.get("name") or ""
        named = {"tool_name": names.get(call_id) or message.get("name"), "tool_call_id": message.get("tool_call_id")}
        made |= {name: value for name, value in named.items() if value}
    return made


def _content(message: Fields, where: str) -> tuple[str, list[str]]:
    """The text, and what goes beside it."""
    content = message.get("content")
    if isinstance(content, str):
        return content, []
    texts, media = [], []
    for at, part in enumerate(content or ()):
        match part:
            case {"type": "text", "text": str(text)} | {"type": "refusal", "refusal": str(text)}:
                texts.append(text)
            case {"type": "image_url", "image_url": {"url": str(url)}} | {"type": "image_url", "image_url": str(url)}:
                if (own := inline(url)) is None:  # it fetches nothing
                    raise cannot_carry(f"{where}.content[{at}]")
                media.append(own.base64)
            case {"type": "input_audio", "input_audio": {"data": str(data), "format": "wav"}}:
                media.append(data)
            case _:
                raise cannot_carry(f"{where}.content[{at}]")
    return "".join(texts), media


def _said(message: Fields, where: str, names: dict[str, str]) -> Fields:
    made: Fields = {}
    if refusal := message.get("refusal"):
        made["content"] = refusal
    thought = message.get("reasoning_content") or message.get("reasoning")
    if isinstance(thought, str) and thought:
        made["thinking"] = thought
    calls = [_call(call, f"{where}.tool_calls[{at}]", names) for at, call in enumerate(message.get("tool_calls") or ())]
    if legacy := message.get("function_call"):
        calls.append(_call({"function": legacy}, f"{where}.function_call", names))
    if calls:
        made["tool_calls"] = calls
    return made


def _call(call: Fields, where: str, names: dict[str, str]) -> Fields:
    name, arguments = called(call, where)
    names[call.get("id") or name] = name
    made = {"name": name, "arguments": arguments_object(arguments)}
    return {"id": call["id"], "function": made} if call.get("id") else {"function": made}
