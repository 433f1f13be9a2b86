"""What comes whole, a request or an answer, as guards see it."""

from typing import Any

import msgspec
import pytest

from gateway.errors import InvalidRequest
from gateway.guarding.whole_texts import MOST_MEMBERS, answer_texts, request_texts, told_once
from gateway.types import Arrival, ChatRequest, Operation, TraceContext

BODY = b'{"message":{"tool_calls":[{"function":{"name":"f","arguments":%b}}]}}'


@pytest.mark.parametrize(
    ("arguments", "after"),
    [
        (b'{"a":"4111 1111","a":1}', b'{"a":1}'),
        (b'{"a":[{"b":"x:y","c":{}},{"b":1,"b":"\\":"}]}', b'{"a":[{"b":"x:y","c":{}},{"b":"\\":"}]}'),
        (b'{ "a" : 1.10, "b":"\\\\" }', b'{ "a" : 1.10, "b":"\\\\" }'),
    ],
)
def test_of_two_members_of_one_name_the_one_goes_out_that_guards_see(arguments: bytes, after: bytes) -> None:
    """What has each name once goes out as it came."""
    assert BODY % after == told_once(BODY % arguments)


def test_what_goes_out_is_what_was_seen() -> None:
    """The texts are those of the body that is left."""
    body = told_once(BODY % b'{"a":"4111 1111","a":"x"}')
    assert ["x"] == [text.text for text in answer_texts(Operation.OLLAMA_CHAT, body).transcript.texts]
    assert body == msgspec.json.encode(msgspec.json.decode(body))


ARRIVAL = Arrival(
    id="req-1",
    operation=Operation.CHAT,
    tenant="acme",
    received_s=0.0,
    received_unix_s=0.0,
    trace=TraceContext(trace_id="0" * 31 + "1", span_id="0" * 15 + "1"),
)
MANY = MOST_MEMBERS + 2


@pytest.mark.parametrize(
    "fields",
    [
        pytest.param({"messages": [{"role": "user", "content": [{"text": ""}] * MANY}]}, id="parts"),
        pytest.param({"messages": [{"function_call": {"arguments": f"[{'1,' * MANY}1]"}}]}, id="arguments"),
        pytest.param({"tools": [[]] * MANY}, id="tools"),
        pytest.param({"tools": {"enum": [""] * 3 * MANY}}, id="strings"),
    ],
)
def test_what_has_very_many_members_is_not_looked_into(fields: dict[str, Any]) -> None:
    """It would keep everybody else waiting: there is no guard who can say, and nothing is gone through."""
    raw = {name: msgspec.Raw(msgspec.json.encode(value)) for name, value in fields.items()}
    texts = request_texts(ChatRequest(arrival=ARRIVAL, model="m", raw=raw))
    assert ([], "it has more than 65536 members") == (texts.transcript.texts, texts.unreadable)


def test_a_number_that_no_float_holds_is_the_clients_fault() -> None:
    """However deep it stands, in a field that guards look into."""
    raw = {"messages": msgspec.Raw(b'[{"role":"user","content":"hi","x":[1e999]}]')}
    with pytest.raises(InvalidRequest, match="messages holds a number that is out of range"):
        request_texts(ChatRequest(arrival=ARRIVAL, model="m", raw=raw))


def test_commas_and_quotes_in_a_text_are_no_members() -> None:
    """However many there are."""
    text = ',"' * 5 * MANY
    raw = {"messages": msgspec.Raw(msgspec.json.encode([{"role": "user", "content": text}]))}
    texts = request_texts(ChatRequest(arrival=ARRIVAL, model="m", raw=raw))
    assert ([text], "") == ([one.text for one in texts.transcript.texts], texts.unreadable)
