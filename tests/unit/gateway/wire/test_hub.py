"""By way of the hub: what a request loses on the way, and what is refused."""

from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from gateway.errors import UpstreamRefused
from gateway.types import Arrival, Call, ChatRequest, Operation
from gateway.wire.format_headers import format_headers
from gateway.wire.formats import FORMATS
from gateway.wire.hub import EMBEDDED, TRANSLATED, as_chat, chat_request, translated, without_dropped
from gateway.wire.writers import WRITERS

BODY = {"model": "m", "max_tokens": 9, "messages": [{"role": "user", "content": "hi"}]}


@pytest.fixture
def call(arrival: Arrival) -> Callable[..., Call]:
    """A call of Anthropic's Messages, with the given fields and what its route lets it lose."""

    def make(*dropped: str, **fields: Any) -> Call:
        request = FORMATS[Operation.MESSAGES].read(
            msgspec.structs.replace(
                arrival, operation=Operation.MESSAGES, format_headers=(("anthropic-version", "1"),)
            ),
            msgspec.json.encode({**BODY, **fields}),
        )
        return Call(request=request, model="m", trace=arrival.trace, dropped=dropped)

    return make


def test_what_has_no_place_is_refused_where_nobody_did_before(call: Callable[..., Call]) -> None:
    """A route without the filter that knows it must not drop it either."""
    with pytest.raises(UpstreamRefused) as caught:
        chat_request(call(container="c"))
    assert ("container", "unsupported_parameter") == (caught.value.param, caught.value.upstream_code)


def test_what_a_route_lets_go_is_gone(call: Callable[..., Call]) -> None:
    """By the client's names, also where the chat has another."""
    request = chat_request(call("container", "stop_sequences", "output_config", container="c", stop_sequences=["x"]))
    assert Operation.CHAT is request.arrival.operation
    assert {"max_tokens", "messages", "model"} == request.raw.keys()


def test_headers_of_the_clients_format_stay_behind(call: Callable[..., Call]) -> None:
    """An upstream of another format has no use for them."""
    assert () == chat_request(call()).arrival.format_headers


def test_a_chat_is_left_as_it_is(read_chat: Callable[..., ChatRequest], arrival: Arrival) -> None:
    """Unless its route lets something go; the sink is the client's own."""
    request, sink = read_chat(seed=7), object()
    plain = Call(request=request, model="m", trace=arrival.trace)
    assert (plain, sink) == as_chat(plain, sink)  # type: ignore[arg-type]  # nobody pushes into it
    assert request is without_dropped(plain)
    lost, _ = as_chat(msgspec.structs.replace(plain, dropped=("seed",)), sink)  # type: ignore[arg-type]  # likewise
    assert {"messages", "model"} == lost.request.raw.keys()


def test_everything_that_can_be_written_can_be_translated() -> None:
    """And a count, which needs no answer to be translated."""
    spoken = {Operation.CHAT, Operation.COMPLETION, Operation.EMBEDDING}
    assert TRANSLATED | EMBEDDED == WRITERS.keys() - spoken | {Operation.COUNT_TOKENS}
    assert (TRANSLATED | EMBEDDED, TRANSLATED, EMBEDDED) == (
        translated(spoken),
        translated({Operation.CHAT}),
        translated({Operation.EMBEDDING}),
    )


HEADERS: list[tuple[list[tuple[bytes, bytes]], tuple[tuple[str, str], ...]]] = [
    ([], ()),
    ([(b"anthropic-version", b" 1 "), (b"x-api-key", b"k"), (b"cookie", b"c")], (("anthropic-version", "1"),)),
    ([(b"anthropic-beta", b"a"), (b"anthropic-beta", b"b")], (("anthropic-beta", "a,b"),)),
    ([(b"anthropic-beta", b"a\xe9"), (b"anthropic-version", b"")], ()),
    ([(b"anthropic-beta", b"a" * 5000)], ()),
]


@pytest.mark.parametrize(("given", "expected"), HEADERS)
def test_which_headers_belong_to_the_format(
    given: list[tuple[bytes, bytes]], expected: tuple[tuple[str, str], ...]
) -> None:
    """Version and betas, for Anthropic's endpoints alone; nothing that no header may hold."""
    assert expected == format_headers(Operation.MESSAGES, given)
    assert () == format_headers(Operation.CHAT, given)
