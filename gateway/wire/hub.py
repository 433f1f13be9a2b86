"""How a backend serves clients whose format its upstream does not speak: by way of the hub, OpenAI's chat.

A backend that speaks chat calls ``as_chat`` and goes on with what comes back. Another one writes its provider's body
out of ``chat_request`` and puts ``answering`` between its upstream and the sink.
"""

from collections.abc import Mapping
from types import MappingProxyType

from msgspec.structs import replace

from gateway.errors import UpstreamRefused
from gateway.ports import Sink
from gateway.types import Call, ChatRequest, Operation
from gateway.wire.anthropic_writer import anthropic_writer
from gateway.wire.chat_reader import chat_reader
from gateway.wire.chat_writer import chat_writer
from gateway.wire.responses_writer import responses_writer
from gateway.wire.translation import ReaderOf, TranslatingSink, WriterOf

WRITERS: Mapping[Operation, WriterOf] = MappingProxyType(
    {Operation.CHAT: chat_writer, Operation.MESSAGES: anthropic_writer, Operation.RESPONSE: responses_writer}
)
"""The writers of all client formats that an answer can be translated to."""

TRANSLATED = frozenset(WRITERS) - {Operation.CHAT} | {Operation.COUNT_TOKENS}
"""What a backend serves by translation that speaks OpenAI's chat: a count needs no answer to be translated."""


def as_chat(call: Call, sink: Sink) -> tuple[Call, Sink]:
    """The call as one of OpenAI's chat, and a sink that takes a chat's answer; both as they are where it is one.

    Raises:
        UpstreamRefused: something in the request has no place in a chat, which ``param`` names.
    """
    if call.request.translation is None:
        return call, sink
    return replace(call, request=chat_request(call.request)), answering(call, sink, chat_reader)


def chat_request(request: ChatRequest) -> ChatRequest:
    """The request with ``raw`` in the shape of OpenAI's chat, and ``arrival.operation`` to match.

    Raises:
        UpstreamRefused: something in it has no place there, which ``param`` names.
    """
    if request.translation is None:
        return request
    translation = request.translation()
    if translation.lost:
        raise cannot_carry(translation.lost[0])
    return replace(
        request,
        arrival=replace(request.arrival, operation=Operation.CHAT),
        raw=translation.fields,
        translation=None,
    )


def answering(call: Call, sink: Sink, reader_of: ReaderOf) -> Sink:
    """A sink that takes what ``reader_of`` reads, and pushes what the client of ``call`` expects."""
    return TranslatingSink(sink, call.request, reader_of, WRITERS[call.request.arrival.operation])


def cannot_carry(path: str) -> UpstreamRefused:
    """The refusal of something that this provider's format has no place for, by its path in the client's body."""
    return UpstreamRefused(
        f"this model cannot be given `{path}`", http_status=400, param=path, upstream_code="unsupported_parameter"
    )
