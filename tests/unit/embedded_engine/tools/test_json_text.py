import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from embedded_engine.tools.json_text import JsonText

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
)


def _read(text: str, cuts: list[int]) -> tuple[int, bool, bool]:
    value, at = JsonText(), 0
    for start, end in zip([0, *cuts], [*cuts, len(text)], strict=True):
        read = value.feed(text[start:end])
        at = start + read
        if read < end - start:
            break
    return at, value.whole, value.broken


@settings(max_examples=40)
@given(VALUES, st.booleans(), st.booleans(), st.data())
def test_a_value_ends_where_it_ends_however_it_is_cut(value: Any, ascii_only: bool, wide: bool, data: Any) -> None:
    """What follows is not touched."""
    text = json.dumps(value, ensure_ascii=ascii_only, indent=2 if wide else None)
    following = text + " ,rest"
    cuts = sorted(data.draw(st.lists(st.integers(0, len(following)), max_size=4)))
    end, whole, broken = _read(following, cuts)
    assert (text, True, False) == (following[:end], whole, broken)


@given(st.text(alphabet='{}[]",:\\u0123456789-+.eEtruefalsnl \n', max_size=16))
def test_it_takes_what_json_takes(text: str) -> None:
    """A text is whole, or the beginning of something, or broken, as the standard library sees it."""
    value = JsonText()
    end = value.feed(text + "\n")
    taken = text[:end]
    try:
        json.loads(taken)
    except ValueError:
        assert not value.whole
    else:
        assert value.whole or end == len(text) + 1


@pytest.mark.parametrize(
    "text", ['{"a" 1}', "{,}", "[1,]", '{"a":1,}', '"\x01"', '"\\x"', '"\\u12g4"', "01", "1.e", "-", "nul1", "]"]
)
def test_what_is_no_json_is_broken(text: str) -> None:
    """At the first character that cannot be."""
    value = JsonText()
    value.feed(text + " ")
    assert value.broken or text == "01"
    assert not (value.whole and text != "01")
