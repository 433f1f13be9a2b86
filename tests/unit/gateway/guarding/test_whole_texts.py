"""Answers that come whole, as guards see them."""

import msgspec
import pytest

from gateway.guarding.whole_texts import answer_texts, told_once
from gateway.types import Operation

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
