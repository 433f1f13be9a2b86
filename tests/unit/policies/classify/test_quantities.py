"""What is counted of a request, and that it stays little."""

from collections.abc import Callable
from typing import Any

import pytest

from gateway.conversation import FunctionCall, Message, ToolCall
from policies.classify._quantities import measure

Make = Callable[..., Any]


@pytest.mark.parametrize(
    ("prompt", "tokens", "unit"),
    [
        ("Explain it in two sentences.", 50, b"sentences"),
        ("A 500-word essay, please", 675, b"word"),
        ("Give me 3 short paragraphs and ten tips", 400, b"tips"),
        ("one word", 1.35, b"word"),
        ("Write 99999999 words", 0, b""),
        ("the word is on a page", 0, b""),
        ("¾ words, ٣ words, ² pages", 0, b""),
        ("", 0, b""),
    ],
)
def test_a_length_that_the_prompt_asks_for_is_found(
    make_request: Make, prompt: str, tokens: float, unit: bytes
) -> None:
    """The longest of several; a number stands up to two words before its unit, and is one that somebody means."""
    seen = measure(make_request(prompt))
    assert (pytest.approx(tokens), unit) == (seen.asked_tokens, seen.asked_unit)


def test_answers_are_counted_from_the_last_one_on(make_request: Make) -> None:
    """In tokens of four characters, and a tool call's arguments are what the model wrote, too."""
    call = ToolCall(function=FunctionCall(name="f", arguments="x" * 40))
    turns = (
        Message(role="system", content="Be brief."),
        Message(role="user", content="Hello"),
        Message(role="assistant", content="y" * 80),
        Message(role="user", content="Look it up"),
        Message(role="assistant", tool_calls=(call,)),
        Message(role="tool", content="Found."),
    )
    seen = measure(make_request(messages=turns))
    assert ([10.0, 20.0], 2, b"found.", b"look it up") == (seen.answers, seen.turns, seen.prompt, seen.before)
    assert b"Be brief." == seen.system


def test_of_a_long_conversation_the_last_part_is_looked_at(make_request: Make) -> None:
    """Two thousand answers: the last sixteen are measured, and about so many counted."""
    seen = measure(make_request(*(["ask", "answer"] * 2000), "ask"))
    assert (16, True) == (len(seen.answers), 1900 < seen.turns < 2100)


def test_of_a_long_prompt_the_ends_are_kept(make_request: Make) -> None:
    """Three hundred characters and 40 words of a megabyte; the length is that of all."""
    seen = measure(make_request("begin " + "x y " * 250_000 + "end"))
    assert (b"begin", b"end", 40) == (seen.words[0], seen.words[-1], len(seen.words))
    assert (True, 1_000_009) == (len(seen.prompt) < 350, seen.prompt_chars)


@pytest.mark.parametrize("prompt", [(), ("",), (1, 2), ((1,), (2,))])
def test_a_prompt_without_words_has_none(make_request: Make, prompt: Any) -> None:
    """Token numbers are not looked into."""
    seen = measure(make_request(prompt=prompt))
    assert ([], 0, []) == (seen.words, seen.prompt_chars, seen.answers)


def test_text_that_is_no_text_is_taken_all_the_same(make_request: Make) -> None:
    """Half of a surrogate pair cannot be encoded."""
    half = Message(role="user", content="\ud83d a")
    assert [b"a"] == measure(make_request(messages=(half,))).words
