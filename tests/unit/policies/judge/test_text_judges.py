import sys
from collections.abc import Callable
from typing import Any

import pytest

from gateway.errors import ConfigurationError
from gateway.judgement import Answer
from gateway.rules import plugins
from gateway.types import ChatRequest
from policies.judge.cel import Cel
from policies.judge.finish_reason import FinishReason
from policies.judge.non_empty import NonEmpty
from policies.judge.refusal import Refusal

Says = Callable[..., Answer]
Asks = Callable[..., ChatRequest]


@pytest.mark.parametrize(
    ("reason", "success", "words"),
    [
        ("stop", True, ""),
        ("tool_calls", True, ""),
        ("length", False, "it ended for `length`"),
        ("content_filter", False, "it ended for `content_filter`"),
        ("eos because he said so", False, "it ended for a reason of the provider's own"),
        ("", None, "the answer says no finish reason"),
    ],
)
def test_a_good_end_is_one_that_the_model_chose(
    says: Says, asks: Asks, reason: str, success: bool | None, words: str
) -> None:
    """A provider's own word is not repeated: nobody knows what it quotes."""
    said = FinishReason().judge(asks(), says("words", reason=reason))
    assert (success, words) == (said.success, said.reason)


def test_what_counts_as_a_good_end_can_be_said(says: Says, asks: Asks) -> None:
    """In the policy file."""
    assert FinishReason(allow=("length",)).judge(asks(), says("words", reason="length")).success is True


@pytest.mark.parametrize(
    ("text", "least", "success"), [("", 1, False), (" \n", 1, False), ("ok", 1, True), (" ok ", 3, False)]
)
def test_blank_text_is_nothing(says: Says, asks: Asks, text: str, least: int, success: bool) -> None:
    """Blanks at both ends do not count."""
    assert success is NonEmpty(least_characters=least).judge(asks(), says(text)).success


def test_a_call_is_something(says: Says, asks: Asks) -> None:
    """Without a word beside it."""
    assert NonEmpty(least_characters=50).judge(asks(), says("", calls=(("time", ""),))).success is True


@pytest.mark.parametrize(
    "text",
    [
        "I'm sorry, but I can't help with that.",
        "I\u2019m sorry, but I can\u2019t assist with this request.",
        "I cannot provide that information.",
        "Sorry, I am unable to do this.",
        "As an AI language model, I don't have opinions.",
        "Unfortunately, I won't be able to, and I can't answer.",
        "Es tut mir leid, aber dabei kann ich nicht helfen.",
        "Leider kann ich dir dabei nicht helfen.",
        "Je suis désolé, mais je ne peux pas vous aider.",
        "Lo siento, pero no puedo ayudar con eso.",
    ],
)
def test_the_first_words_of_a_refusal_are_known(says: Says, asks: Asks, text: str) -> None:
    """In four languages, and the judge says that it only guesses."""
    said = Refusal().judge(asks(), says(text))
    assert (False, 0.1, "its first words decline (a heuristic)") == (said.success, said.score, said.reason)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "Here is how I'm sorry is said in German: Es tut mir leid.",
        "I can help with that.",
        "The patient said: I cannot continue.",
        "Sorry is a card game.",
        "I'm sorry to hear that! Try this instead.",
        "x" * 200 + " I'm sorry, but I can't help with that.",
    ],
)
def test_what_only_sounds_like_a_refusal_passes(says: Says, asks: Asks, text: str) -> None:
    """As far as the first words tell."""
    assert Refusal().judge(asks(), says(text)).success is True


def test_a_refusal_that_says_so_is_certain(says: Says, asks: Asks) -> None:
    """By its own field, or because a filter ended it."""
    for answer in (says("", refusal="No."), says("Well", reason="content_filter")):
        said = Refusal().judge(asks(), answer)
        assert (False, 0.0) == (said.success, said.score)


@pytest.mark.parametrize(
    ("expression", "success", "score"),
    [
        ("size(text) > 3", True, 1.0),
        ("text.contains('rain') && finish_reason == 'stop'", True, 1.0),
        ("choices.all(c, size(c.text) > 100)", False, 0.0),
        ("output_tokens == 20 && prompt_tokens == 7 && max_tokens == 0", True, 1.0),
        ("prompt.startsWith('How') && model == 'small'", True, 1.0),
        ("0.75", True, 0.75),
        ("0.25", False, 0.25),
        ("1", True, 1.0),
        ("7", None, None),
        ("text", None, None),
        ("choices[5].text == ''", None, None),
        ("1 / (max_tokens * 2) == 1", None, None),
    ],
)
def test_an_expression_judges(
    says: Says, asks: Asks, expression: str, success: bool | None, score: float | None
) -> None:
    """True and false, a score of 0 to 1; where it fails or means nothing it cannot say."""
    said = Cel(expression=expression).judge(asks(), says("It will rain."))
    assert (success, score) == (said.success, said.score)


@pytest.mark.parametrize(
    ("parameters", "complaint"),
    [
        ({"expression": "size(text"}, "`expression` is no CEL"),
        ({"expression": "size(txt) > 3"}, "names `txt`, and there are choices"),
        ({"expression": "1" * 2001}, "at most 2000 characters"),
        ({"expression": "true", "passes_from": 0}, "`passes_from` must be"),
    ],
)
def test_an_expression_is_checked_when_the_policy_file_is(parameters: Any, complaint: str) -> None:
    """At its place in the file."""
    with pytest.raises(ConfigurationError, match=r"routes\.r\.judge") as caught:
        plugins.build("judge", {"use": "cel", **parameters}, where="routes.r.judge.all[0]")
    assert complaint in str(caught.value)


@pytest.mark.parametrize(
    ("library", "spec"),
    [
        ("cel", {"use": "cel", "expression": "true"}),
        ("jsonschema_rs", "json_schema"),
        ("jsonschema_rs", "tool_arguments"),
    ],
)
def test_a_judge_whose_library_is_not_installed_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch, library: str, spec: Any
) -> None:
    """When it is used: whoever lists the judges, or uses others, need not have it."""
    monkeypatch.setitem(sys.modules, library, None)
    name = spec if isinstance(spec, str) else spec["use"]
    assert plugins.describe("judge", name).summary
    with pytest.raises(ConfigurationError, match=r"judge\.all\[0\]: this needs `pip install 'headrace\[judges\]'`"):
        plugins.build("judge", spec, where="judge.all[0]")
