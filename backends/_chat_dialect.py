"""How a server's chat differs from OpenAI's: what a request must be told in other words there."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from dataclasses import replace as dataclass_replace
from functools import cached_property
from typing import Any

from msgspec import Raw
from msgspec.structs import replace

from backends._dialect_turns import Thoughts, TurnRules, reworded
from gateway.request_fields import NEVER_MATTERS, names_path, says_nothing
from gateway.types import ChatRequest, Operation
from gateway.wire.cannot_carry import cannot_carry

_NO_THOUGHTS = Raw(b'{"type":"disabled"}')
_THOUGHTS = Raw(b'{"type":"enabled"}')


@dataclass(frozen=True, kw_only=True)
class ChatDialect:
    """What a server makes of fields that not all servers know alike.

    ``limit_field`` is what it calls ``max_tokens``, in requests that are translated. ``renames`` are fields that it
    calls otherwise; ``refuses`` are those that it answers with an error. ``past_reasoning`` is where it takes back what
    its model thought in earlier turns. ``custom_tools`` tells that it knows OpenAI's tools for free text,
    ``thinking_switch`` that it thinks unless ``thinking`` says no, ``parts`` that its answers come in parts, which
    OpenAI's clients take for no text. The rest is of its turns: see ``TurnRules``.
    """

    limit_field: str = "max_tokens"
    renames: Mapping[str, str] = field(default_factory=dict)
    refuses: frozenset[str] = frozenset()
    past_reasoning: Thoughts = "reasoning_content"
    custom_tools: bool = False
    thinking_switch: bool = False
    parts: bool = False
    developer_role: bool = True
    names: bool = True
    call_id_chars: int = 0
    message_fields: frozenset[str] = frozenset()

    def corrected(self, *, past_reasoning: bool | None, custom_tools: bool | None) -> "ChatDialect":
        """The same, with what a policy file knows better."""
        known = self
        if past_reasoning is False or (past_reasoning and self.past_reasoning == "none"):
            known = dataclass_replace(known, past_reasoning="reasoning_content" if past_reasoning else "none")
        return known if custom_tools is None else dataclass_replace(known, custom_tools=custom_tools)

    @cached_property
    def is_openais(self) -> bool:
        """Whether a client's own chat can go up as it came."""
        differs = self.renames or self.refuses or self.thinking_switch or self.parts or not self.custom_tools
        return not differs and self._turns == TurnRules()

    def spoken(self, request: ChatRequest, *, dropped: Sequence[str] = (), own: bool = False) -> ChatRequest:
        """A request in the shape of a chat as this server wants it; itself where nothing differs.

        ``own`` tells that it is the client's own chat and no translation of another format.

        Raises:
            UpstreamRefused: it has a field that this server refuses, and that is not among what the route lets go.
        """
        if request.arrival.operation is not Operation.CHAT:
            return request
        turns = reworded(request, self._turns, own=own)
        if own and turns is None and not self._touched & request.raw.keys():
            return request
        fields: dict[str, Any] = dict(request.raw)
        self._say_thinking(fields, own=own)
        renames = self.renames if own else {"max_tokens": self.limit_field, **self.renames}
        for name, other in renames.items():
            if name != other and name in fields:
                fields[other] = fields.pop(name)
        for name in self.refuses & fields.keys():
            raw = fields.pop(name)
            if not (name in NEVER_MATTERS or says_nothing(name, raw) or names_path(dropped, name)):
                raise cannot_carry(name)
        if turns is not None:
            fields["messages"] = turns
        counts = request.include_usage or "stream_options" in self.refuses  # or it would be asked to count all the same
        return replace(request, raw=fields, include_usage=counts)

    def _say_thinking(self, fields: dict[str, Any], *, own: bool) -> None:
        """Of a translated request: a budget has its effort beside it, which is all that most chats have a field for."""
        thinking = fields.get("thinking") if own else fields.pop("thinking", None)
        if not self.thinking_switch:
            return
        if thinking is not None and not own:
            fields["thinking"] = _NO_THOUGHTS if says_nothing("thinking", thinking) else _THOUGHTS
        if "reasoning_effort" in fields and bytes(fields["reasoning_effort"]) == b'"none"':
            del fields["reasoning_effort"]
            fields["thinking"] = _NO_THOUGHTS

    @cached_property
    def _touched(self) -> frozenset[str]:
        """The fields of a chat that it cannot be given as they are; ``stream`` where it must not be asked to count."""
        counts = {"stream"} if "stream_options" in self.refuses else set()
        switch = {"reasoning_effort"} if self.thinking_switch else set()
        return self.refuses.union(self.renames, counts, switch)

    @cached_property
    def _turns(self) -> TurnRules:
        return TurnRules(
            thoughts=self.past_reasoning,
            developer_role=self.developer_role,
            names=self.names,
            call_id_chars=self.call_id_chars,
            fields=self.message_fields,
        )
