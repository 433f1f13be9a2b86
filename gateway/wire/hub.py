"""How a backend serves clients whose format its upstream does not speak: by way of the hub, OpenAI's chat.

A backend that speaks chat calls ``as_chat`` and goes on with what comes back. Another one writes its provider's body
out of ``chat_request`` and puts ``answering`` between its upstream and the sink.
"""

from collections.abc import Collection, Mapping, Sequence
from types import MappingProxyType
from typing import Any

from msgspec.structs import replace

from gateway.ports import Sink
from gateway.request_fields import names_path
from gateway.types import Call, ChatRequest, Operation
from gateway.wire.cannot_carry import cannot_carry
from gateway.wire.chat_reader import chat_reader
from gateway.wire.custom_tools import as_functions, custom_names, reading_customs
from gateway.wire.translation import ReaderOf, TranslatingSink
from gateway.wire.vectors import openai_vectors_reader
from gateway.wire.writers import writer_for

TRANSLATED = frozenset(
    {
        Operation.MESSAGES,
        Operation.COUNT_TOKENS,
        Operation.RESPONSE,
        Operation.OLLAMA_CHAT,
        Operation.OLLAMA_GENERATE,
    }
)
"""What a backend serves by translation that speaks OpenAI's chat."""

EMBEDDED = frozenset({Operation.OLLAMA_EMBED, Operation.OLLAMA_EMBEDDINGS})
"""What a backend serves by translation that speaks OpenAI's embeddings."""

_READERS: Mapping[Operation, ReaderOf] = MappingProxyType(
    {
        Operation.CHAT: chat_reader,
        Operation.COMPLETION: chat_reader,
        Operation.EMBEDDING: openai_vectors_reader,
    }
)
"""What reads the answers of who speaks OpenAI's."""

_CHATS = frozenset({Operation.CHAT})


def translated(spoken: Collection[Operation]) -> frozenset[Operation]:
    """What a backend serves by translation that speaks these of OpenAI's itself."""
    by_chat = TRANSLATED if Operation.CHAT in spoken else frozenset()
    by_vectors = EMBEDDED if Operation.EMBEDDING in spoken else frozenset()
    return (by_chat | by_vectors).difference(spoken)


def as_chat(call: Call, sink: Sink, *, custom_tools: bool = False, verbatim: bool = True) -> tuple[Call, Sink]:
    """The call as one of OpenAI's chat, and a sink that takes a chat's answer; both as they are where it is one.

    What has the shape of another of OpenAI's operations (``Translation.into``) becomes that.

    ``custom_tools`` tells that they are known there. Where answers are not to be passed on as they are (``verbatim`` is
    false), the sink reads and rewrites them.

    Raises:
        UpstreamRefused: something in the request has no place in a chat, which ``param`` names.
    """
    request = chat_request(call, custom_tools=custom_tools, into=_READERS)
    if call.request.translation is None and verbatim and _is_plain(call, request):
        return (call if request is call.request else replace(call, request=request)), sink
    reader_of = _READERS[request.arrival.operation]
    return replace(call, request=request), answering(call, sink, reader_of, custom_tools=custom_tools)


def _is_plain(call: Call, request: ChatRequest) -> bool:
    """Whether the answer to a chat can go on as it comes: none of its custom tools became a function."""
    return request is call.request or request.raw.get("tools") is call.request.raw.get("tools")


def chat_request(call: Call, *, custom_tools: bool = False, into: Collection[Operation] = _CHATS) -> ChatRequest:
    """The request with ``raw`` in the shape of OpenAI's chat, and ``arrival.operation`` to match.

    What the route lets it lose is not there any more. Unless ``custom_tools`` are known, they are functions now.
    ``into`` are the operations whose shape it may have.

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
    if translation.into not in into:
        raise cannot_carry(translation.origins.get("prompt", "input"))
    chat = replace(
        request,
        arrival=replace(request.arrival, operation=translation.into, format_headers=()),
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
    return TranslatingSink(sink, call.request, reader_of, writer_for(call))
