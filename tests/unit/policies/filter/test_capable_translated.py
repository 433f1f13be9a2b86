"""``capable`` on requests that have to be translated: judged by what is left of them, in the client's own words."""

from typing import Any

import msgspec
import pytest

from gateway.conversation import Translation
from gateway.types import Operation
from policies.filter.capable import Capable

SPEAKS = {"operations": frozenset({Operation.MESSAGES}), "translates": frozenset()}
TRANSLATES = {
    "operations": frozenset({Operation.CHAT, Operation.MESSAGES}),
    "translates": frozenset({Operation.MESSAGES}),
}


def raw(**fields: Any) -> dict[str, Any]:
    """Fields as the client wrote them."""
    return {name: msgspec.Raw(msgspec.json.encode(value)) for name, value in fields.items()}


@pytest.fixture
def asked(make_request: Any, make_context: Any) -> Any:
    """The context of a request in Anthropic's format, with this translation."""

    def make(translation: Translation, **fields: Any) -> Any:
        request = make_request(operation=Operation.MESSAGES, raw=raw(**fields), translation=lambda: translation)
        return make_context(request)

    return make


def test_bytes_that_pass_lose_nothing(asked: Any, make_candidate: Any) -> None:
    """Whatever the candidate carries of a chat: it speaks the client's format."""
    ctx = asked(Translation(fields={}, lost=("container",)), container="c")
    candidate = make_candidate(**SPEAKS, carries=frozenset({"messages"}))
    assert (None, ()) == (Capable().exclude(ctx, candidate), Capable().drops(ctx, candidate))


def test_what_is_lost_in_translation_is_named(asked: Any, make_candidate: Any) -> None:
    """By its path, with the field at fault for the client's envelope; a route may let it go, and then it is told."""
    ctx = asked(Translation(fields=raw(messages=[]), lost=("tools[1].input_examples",)))
    candidate = make_candidate(**TRANSLATES)
    reason = Capable().exclude(ctx, candidate)
    assert "takes no `tools[1].input_examples`" == reason
    assert "tools[1].input_examples" == reason.param
    for names in (("tools.input_examples",), ("tools",)):
        lenient = Capable(may_drop=names)
        assert None is lenient.exclude(ctx, candidate)
        assert ("tools[1].input_examples",) == lenient.drops(ctx, candidate)
    assert None is not Capable(may_drop=("tool",)).exclude(ctx, candidate)


def test_fields_that_the_backend_does_not_know_have_the_clients_names(asked: Any, make_candidate: Any) -> None:
    """Not those of the chat that they became."""
    fields = raw(messages=[], stop=["x"], reasoning_effort="none")
    ctx = asked(Translation(fields=fields, origins={"stop": "stop_sequences"}))
    candidate = make_candidate(**TRANSLATES, carries=frozenset({"messages"}))
    assert "takes no `stop_sequences`" == Capable().exclude(ctx, candidate)
    assert ("stop_sequences",) == Capable(may_drop=("stop_sequences",)).drops(ctx, candidate)


def test_a_hint_is_no_reason_to_refuse(asked: Any, make_candidate: Any) -> None:
    """Who does not know it goes without, and the client is told; who knows it gets it."""
    translation = Translation(
        fields=raw(messages=[], reasoning_effort="high"),
        origins={"reasoning_effort": "output_config.effort"},
        hints=frozenset({"reasoning_effort"}),
    )
    ctx = asked(translation)
    without = make_candidate(**TRANSLATES, carries=frozenset({"messages"}))
    assert (None, ("output_config.effort",)) == (Capable().exclude(ctx, without), Capable().drops(ctx, without))
    knowing = make_candidate(**TRANSLATES, carries=frozenset({"messages", "reasoning_effort"}))
    assert () == Capable().drops(ctx, knowing)


def test_a_chat_tells_what_it_loses(make_request: Any, make_context: Any, make_candidate: Any) -> None:
    """Only where its route lets it lose anything."""
    ctx = make_context(make_request(raw=raw(seed=7, user="u", n=1)))
    candidate = make_candidate(carries=frozenset({"messages"}))
    assert ("seed",) == Capable(may_drop=("seed",)).drops(ctx, candidate)
    assert () == Capable().drops(ctx, candidate)
