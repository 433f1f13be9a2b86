"""How a server's chat differs from the hub's: what a translated request must be told in other words there."""

from dataclasses import dataclass
from typing import Any

import msgspec
from msgspec.structs import replace

from gateway.types import ChatRequest

_DECODE = msgspec.json.Decoder(list[dict[str, Any]]).decode
_THOUGHTS = ("reasoning_content", "thinking_blocks")


@dataclass(frozen=True, slots=True, kw_only=True)
class ChatDialect:
    """What a server makes of fields that not all servers know alike.

    ``limit_field`` is what it calls ``max_tokens``. ``past_reasoning``: whether it takes back what its model thought in
    earlier turns; servers of open models want it, strict ones refuse the field.
    """

    limit_field: str = "max_tokens"
    past_reasoning: bool = True

    def spoken(self, request: ChatRequest) -> ChatRequest:
        """A translated request as this server wants it. A client's own chat goes up as it came."""
        fields: dict[str, Any] = dict(request.raw)
        fields.pop("thinking", None)  # a budget has its effort beside it, which is all that a chat has a field for
        if self.limit_field != "max_tokens" and "max_tokens" in fields:
            fields[self.limit_field] = fields.pop("max_tokens")
        if not self.past_reasoning:
            fields["messages"] = _without_thoughts(fields["messages"])
        return replace(request, raw=fields)


def _without_thoughts(messages: Any) -> Any:
    if not any(name.encode() in bytes(messages) for name in _THOUGHTS):
        return messages
    turns = _DECODE(messages)
    kept = [{name: value for name, value in turn.items() if name not in _THOUGHTS} for turn in turns]
    return msgspec.Raw(msgspec.json.encode(kept))
