"""Strict JSON at the door, and the body put together again."""

import json
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.errors import InvalidRequest
from gateway.wire.json_body import decode, edit, opened_fields, skim

DEPTH = 64
texts = st.text(alphabet=st.sampled_from('ab"\\[]{},:é👋\n \t'), max_size=12)
values = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(-(2**53), 2**53), texts),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(texts, inner, max_size=3)),
    max_leaves=8,
)
objects = st.dictionaries(texts, values, max_size=5)


def depth_of(value: Any) -> int:
    """How deep arrays and objects are nested."""
    if isinstance(value, dict):
        return 1 + max(map(depth_of, value.values()), default=0)
    if isinstance(value, list):
        return 1 + max(map(depth_of, value), default=0)
    return 0


@given(value=objects, spaces=st.booleans(), escapes=st.booleans(), bound=st.integers(1, 5))
def test_depth_is_counted_outside_of_strings(value: dict[str, Any], spaces: bool, escapes: bool, bound: int) -> None:
    """A body passes exactly where it is no deeper than the bound, however it is written."""
    separators = (", ", " : ") if spaces else (",", ":")
    body = json.dumps(value, separators=separators, ensure_ascii=escapes).encode()
    if depth_of(value) <= bound:
        assert value == {name: json.loads(bytes(raw)) for name, raw in skim(body, max_depth=bound).items()}
    else:
        with pytest.raises(InvalidRequest, match=f"more deeply than {bound} levels"):
            skim(body, max_depth=bound)


@given(value=objects.filter(bool), spaces=st.booleans(), escapes=st.booleans(), data=st.data())
def test_a_field_given_twice_is_refused(
    value: dict[str, Any], spaces: bool, escapes: bool, data: st.DataObject
) -> None:
    """Which of the two counts would be anybody's guess, so neither does."""
    name = data.draw(st.sampled_from(sorted(value)))
    separators = (", ", " : ") if spaces else (",", ":")
    again = json.dumps({name: data.draw(values)}, separators=separators, ensure_ascii=escapes)
    once = json.dumps(value, separators=separators)
    for body in (f"{once[:-1]},{again[1:]}", f"{again[:-1]},{once[1:]}"):
        with pytest.raises(InvalidRequest, match="a field twice"):
            skim(body.encode(), max_depth=DEPTH)


def test_a_name_given_twice_is_found_behind_escapes() -> None:
    """The name counts, not how it is spelt."""
    with pytest.raises(InvalidRequest, match="a field twice"):
        skim(b'{"model":"a","m\\u006fdel":"b"}', max_depth=DEPTH)
    assert ["model", "n"] == list(skim(b'{"m\\u006fdel":"b","n":1}', max_depth=DEPTH))


def test_a_name_given_twice_is_found_where_the_lengths_conspire() -> None:
    """The second value is as long as everything up to a member inside of it."""
    with pytest.raises(InvalidRequest, match="a field twice"):
        skim(b'{"a":1,"b":2,"a":{"k":2     }}', max_depth=DEPTH)


@given(body=objects, changes=st.dictionaries(texts, st.one_of(st.none(), values.map(json.dumps)), max_size=3))
def test_edit_replaces_adds_and_removes(body: dict[str, Any], changes: dict[str, str | None]) -> None:
    """And nothing else changes."""
    expected = {name: value for name, value in body.items() if changes.get(name, "") is not None}
    expected |= {name: json.loads(text) for name, text in changes.items() if text is not None}
    raw = skim(json.dumps(body).encode(), max_depth=DEPTH)
    as_bytes = {name: None if text is None else text.encode() for name, text in changes.items()}
    assert expected == json.loads(edit(raw, as_bytes))


def test_edit_leaves_other_values_byte_for_byte() -> None:
    """Numbers keep their spelling, escapes and spaces stay."""
    raw = skim(b'{"a": 1.50, "b": "\\u00e9 \\/", "c": [ 1 , 2e0 ]}', max_depth=DEPTH)
    assert b'{"a":1.50,"b":7,"c":[ 1 , 2e0 ]}' == edit(raw, {"b": b"7"})


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (b"", "is empty"),
        (b"[]", "must be object, not array"),
        (b"null", "must be object, not null"),
        (b"1", "must be object, not integer"),
        (b'"x"', "must be object, not string"),
        (b"{", "not valid JSON"),
        (b'{"a":1', "not valid JSON"),
        (b"{} {}", "not valid JSON"),
        (b"{'a':1}", "not valid JSON"),
        (b'{"a":01}', "not valid JSON"),
        (b'{"a":"\x01"}', "not valid JSON"),
        (b'{"a":"\xff"}', "not valid UTF-8"),
        (b'{"a":"\xed\xa0\x80"}', "not valid UTF-8"),
        ('{"a":1}'.encode("utf-16"), "not valid UTF-8"),
        ('{"a":1}'.encode("utf-16-le"), "not valid JSON"),
        (b'{"a":' + b"[" * 100_000 + b"]" * 100_000 + b"}", "nested more deeply"),
        (b'{"a":' * 100_000, "nested more deeply"),
        (b'{"a":' + b"9" * 5000 + b"}", "out of range"),
        (b"{%b}" % b",".join(b'"f%d":1' % at for at in range(1001)), "more than 1000 fields"),
        (b'{"a":1e999}', "out of range"),
        (b'{"a":-1e999}', "out of range"),
    ],
)
def test_a_body_that_is_none_is_refused(body: bytes, words: str) -> None:
    """Always the same class of error, never one of the parser's or Python's own."""
    with pytest.raises(InvalidRequest, match=words):
        skim(body, max_depth=DEPTH)


