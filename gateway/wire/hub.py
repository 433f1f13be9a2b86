"""How a backend serves clients whose format its upstream does not speak: by way of the hub, OpenAI's chat.

A backend that speaks chat calls ``as_chat`` and goes on with what comes back. Another one writes its provider's body
out of ``chat_request`` and puts ``answering`` between its upstream and the sink.
"""

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

from msgspec.structs import replace

from gateway.ports import Sink
from gateway.request_fields import names_path
from gateway.types import Call, ChatRequest, Operation
from gateway.wire.anthropic_writer import anthropic_writer
from gateway.wire.cannot_carry import cannot_carry
from gateway.wire.chat_reader import chat_reader
from gateway.wire.chat_writer import chat_writer
from gateway.wire.custom_tools import as_functions, custom_names, reading_customs
from gateway.wire.responses_writer import responses_writer
from gateway.wire.translation import ReaderOf, TranslatingSink, WriterOf

WRITERS: Mapping[Operation, WriterOf] = MappingProxyType(
    {Operation.CHAT: chat_writer, Operation.MESSAGES: anthropic_writer, Operation.RESPONSE: responses_writer}
)
"""The writers of all client formats that an answer can be translated to."""

TRANSLATED = frozenset(WRITERS) - {Operation.CHAT} | {Operation.COUNT_TOKENS}
"""What a backend serves by translation that speaks OpenAI's chat: a count needs no answer to be translated."""


def as_chat(call: Call, sink: Sink, *, custom_tools: bool = False, verbatim: bool = True) -> tuple[Call, Sink]:
    """The call as one of OpenAI's chat, and a sink that takes a chat's answer; both as they are where it is one.

    ``custom_tools`` tells that they are known there. Where answers are not to be passed on as they are (``verbatim`` is
    false), the sink reads and rewrites them.

    Raises:
        UpstreamRefused: something in the request has no place in a chat, which ``param`` names.
    """
    request = chat_request(call, custom_tools=custom_tools)
    if call.request.translation is None and verbatim and (custom_tools or not custom_names(call.request.raw)):
        return (call if request is call.request else replace(call, request=request)), sink
    return replace(call, request=request), answering(call, sink, chat_reader, custom_tools=custom_tools)


def chat_request(call: Call, *, custom_tools: bool = False) -> ChatRequest:
    """The request with ``raw`` in the shape of OpenAI's chat, and ``arrival.operation`` to match.

    What the route lets it lose is not there any more. Unless ``custom_tools`` are known, they are functions now.

    Raises:
        UpstreamRefused: something in it has no place there, which ``param`` names.
    """
    request, dropped = call.request, call.dropped
    if request.translation is None:
        own = without_dropped(call)
        return own if custom_tools else as_functions(own, dropped=dropped)
    translation = request.translation()
    lost = next((path for path in translation.lost if not names_path(dropped, path)), None)
    if lost is not None:
        raise cannot_carry(lost)
    chat = replace(
        request,
        arrival=replace(request.arrival, operation=Operation.CHAT, format_headers=()),
        raw=_without(translation.fields, dropped, translation.origins),
        translation=None,
    )
    return chat if custom_tools else as_functions(chat, dropped=dropped)


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


def answering(call: Call, sink: Sink, reader_of: ReaderOf, *, custom_tools: bool = False) -> Sink:
    """A sink that takes what ``reader_of`` reads, and pushes what the client of ``call`` expects.

    Calls of the client's custom tools come back as such, unless ``custom_tools`` are known there anyway.
    """
    if not custom_tools:
        request = call.request
        names = custom_names(request.raw if request.translation is None else request.translation().fields)
        reader_of = reading_customs(reader_of, names) if names else reader_of
    return TranslatingSink(sink, call.request, reader_of, WRITERS[call.request.arrival.operation])
