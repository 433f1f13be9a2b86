"""One suite over the bodies of every client format: what is refused, how errors look, and what goes on as it came."""

import json
from collections.abc import Callable, Iterator

import pytest

from gateway.errors import HeadraceError, InvalidRequest
from gateway.types import OLLAMA, ChatRequest, Operation
from gateway.wire.format import Format
from tests.contract.smallest_bodies import BODIES

ANTHROPIC = frozenset({Operation.MESSAGES, Operation.COUNT_TOKENS})


def error_classes(root: type[HeadraceError] = HeadraceError) -> Iterator[type[HeadraceError]]:
    """The whole tree."""
    yield root
    for child in root.__subclasses__():
        yield from error_classes(child)


@pytest.mark.parametrize("kind", list(error_classes()), ids=lambda kind: kind.__name__)
def test_every_error_has_the_envelope(kind: type[HeadraceError], operation: Operation, wire: Format) -> None:
    """The API's own, as a body and as an event."""
    body = json.loads(wire.error_body(kind("no\n\ud800")))
    if operation in ANTHROPIC:
        assert (["type", "error"], "error") == (list(body), body["type"])
        assert {"type", "message"} == set(body["error"])
    elif operation in OLLAMA:
        assert ["error"] == list(body)
        assert body["error"].endswith("no\\u000a\\ud800")
    else:
        assert ["error"] == list(body)
        assert {"message", "type", "param", "code"} == set(body["error"])
    if operation in OLLAMA:
        assert wire.error_body(kind("no")) + b"\n" == wire.error_event(kind("no"))
    elif operation is not Operation.RESPONSE:  # whose events are numbered, and tell what they are themselves
        event = wire.error_event(kind("no"))
        name = b"event: error\n" if operation in ANTHROPIC else b""
        assert name + b"data: " + wire.error_body(kind("no")) + b"\n\n" == event


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"[]",
        b"null",
        b"1",
        b"'x'",
        b'"x"',
        b"{",
        b"{}",
        b'{"model":"m"',
        b"{}{}",
        b"\xff\xfe{",
        b'{"model":"\xed\xa0\x80"}',
        '{"model":"m"}'.encode("utf-16"),
        b'{"model":"\\ud800"}',
        b'{"a":' * 100_000 + b"1" + b"}" * 100_000,
        b"[" * 100_000,
        b'{"max_tokens":' + b"9" * 5000 + b"}",
        b'{"model":"m","model":"n"}',
        b'{"model":NaN}',
    ],
)
def test_a_body_that_is_none_is_refused(body: bytes, read: Callable[..., ChatRequest]) -> None:
    """With one class of error, whatever is wrong with it."""
    with pytest.raises(InvalidRequest):
        read(body)


@pytest.mark.parametrize("half", [r"\ud800", r"\udfff"])
@pytest.mark.parametrize("field", ["model", "user", "n", "metadata", "unknown"])
def test_half_a_surrogate_pair_is_refused_in_any_field(
    half: str, field: str, read: Callable[..., ChatRequest], operation: Operation, wire: Format
) -> None:
    """Also where nobody would look at it, or where a validator would quote it; and the error is valid JSON."""
    fields = {**BODIES[operation], field: "HALF"}
    with pytest.raises(InvalidRequest) as caught:
        read(json.dumps(fields).replace("HALF", half).encode())
    assert json.loads(wire.error_body(caught.value))


def test_only_the_model_is_replaced(read: Callable[..., ChatRequest], operation: Operation, wire: Format) -> None:
    """All other bytes are the client's own; doing it again changes nothing."""
    body = json.dumps({"future": [1.50, "é", {}], **BODIES[operation], "z": "\u2028"}, separators=(",", ":")).encode()
    request = read(body)
    sent = wire.upstream_body(request, 'other "name" é')
    assert body.replace(b'"model":"m"', '"model":"other \\"name\\" é"'.encode()) == sent
    assert body == wire.upstream_body(read(sent), "m")
