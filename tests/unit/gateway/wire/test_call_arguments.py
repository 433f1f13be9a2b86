import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.wire.call_arguments import arguments_object, as_object


def test_an_object_goes_on_byte_for_byte() -> None:
    """Also with numbers that no float holds, and in the order in which it was written."""
    text = '{"b": 1.10, "a":12345678901234567890123}'
    assert text.encode() == bytes(as_object(text) or b"") == bytes(arguments_object(text))


@pytest.mark.parametrize("text", ["", "[]", "null", '"{}"', "{", '{"a": }', "{} {}", "[" * 100_000])
def test_what_is_none_stands_in_one(text: str) -> None:
    """The model sees what it wrote."""
    assert as_object(text) is None
    assert {"malformed_arguments": text} == arguments_object(text)


@given(st.text())
def test_whatever_a_model_wrote_becomes_an_object(text: str) -> None:
    """No upstream refuses a request for the slip of a model."""
    assert isinstance(msgspec.json.decode(msgspec.json.encode(arguments_object(text))), dict)
