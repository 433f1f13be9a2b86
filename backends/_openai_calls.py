"""Calls of a server that speaks OpenAI's API: where each goes, and what goes there for a client of another format."""

from collections.abc import Collection, Mapping
from types import MappingProxyType

from backends._chat_dialect import ChatDialect
from gateway.ports import Sink
from gateway.types import Call, ChatRequest, Operation
from gateway.wire.hub import as_chat, without_dropped
from gateway.wire.passages import PASSAGES

PATHS: Mapping[Operation, str] = MappingProxyType(
    {
        Operation.CHAT: "/chat/completions",
        Operation.COMPLETION: "/completions",
        Operation.EMBEDDING: "/embeddings",
        Operation.MESSAGES: "/messages",
        Operation.COUNT_TOKENS: "/messages/count_tokens",
        Operation.RESPONSE: "/responses",
        **{operation: passage.upstream_path for operation, passage in PASSAGES.items()},
    }
)
"""Under an address that ends in ``/v1``."""


def openai_request(
    call: Call, sink: Sink, *, translates: Collection[Operation], dialect: ChatDialect
) -> tuple[ChatRequest, Sink]:
    """The request as such a server takes it, and a sink that takes its answer.

    Raises:
        UpstreamRefused: something in the request has no place there, which ``param`` names.
    """
    operation, dropped = call.request.arrival.operation, call.dropped
    own = operation not in translates
    if own and (operation is not Operation.CHAT or dialect.is_openais):
        return without_dropped(call), sink
    call, sink = as_chat(call, sink, custom_tools=dialect.custom_tools, verbatim=not dialect.parts)
    return dialect.spoken(call.request, dropped=dropped, own=own), sink
