"""A chat's turns as a server wants them that takes less than OpenAI does, or calls it otherwise."""

import hashlib
import re
from typing import Any, Literal, NamedTuple

import msgspec
from msgspec import UNSET, Raw

from gateway.conversation import Message
from gateway.types import ChatRequest
from gateway.wire.cannot_carry import cannot_carry
from gateway.wire.json_body import opened_field

Thoughts = Literal["none", "reasoning_content", "reasoning", "parts", "reasoning_details"]
"""Where past thoughts come back: nowhere, in a field of that name, or as parts of the content."""

_ENCODE = msgspec.json.Encoder().encode
_THOUGHTS = ("reasoning_content", "thinking_blocks")
_ALPHABET = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
_EMPTY: tuple[Any, ...] = (None, "", [], {}, False)


class TurnRules(NamedTuple):
    """What such a server takes.

    ``thoughts`` says where past ones come back. ``developer_role``: whether it knows that role, else it is ``system``;
    ``names``: whether it takes who speaks, else the words begin with it. Ids of calls have ``call_id_chars`` letters
    and digits, where that is not zero. ``fields`` are all that its messages may have, where they are named.
    """

    thoughts: Thoughts = "reasoning_content"
    developer_role: bool = True
    names: bool = True
    call_id_chars: int = 0
    fields: frozenset[str] = frozenset()


_LEFT_ALONE = TurnRules()


def reworded(request: ChatRequest, rules: TurnRules, *, own: bool) -> Raw | None:
    """The messages of a chat by these rules, or ``None`` where they may stay as they are.

    ``own`` tells that ``request.messages`` were read from it, and so say whether there is something to do.

    Raises:
        UpstreamRefused: a message has a field that says something and that such a server refuses.
    """
    if rules == _LEFT_ALONE:
        return None
    if own and not rules.fields and not any(_may_matter(turn, rules) for turn in request.messages):
        return None
    turns = opened_field(request.raw, "messages")
    told = [_turn(dict(turn), f"messages[{at}]", rules) for at, turn in enumerate(turns)]
    return None if told == turns else Raw(_ENCODE(told))


def _may_matter(turn: Message, rules: TurnRules) -> bool:
    """Whether a rule touches a turn: most conversations have none such, and are not written anew then."""
    thought = turn.reasoning_content is not UNSET or turn.thinking_blocks is not UNSET
    return (
        (thought and rules.thoughts != "reasoning_content")
        or (turn.role == "developer" and not rules.developer_role)
        or (bool(turn.name) and not rules.names)
        or (rules.call_id_chars > 0 and (turn.tool_calls is not None or turn.tool_call_id is not None))
    )


def _turn(turn: dict[str, Any], where: str, rules: TurnRules) -> dict[str, Any]:
    if turn.get("role") == "developer" and not rules.developer_role:
        turn["role"] = "system"
    if not rules.names and turn.get("role") != "tool" and (name := turn.pop("name", None)):
        turn["content"] = _named(name, turn.get("content"))
    if rules.thoughts != "reasoning_content":
        _think(turn, rules.thoughts)
    if rules.call_id_chars:
        _rename_calls(turn, rules.call_id_chars)
    for name in rules.fields and turn.keys() - rules.fields:
        if turn.pop(name) not in _EMPTY:
            raise cannot_carry(f"{where}.{name}")
    return turn


def _named(name: Any, content: Any) -> Any:
    """Who speaks stands before what they say."""
    if isinstance(content, str):
        return f"{name}: {content}"
    return [{"type": "text", "text": f"{name}:"}, *(content or ())]


def _think(turn: dict[str, Any], thoughts: Thoughts) -> None:
    text, blocks = (turn.pop(field, None) for field in _THOUGHTS)
    blocks = [block for block in blocks or () if isinstance(block, dict)]
    if thoughts == "reasoning" and text:
        turn["reasoning"] = text
    elif thoughts == "reasoning_details" and blocks:
        turn["reasoning_details"] = [_detail(block, at) for at, block in enumerate(blocks)]
    elif thoughts == "reasoning_details" and text:
        turn["reasoning"] = text
    elif thoughts == "parts" and (text or blocks):
        said = turn.get("content")
        parts = [{"type": "text", "text": said}] if isinstance(said, str) and said else said or []
        turn["content"] = [*_parts(text, blocks), *parts]


def _detail(block: dict[str, Any], index: int) -> dict[str, Any]:
    """A thought of Anthropic's form in that of OpenRouter."""
    form = {"format": "anthropic-claude-v1", "index": index}
    if block.get("data"):
        return {"type": "reasoning.encrypted", "data": block["data"], **form}
    signed = {"signature": block["signature"]} if block.get("signature") else {}
    return {"type": "reasoning.text", "text": block.get("thinking", ""), **signed, **form}


def _parts(text: Any, blocks: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Thoughts as Mistral has them among the parts of a message."""
    told = [block for block in blocks if block.get("thinking")] or ([{"thinking": text}] if text else [])
    return [
        {
            "type": "thinking",
            "thinking": [{"type": "text", "text": block["thinking"]}],
            **({"signature": block["signature"]} if block.get("signature") else {}),
        }
        for block in told
    ]


def _rename_calls(turn: dict[str, Any], chars: int) -> None:
    if isinstance(call_id := turn.get("tool_call_id"), str):
        turn["tool_call_id"] = _call_id(call_id, chars)
    if turn.get("tool_calls"):
        turn["tool_calls"] = [{**call, "id": _call_id(str(call.get("id", "")), chars)} for call in turn["tool_calls"]]


def _call_id(call_id: str, chars: int) -> str:
    """The id, or a digest of it in the letters and digits that may be."""
    if re.fullmatch(rf"[a-zA-Z0-9]{{{chars}}}", call_id):
        return call_id
    number = int.from_bytes(hashlib.sha256(call_id.encode()).digest(), "big")
    return "".join(_ALPHABET[number // len(_ALPHABET) ** place % len(_ALPHABET)] for place in range(chars))
