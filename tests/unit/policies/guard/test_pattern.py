import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.errors import ConfigurationError
from gateway.guard import Seen, Span, Text
from gateway.guard_mark import Action, Stage
from gateway.rules import plugins
from policies.guard.pattern import Pattern


def _guard(*patterns: str, action: str = "redact", **more: str) -> Pattern:
    return Pattern(patterns=patterns, action=action, **more)  # type: ignore[arg-type]  # literals of the test


def _look(guard: Pattern, make_request: Any, *texts: str) -> tuple[Action, tuple[str, ...]]:
    shown = [Text(text, "text", "user") for text in texts]
    said = guard.look(Seen(stage=Stage.BEFORE, request=make_request(), texts=shown))
    return said.action, said.texts


def test_every_match_in_every_text_is_replaced(make_request: Any) -> None:
    """And texts without one come back as they are."""
    guard = _guard("[0-9]{3}", replacement="#")
    assert (Action.REDACT, ("a # b #", "none", "##")) == _look(guard, make_request, "a 123 b 456", "none", "123456")
    assert (Action.ALLOW, ()) == _look(guard, make_request, "none", "")


def test_of_two_that_overlap_the_first_counts() -> None:
    """The one that begins first; at the same place, that of the first pattern."""
    assert [Span(0, 3, "[redacted]")] == _guard("bcd", "abc").spans("abcd", 0)
    assert [Span(0, 2, "[redacted]"), Span(2, 3, "[redacted]")] == _guard("ab", "abc", "c").spans("abc", 0)


def test_what_is_before_is_seen_and_not_matched() -> None:
    """A word's border is where the word begins, not where the look does."""
    assert [] == _guard(r"\bb+").spans("abb", 1)
    assert [] == _guard("^b").spans("ab", 1)
    assert [Span(1, 3, "[redacted]")] == _guard("b+").spans("abb", 1)


@pytest.mark.parametrize(
    ("pattern", "longest"),
    [
        ("[0-9]{4}", 4),
        ("ab?c?", 3),
        ("a+", None),
        ("a*b", None),
        ("(?i)secret|key", 6),
        (r"\pL{2}", None),
        ("é{2}", 2),
        ("a{,2}", None),
    ],
)
def test_how_long_a_match_can_be_is_known_or_not(pattern: str, longest: int | None) -> None:
    """In characters; what only RE2 can read is taken to have no bound."""
    assert longest == _guard(pattern).longest_chars
    assert (None if longest is None else max(longest, 9)) == _guard(pattern, "[0-9]{9}").longest_chars


@pytest.mark.parametrize(
    ("patterns", "fault"),
    [
        (["("], "is no pattern of RE2: missing ): ("),
        (["(?=a)"], "is no pattern of RE2"),
        ([r"(a)\1"], "is no pattern of RE2"),
        (["a*"], "matches an empty text"),
        (["\b[0-9]{4}\b"], "put it in single quotes"),
        ([], "must be 1 to 64"),
        (["a"] * 65, "must be 1 to 64"),
        (["a" * 1001], "must have 1 to 1000 characters"),
    ],
)
def test_what_is_no_pattern_is_refused_where_it_stands(patterns: list[str], fault: str) -> None:
    """When the policy file is read."""
    with pytest.raises(ConfigurationError, match="here") as caught:
        plugins.build("guard", {"use": "pattern", "patterns": patterns, "action": "block"}, where="here")
    assert fault in str(caught.value)


def test_no_text_makes_a_pattern_take_for_ever(make_request: Any) -> None:
    """One that would keep a backtracking engine busy for longer than the universe has been there."""
    guard = _guard("(a+)+$", "(x+x+)+y", action="block")
    assert Action.ALLOW is _look(guard, make_request, "a" * 50_000 + "!" + "x" * 50_000)[0]


def test_empty_matches_inside_a_text_are_none(make_request: Any) -> None:
    """Though the pattern needs no character there."""
    guard = _guard(r"\bx?", action="block")
    assert [Span(2, 3, "[redacted]")] == guard.spans("a xa", 0)
    assert [Action.BLOCK, Action.ALLOW] == [_look(guard, make_request, text)[0] for text in ("a xa", "a ya")]


_ATOMS = st.sampled_from(
    ["a", "b", ".", "[ab]", "[^a]", r"\w", r"\d", r"\s", r"\b", "^", "$", "[[:alpha:]]", "[[:digit:]a]", r"\x61", "é"]
)
_PATTERNS = st.recursive(
    _ATOMS,
    lambda inner: (
        st.builds("{}{}".format, inner, inner)
        | st.builds("(?:{}|{})".format, inner, inner)
        | st.builds("({}){}".format, inner, st.sampled_from(["?", "{2}", "{1,3}", "{,2}", "*", "+", "+?", "??"]))
        | st.builds("(?i:{})".format, inner)
    ),
    max_leaves=6,
)


@given(pattern=_PATTERNS, text=st.text(st.sampled_from("abA1 \n{,2}]é"), max_size=30))
def test_no_match_is_longer_than_what_is_said_to_be_the_longest(pattern: str, text: str) -> None:
    """Whoever reads the pattern, Python or RE2: what a window holds back depends on it."""
    try:
        guard = _guard(pattern)
    except ValueError:
        return
    longest = guard.longest_chars
    assert longest is None or all(span.end - span.begin <= longest for span in guard.spans(text, 0))


@pytest.mark.parametrize("first", ["", "é"], ids=["ascii", "other characters"])
def test_a_text_of_nothing_but_matches_takes_time_in_proportion(first: str) -> None:
    """If each match cost a pass over the text, this would take many minutes, and not end within a test's time."""
    matches = 80_000
    spans = _guard(r"\b[0-9]{4}\b", "é").spans(first + "4111 " * matches, 1)
    assert matches - (not first) == len(spans)
    last = len(first) + 5 * (matches - 1)
    assert (last, last + 4) == spans[-1][:2]


@given(text=st.text(st.sampled_from("ab1é€\U0001f600 \n"), max_size=40), data=st.data())
def test_places_are_counted_in_characters(text: str, data: st.DataObject) -> None:
    """Whatever stands before them, and wherever the search begins."""
    begin = data.draw(st.integers(0, len(text)))
    expected = [found.span() for found in re.compile("a+|€b?|1\U0001f600*", re.ASCII).finditer(text, begin)]
    assert expected == [span[:2] for span in _guard("a+", "€b?", "1\U0001f600*").spans(text, begin)]
