import json
from collections.abc import Callable
from typing import Any

import pytest

from gateway.errors import InvalidRequest
from gateway.stores.memory import MemoryShared
from gateway.stores.responses import PreviousResponseNotFound, ResponseMemory
from gateway.types import ChatRequest, Operation
from gateway.wire.format import BodyLimits
from gateway.wire.responses_format import ResponsesFormat

FORMAT = ResponsesFormat()
OURS = "resp_" + "a" * 24
ANSWER = {
    "id": OURS,
    "output": [
        {"type": "reasoning", "id": "rs_1", "summary": []},
        {"type": "message", "id": "msg_1", "role": "assistant", "content": [{"type": "output_text", "text": "hello"}]},
    ],
}


@pytest.fixture
def memory(clock: Any) -> ResponseMemory:
    """Keeps answers for a minute, and a few kilobytes of them."""
    return ResponseMemory(MemoryShared(clock), kept_s=60, most_bytes=4000)


@pytest.fixture
def asked(make_request: Callable[..., ChatRequest]) -> Callable[..., ChatRequest]:
    """A request of a tenant."""

    def asks(tenant: str = "acme", **body: Any) -> ChatRequest:
        arrival = make_request(operation=Operation.RESPONSE, tenant=tenant).arrival
        return FORMAT.read(arrival, json.dumps({"model": "m", "input": "hi", **body}).encode())

    return asks


def keep(memory: ResponseMemory, request: ChatRequest, answer: Any = ANSWER) -> None:
    """Answers a request."""
    remembered = memory.remembering(request, BodyLimits()).remembered
    assert remembered is not None
    assert remembered.keep is not None
    remembered.keep(json.dumps(answer).encode())


def test_a_request_goes_on_from_an_answer(memory: ResponseMemory, asked: Callable[..., ChatRequest]) -> None:
    """The earlier turns come first; the provider's names of items, and empty thoughts, are left behind."""
    keep(memory, asked())
    request = memory.remembering(asked(input="and now?", previous_response_id=OURS), BodyLimits())
    assert [("user", "hi"), ("assistant", "hello"), ("user", "and now?")] == [
        (turn.role, turn.text()) for turn in request.messages
    ]
    assert "previous_response_id" not in request.raw
    assert request.remembered is not None
    assert OURS == request.remembered.previous_id
    assert [{"role": "user", "content": "hi"}, "message"] == [
        item if "id" not in item and "type" not in item else item["type"]
        for item in json.loads(bytes(request.raw["input"]))[:2]
    ]


def test_a_conversation_grows_turn_by_turn(memory: ResponseMemory, asked: Callable[..., ChatRequest]) -> None:
    """What goes on from what went on holds all of it."""
    keep(memory, asked())
    second = "resp_" + "b" * 24
    keep(memory, asked(input="two", previous_response_id=OURS), {**ANSWER, "id": second})
    request = memory.remembering(asked(input="three", previous_response_id=second), BodyLimits())
    assert ["hi", "hello", "two", "hello", "three"] == [turn.text() for turn in request.messages]


def test_another_tenants_answer_is_not_there(memory: ResponseMemory, asked: Callable[..., ChatRequest]) -> None:
    """A name is no key."""
    keep(memory, asked())
    assert memory.get("other", OURS) is None
    with pytest.raises(PreviousResponseNotFound):
        memory.remembering(asked("other", previous_response_id=OURS), BodyLimits())


def test_an_answer_is_kept_for_a_time(memory: ResponseMemory, asked: Callable[..., ChatRequest], clock: Any) -> None:
    """Then whoever goes on from it is told that it is gone."""
    keep(memory, asked())
    clock.now += 61
    with pytest.raises(PreviousResponseNotFound) as caught:
        memory.remembering(asked(previous_response_id=OURS), BodyLimits())
    assert ("previous_response_id", "previous_response_not_found") == (caught.value.param, caught.value.code)


def test_a_request_may_have_nothing_to_say(memory: ResponseMemory, asked: Callable[..., ChatRequest]) -> None:
    """Where it goes on from a conversation that somebody else keeps; ``null`` is an absent field."""
    keep(memory, asked(input=None, conversation="conv_1"))
    kept = memory.get("acme", OURS)
    assert kept is not None
    assert () == kept.items


def test_what_others_keep_is_left_to_them(memory: ResponseMemory, asked: Callable[..., ChatRequest]) -> None:
    """A name that is not of our making goes on as it came."""
    request = memory.remembering(asked(previous_response_id="resp_theirs"), BodyLimits())
    assert b'"resp_theirs"' == bytes(request.raw["previous_response_id"])


def test_what_is_not_to_be_stored_is_not(memory: ResponseMemory, asked: Callable[..., ChatRequest]) -> None:
    """``store: false`` is kept to."""
    assert memory.remembering(asked(store=False), BodyLimits()).remembered.keep is None


def test_an_answer_is_forgotten_once(memory: ResponseMemory, asked: Callable[..., ChatRequest]) -> None:
    """Who deletes it learns whether it was there."""
    keep(memory, asked())
    assert [True, False] == [memory.forget("acme", OURS), memory.forget("acme", OURS)]


def test_what_is_kept_is_bounded(memory: ResponseMemory, asked: Callable[..., ChatRequest]) -> None:
    """The oldest goes first."""
    names = [f"resp_{n:024x}" for n in range(40)]
    for name in names:
        keep(memory, asked(), {**ANSWER, "id": name})
    there = [name for name in names if memory.get("acme", name) is not None]
    assert names[-len(there) :] == there
    assert 5 < len(there) < 20


def test_all_turns_together_are_bounded(memory: ResponseMemory, asked: Callable[..., ChatRequest]) -> None:
    """Going on is no way around the limit of items."""
    keep(memory, asked())
    with pytest.raises(InvalidRequest, match="at most 2 items"):
        memory.remembering(asked(previous_response_id=OURS), BodyLimits(max_messages=2))
