import fnmatch
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.world import World


def _answers(make_world: Callable[..., World], pattern: str, model: str) -> bool:
    world = make_world(f"backends: {{a: {{use: fake}}}}\nroutes: {{r: {{models: ['{pattern}'], targets: [a]}}}}")
    return world.routes[0].answers(model)


@pytest.mark.parametrize(
    ("pattern", "model", "answered"),
    [
        ("gpt-4o", "gpt-4o", True),
        ("gpt-4o", "gpt-4o-mini", False),
        ("gpt-4o", "GPT-4O", False),
        ("gpt-*", "gpt-", True),
        ("gpt-*", "my-gpt-4", False),
        ("*", "", True),
        ("*", "line\nbreak", True),
        ("*/llama-*-70b", "meta/llama-3.3-70b", True),
        ("*/llama-*-70b", "meta/llama-3.3-8b", False),
        ("v1.5", "v1x5", False),
        ("[ab]", "a", False),
        ("[ab]", "[ab]", True),
        ("a?c", "abc", False),
    ],
)
def test_a_star_is_any_text_and_all_else_is_itself(
    make_world: Callable[..., World], pattern: str, model: str, answered: bool
) -> None:
    """Patterns have one special character, so that names with dots and brackets mean what they say."""
    assert answered is _answers(make_world, pattern, model)


@given(
    pattern=st.text("ab*", min_size=1, max_size=8),
    model=st.text("ab", max_size=10),
)
def test_the_pattern_agrees_with_the_shells_idea_of_it(
    make_world: Callable[..., World], pattern: str, model: str
) -> None:
    """Without brackets and question marks our patterns are those that everybody knows."""
    assert fnmatch.fnmatchcase(model, pattern) is _answers(make_world, pattern, model)


def test_many_stars_end_in_time(make_world: Callable[..., World]) -> None:
    """A client chooses the model's name, and must not choose how long matching takes: trying all ways takes years."""
    assert not _answers(make_world, "*a" * 12 + "*b", "a" * 250)
