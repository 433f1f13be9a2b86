"""Words and segments of a transcript, once the text that they tell together was changed."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.guarding.chained_pieces import joined, joints, resaid_pieces

SPELT = ["mail", "bob", "at", "example", "dot", "com", "at", "noon"]


@pytest.mark.parametrize(
    ("pieces", "new", "after"),
    [
        pytest.param(["a", "4111", "1111", "b"], "a [card] b", ["a", "[card]", "", "b"], id="several pieces"),
        pytest.param([" a", " x@y.de,", " b"], " a [mail], b", [" a", " [mail],", " b"], id="blanks of their own"),
        pytest.param(["a", "4111", "1111"], "a [card]", ["a", "[card]", ""], id="at the end"),
        pytest.param(["4111", "1111", "b"], " b", ["", "", "b"], id="nothing in its place"),
        pytest.param(["a", "1", "b", "2", "c"], "a # b # c", ["a", "#", "b", "#", "c"], id="twice"),
        pytest.param(
            SPELT, "mail [mail] at noon", ["mail", "[mail]", *[""] * 4, "at", "noon"], id="a word in it again"
        ),
        pytest.param(["a"], "", [""], id="all of it"),
        pytest.param([], "", [], id="none"),
    ],
)
def test_each_piece_keeps_what_is_left_of_it(pieces: list[str], new: str, after: list[str]) -> None:
    """What was put in the place of several stands in the first of them."""
    assert after == resaid_pieces(pieces, joints(pieces, ""), new)


def test_pieces_that_are_a_text_without_blanks_are_joined_without() -> None:
    """In Chinese, say; a blank would hide what stands in two of them."""
    assert ["", ""] == joints(["你好", "世界"], "你好世界")
    assert [" ", ""] == joints(["hello", "world"], "hello world")


PIECES = st.lists(st.sampled_from(["a", "b", "at", " at", "4", "44", "", "c "]), max_size=90)


@given(PIECES, st.sampled_from(["", "#", "a 4", "b "]))
def test_nothing_is_left_that_the_text_does_not_say(pieces: list[str], instead: str) -> None:
    """However the pieces are cut, they say the new text and no other, but for blanks between them."""
    behind = joints(pieces, "-")
    new = re.sub(r"4 ?4|at b", instead, joined(pieces, behind))
    after = resaid_pieces(pieces, behind, new)
    assert len(pieces) == len(after)
    assert "".join(new.split()) == "".join("".join(after).split())


@given(PIECES)
def test_what_did_not_change_stays(pieces: list[str]) -> None:
    """Every piece is as it was."""
    behind = joints(pieces, "-")
    assert pieces == resaid_pieces(pieces, behind, joined(pieces, behind))
