"""The texts of a tool call's arguments, whatever a model wrote there."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.guard import Text
from gateway.guarding.argument_texts import argument_texts
from gateway.guarding.transcript import Transcript

CARD = "4111 1111"


def seen(arguments: str) -> list[str]:
    """What guards see of them."""
    return [text.text for text in Transcript([Text(arguments, "arguments", "assistant")]).texts]


def redacted(arguments: str, was: str = CARD, instead: str = "[card]") -> str:
    """The arguments after a guard that replaces a word."""
    transcript = Transcript([Text(arguments, "arguments", "assistant")])
    return transcript.rewritten([text.text.replace(was, instead) for text in transcript.texts]).get(0, arguments)


@pytest.mark.parametrize(
    ("arguments", "texts", "after"),
    [
        pytest.param('{"a": "4111 1111", "b":1}', [CARD, "1"], '{"a": "[card]", "b":1}', id="a value"),
        pytest.param('{"a":"4111 1111","a":1}', [CARD, "1"], '{"a":"[card]","a":1}', id="a name twice"),
        pytest.param('"\\u0034111 1111"', [CARD], '"[card]"', id="one string"),
        pytest.param('{"a":"x\\n4111 1111', ["x\n4111 1111"], '{"a":"x\\n[card]', id="cut short"),
        pytest.param('{"a":"4111 1111\\', ["4111 1111\\"], '{"a":"[card]\\\\', id="cut in an escape"),
        pytest.param('{"a":"4111 1111","b', [CARD, "b"], '{"a":"[card]","b', id="cut in a name"),
        pytest.param('{"4111 1111":true}', [CARD], '{"[card]":true}', id="a name that is no word"),
        pytest.param('{"a":"4111 1111\n"}', ["4111 1111\n"], '{"a":"[card]\\n"}', id="a line end as it is"),
        pytest.param('{"a":"\\ud83d 4111 1111"}', ["\\ud83d 4111 1111"], '{"a":"\\\\ud83d [card]"}', id="half a pair"),
        pytest.param('["4111 1111",["4111 1111"]]', [CARD, CARD], '["[card]",["[card]"]]', id="lists"),
        pytest.param(
            msgspec.json.encode({"a": '{"b":"\\n4111 1111","c":"x'}).decode(),
            ["\n4111 1111", "x"],
            msgspec.json.encode({"a": '{"b":"\\n[card]","c":"x'}).decode(),
            id="JSON in a value",
        ),
        pytest.param("{call me 4111 1111}", ["{call me 4111 1111}"], "{call me [card]}", id="no JSON"),
        pytest.param("4111 1111", [CARD], "[card]", id="no object"),
        pytest.param("[" * 5000 + '"4111 1111', ["4111 1111"], "[" * 5000 + '"[card]', id="deep"),
    ],
)
def test_each_value_is_a_text_and_goes_back_to_its_place(arguments: str, texts: list[str], after: str) -> None:
    """Whether a parser would keep it or not."""
    assert texts == seen(arguments)
    assert after == redacted(arguments)


def test_numbers_are_texts_with_all_of_their_digits() -> None:
    """Long ones, and such with an exponent."""
    long = "4111111111111111000022223333"
    assert [long, "4111111111111111.0", "-1.5"] == seen(f"[{long},4.111111111111111e15,-1.5]")
    assert '{"a":"[card]"}' == redacted('{"a":4111}', "4111")


def test_the_tools_own_names_of_its_arguments_are_no_texts() -> None:
    """A guard for the word must not break the call."""
    assert ["x"] == seen('{"password" : {"user_id": "x"}}')


_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)


@given(st.dictionaries(st.text(), _VALUES, max_size=5), st.data())
def test_what_is_put_in_leaves_json_json(value: dict[str, object], data: st.DataObject) -> None:
    """And whatever is cut off, what guards are shown can be put back without a change."""
    arguments = msgspec.json.encode(value).decode()
    transcript = Transcript([Text(arguments, "arguments", "assistant")])
    new = [data.draw(st.text()) for _ in transcript.texts]
    msgspec.json.decode(transcript.rewritten(new).get(0, arguments))
    cut = arguments[: data.draw(st.integers(0, len(arguments)))]
    shown = Transcript([Text(cut, "arguments", "assistant")])
    assert {} == shown.rewritten([text.text for text in shown.texts])
    for piece in argument_texts(cut) or ():
        assert 0 <= piece.begin < piece.end <= len(cut)
