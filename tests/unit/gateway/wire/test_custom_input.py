"""The string in a custom tool's arguments, however the model writes it and wherever its bytes are cut."""

import json
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.wire.custom_input import CustomInput

TEXT = st.text(st.characters(exclude_categories=["Cs"]))


def taken(arguments: str, cuts: list[int]) -> tuple[str, str]:
    """What is told while the fragments come, and what at their end."""
    ends = sorted({0, len(arguments), *(cut % (len(arguments) + 1) for cut in cuts)})
    reader = CustomInput()
    told = "".join([reader.feed(arguments[begin:end]) for begin, end in pairwise(ends)])
    return told, reader.end()


@given(TEXT, st.lists(st.integers(0, 1000)), st.booleans(), st.sampled_from(["{%s}", " {\n%s\n} ", '{ %s , "x": 1}']))
def test_the_text_comes_out_as_it_was(text: str, cuts: list[int], escaped: bool, around: str) -> None:
    """All of it while it comes, escapes undone."""
    member = f'"input" : {json.dumps(text, ensure_ascii=escaped)}'
    assert (text, "") == taken(around % member, cuts)


@given(TEXT, st.lists(st.integers(0, 1000)))
def test_what_is_no_such_object_is_lost_to_nobody(text: str, cuts: list[int]) -> None:
    """A model that writes its text as it is has it told as it is."""
    arguments = f"*** {text}"
    assert ("", arguments) == taken(arguments, cuts)


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ('{"note": 1, "input": "x"}', "x"),
        ('{"input": 7}', '{"input": 7}'),
        ("[1]", "[1]"),
        ("", ""),
        ('{"in', '{"in'),
    ],
)
def test_other_arguments_are_read_at_their_end(arguments: str, expected: str) -> None:
    """The member where it is, else all of it."""
    assert ("", expected) == taken(arguments, [])


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ('{"input": "cut', ("cut", "")),
        (r'{"input": "cut\u00', ("cut", r"\u00")),
        (r'{"input": "\ud83d', ("", r"\ud83d")),
        (r'{"input": "\ud83d x"}', ("� x", "")),
        (r'{"input": "\q \uZZZZ."}', (r"q \uZZZZ.", "")),
    ],
)
def test_what_is_cut_short_or_no_json(arguments: str, expected: tuple[str, str]) -> None:
    """Nothing of it is lost, and nothing breaks."""
    assert expected == taken(arguments, [])