@pytest.mark.parametrize(
    "half", [r"\ud800", r"\uDBFF", r"\udc00", r"\uDfFf", r"\ude00\ud83d", r"\ud83d\u0041", r"\\\ud83d"]
)
@pytest.mark.parametrize("place", ['{"a":"%s"}', '{"a":"x%sx"}', '{"a":[{"b":"%s"}]}', '{"%s":1}'])
def test_half_of_a_surrogate_pair_is_refused_wherever_it_stands(half: str, place: str) -> None:
    """Nothing downstream could encode it."""
    with pytest.raises(InvalidRequest, match="half of a surrogate pair"):
        skim((place % half).encode(), max_depth=DEPTH)


@pytest.mark.parametrize("text", [r"\ud83d\ude00", r"\\ud800", r"\\\\udc00", r"\ud7ff", r"\uD83D\uDE00\uD83D\uDE00"])
def test_whole_pairs_and_escaped_backslashes_pass(text: str) -> None:
    """They are ordinary text."""
    assert ["a"] == list(skim(('{"a":"%s"}' % text).encode(), max_depth=DEPTH))  # noqa: UP031  # braces are JSON's here


@pytest.mark.parametrize("number", [b"NaN", b"Infinity", b"-Infinity", b"nan", b"-NaN"])
@pytest.mark.parametrize(
    ("body", "param"),
    [
        (b'{"model":"m","temperature":%b}', "temperature"),
        (b'{"temperature": %b, "model":"m"}', "temperature"),
        (b'{"logit_bias":{"50256":%b}}', "logit_bias"),
        (b'{"stop":[1,%b]}', "stop"),
        (b'{"7":%b}', None),
    ],
)
def test_a_number_that_json_does_not_have_is_refused_by_its_field(
    number: bytes, body: bytes, param: str | None
) -> None:
    """The parser only knows a byte; the client is told the field."""
    with pytest.raises(InvalidRequest, match="must be a finite number") as caught:
        skim(body % number, max_depth=DEPTH)
    assert param == caught.value.param


class _Inner(msgspec.Struct):
    kind: str


class _Typed(msgspec.Struct):
    n: int | None = None
    items: list[_Inner] | str | None = None
    weights: dict[str, float] | None = None


@pytest.mark.parametrize(
    ("body", "param", "message"),
    [
        (b'{"n":"SECRET"}', "n", "n must be integer or null, not string"),
        (b'{"n":true}', "n", "n must be integer or null, not boolean"),
        (b'{"items":[{"kind":"a"},{"kind":1}]}', "items[1].kind", "items[1].kind must be string, not integer"),
        (b'{"items":[{}]}', "items[0].kind", "items[0].kind is required"),
        (b'{"items":7}', "items", "items must be string, array or null, not integer"),
        (b'{"weights":{"SECRET":"SECRET"}}', "weights", "weights must be number, not string"),
        (b'{"weights":{"1":1e999}}', "weights", "weights is a number out of range"),
        (b"[]", None, "the request body must be object, not array"),
    ],
)
def test_a_wrong_type_is_named_by_path_and_never_quoted(body: bytes, param: str | None, message: str) -> None:
    """Path and types in JSON's words, no value."""
    with pytest.raises(InvalidRequest) as caught:
        decode(msgspec.json.Decoder(_Typed), body)
    assert (message, param) == (caught.value.message, caught.value.param)


def test_deep_nesting_in_a_typed_field_is_no_crash() -> None:
    """The decoder's RecursionError never gets out."""
    with pytest.raises(InvalidRequest, match="nested more deeply"):
        decode(msgspec.json.Decoder(Any), b"[" * 100_000)


def test_fields_are_opened_by_name() -> None:
    """Those alone that are asked for; what no float holds is refused by the name of its field, however deep it is."""
    raw = skim(b'{"a":[1,"x"],"b":{"c":[1e999]}}', max_depth=DEPTH)
    assert {"a": [1, "x"]} == opened_fields(raw, ["a"])
    with pytest.raises(InvalidRequest, match="b holds a number that is out of range") as caught:
        opened_fields(raw, raw)
    assert "b" == caught.value.param


@pytest.mark.parametrize(
    ("body", "name"),
    [
        (b'{"model":"a","Model":"b"}', "model"),
        (b'{"MODEL":"b"}', "model"),
        (b'{"model":"a","Stream":true}', "stream"),
        (b'{"model":"a","\xc5\xbftream":true}', "stream"),
        (b'{"model":"a","top_\xe2\x84\xaa":1,"top_k":2}', "top_k"),
    ],
)
def test_a_name_that_others_take_for_another_is_refused(body: bytes, name: str) -> None:
    """Servers in Go do not mind its case, and then the last of its kind counts: another model than was allowed."""
    with pytest.raises(InvalidRequest, match=f"take for {name}"):
        skim(body, max_depth=DEPTH)


def test_other_names_may_be_written_as_anybody_likes() -> None:
    """Capitals, and letters of other alphabets."""
    body = '{"model":"a","safetySettings":1,"_":2,"été":3,"":4}'.encode()
    assert ["model", "safetySettings", "_", "été", ""] == list(skim(body, max_depth=DEPTH))
