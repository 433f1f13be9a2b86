from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.errors import UpstreamInvalid
from gateway.wire.openai_usage import MAX_TOKENS
from gateway.wire.upstream_json import object_at, objects, opened_object, text_at, text_of, tokens_at

_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=8,
)


@given(_JSON)
def test_whatever_stands_in_a_field_only_what_is_wanted_is_taken(value: Any) -> None:
    """Of another kind, it counts as not being there."""
    fields = {"it": value}
    assert (value if isinstance(value, str) else "") == text_of(value) == text_at(fields, "it")
    assert (value if isinstance(value, dict) else {}) == object_at(fields, "it")
    assert all(isinstance(item, dict) for item in objects(value))
    assert 0 <= tokens_at(fields, "it") <= MAX_TOKENS


@given(_JSON)
def test_fields_of_what_is_no_object_hold_no_tokens(value: Any) -> None:
    """Details of usage come as ``null``, as a number, or not at all."""
    assert 0 == tokens_at(value, "there is no such name")


def test_objects_of_a_list_keep_their_order_and_the_rest_is_left_out() -> None:
    """One odd item does not cost the others."""
    assert [{"a": 1}, {"b": 2}] == objects([{"a": 1}, None, "x", {"b": 2}])


def test_true_is_no_count_of_tokens() -> None:
    """To Python it is one."""
    assert 0 == tokens_at({"prompt_tokens": True}, "prompt_tokens")
    assert 7 == tokens_at({"prompt_tokens": 7}, "prompt_tokens")


@pytest.mark.parametrize("data", [b"", b"[]", b"null", b'{"a":', b"\xff", b"[" * 100_000])
def test_what_is_no_object_is_no_part_of_an_answer(data: bytes) -> None:
    """Broken, of another kind, or nested without an end."""
    with pytest.raises(UpstreamInvalid):
        opened_object(data)
