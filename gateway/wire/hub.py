"""How a backend serves clients whose format its upstream does not speak: by way of the hub, OpenAI's chat.

A backend that speaks chat calls ``as_chat`` and goes on with what comes back. Another one writes its provider's body
out of ``chat_request`` and puts ``answering`` between its upstream and the sink.
"""

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

from msgspec.structs import replace

from gateway.errors import UpstreamRefused
from gateway.ports import Sink
from gateway.request_fields import names_path
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
    request = chat_request(call)
    if call.request.translation is None:
        return (call if request is call.request else replace(call, request=request)), sink
    return replace(call, request=request), answering(call, sink, chat_reader)


def chat_request(call: Call) -> ChatRequest:
    """The request with ``raw`` in the shape of OpenAI's chat, and ``arrival.operation`` to match.

    What the route lets it lose is not there any more.

    Raises:
        UpstreamRefused: something in it has no place there, which ``param`` names.
    """
    request, dropped = call.request, call.dropped
    if request.translation is None:
        return without_dropped(call)
    translation = request.translation()
    lost = next((path for path in translation.lost if not names_path(dropped, path)), None)
    if lost is not None:
        raise cannot_carry(lost)
    return replace(
        request,
        arrival=replace(request.arrival, operation=Operation.CHAT, format_headers=()),
        raw=_without(translation.fields, dropped, translation.origins),
        translation=None,
    )


def without_dropped(call: Call) -> ChatRequest:
    """The request in the client's own format, for an upstream that speaks it, less what the route lets it lose."""
    if not call.dropped:
        return call.request
    return replace(call.request, raw=_without(call.request.raw, call.dropped, {}))


def _without(fields: Mapping[str, Any], dropped: Sequence[str], origins: Mapping[str, str]) -> Mapping[str, Any]:
    """The fields without those that are lost, which have the client's names."""
    if not dropped:
        return fields
    return {name: value for name, value in fields.items() if not names_path(dropped, origins.get(name, name))}


def answering(call: Call, sink: Sink, reader_of: ReaderOf) -> Sink:
    """A sink that takes what ``reader_of`` reads, and pushes what the client of ``call`` expects."""
    return TranslatingSink(sink, call.request, reader_of, WRITERS[call.request.arrival.operation])


def cannot_carry(path: str) -> UpstreamRefused:
    """The refusal of something that this provider's format has no place for, by its path in the client's body."""
    return UpstreamRefused(
        f"this model cannot be given `{path}`", http_status=400, param=path, upstream_code="unsupported_parameter"
    )
