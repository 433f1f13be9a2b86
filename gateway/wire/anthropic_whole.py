"""One look at a whole message of Anthropic's."""

from typing import Any

import msgspec

from gateway.wire.anthropic_reader import opened_message
from gateway.wire.anthropic_reasons import HUB_REASONS
from gateway.wire.anthropic_usage import AnthropicCounts
from gateway.wire.openai_fields import text_bytes
from gateway.wire.upstream_json import text_of
from gateway.wire.whole_look import WholeLook

_SHOWN = ("text", "thinking", "data")


class AnthropicWhole(WholeLook):
    """See ``WholeView``."""

    __slots__ = ()

    def take(self, body: bytes) -> bytes:
        """See ``WholeView.take``. Counts that are only estimated are left to who knows the prompt better."""
        message = opened_message(body)
        counts = AnthropicCounts()
        counts.take(message.get("usage"))
        self.usage = None if counts.estimated else counts.usage
        self.model = text_of(message.get("model"))
        reason = text_of(message.get("stop_reason"))
        self.finish_reason = HUB_REASONS.get(reason, reason)
        self.output_bytes = sum(_shown_bytes(block) for block in message["content"] if isinstance(block, dict))
        return body


def _shown_bytes(block: dict[str, Any]) -> int:
    """The length of what a block shows; a call's input counts as JSON."""
    shown = sum(text_bytes(text_of(block.get(name))) for name in _SHOWN)
    return shown + (len(msgspec.json.encode(block["input"])) if "input" in block else 0)
