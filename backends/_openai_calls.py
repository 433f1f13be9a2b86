"""Calls of a server that speaks OpenAI's API: where each goes, and what goes there for a client of another format."""

from collections.abc import Collection, Mapping
from types import MappingProxyType

from backends._chat_dialect import ChatDialect
from gateway.ports import Sink
from gateway.types import Call, ChatRequest, Operation
from gateway.wire.hub import as_chat, without_dropped

PATHS: Mapping[Operation, str] = MappingProxyType(
    {
        Operation.CHAT: "/chat/completions",
        Operation.COMPLETION: "/completions",
        Operation.EMBEDDING: "/embeddings",
        Operation.MESSAGES: "/messages",
        Operation.COUNT_TOKENS: "/messages/count_tokens",
        Operation.RESPONSE: "/responses",
    }
)
"""Under an address that ends in ``/v1``."""


def openai_request(
    call: Call, sink: Sink, *, translates: Collection[Operation], dialect: ChatDialect
) -> tuple[ChatRequest, Sink]:
    """The request as such a server takes it, and a sink that takes its answer.

    Raises:
        UpstreamRefused: something in the request has no place in a chat, which ``param`` names.
    """
    if call.request.arrival.operation not in translates:
        return without_dropped(call), sink
    call, sink = as_chat(call, sink)
    return dialect.spoken(call.request), sink
