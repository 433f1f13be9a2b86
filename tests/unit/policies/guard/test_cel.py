from typing import Any

import pytest

from gateway.errors import ConfigurationError
from gateway.guard import CannotSay, Seen, Text
from gateway.guard_mark import Action, Stage
from gateway.judgement import Answer, Choice
from gateway.price import Usage
from gateway.rules import plugins
from policies.guard.cel import Cel

HEADERS = ((b"x-team", b"red"), (b"x-other", b"blue"))


def _seen(
    make_request: Any, *texts: str, stage: Stage = Stage.BEFORE, answer: Answer | None = None, **fields: Any
) -> Seen:
    shown = [Text(text, "text", "user") for text in texts or ("hello",)]
    request = make_request(*(texts or ("hello",)), **fields)
    return Seen(stage=stage, request=request, texts=shown, answer=lambda: answer, headers=HEADERS)


@pytest.mark.parametrize(
    "expression",
    [
        'model == "small" && tenant == "acme" && operation == "chat" && stage == "before" && !stream',
        'size(messages) == 2 && messages[1].role == "assistant" && messages[0].text == "hello"',
        'text == "hello\\nworld" && texts[1] == "world"',
        'headers["x-team"] == "red" && !("x-other" in headers)',
        'parameters.temperature == 0.5 && parameters.user == "u-1" && !("tools" in parameters)',
        '"shell" in tools && metadata.run == "7" && max_tokens == 0',
        'texts.exists(t, t.matches("w[a-z]+d"))',
        'answer == "" && finish_reason == "" && size(tool_calls) == 0 && output_tokens == 0',
    ],
)
def test_an_expression_sees_the_request(make_request: Any, expression: str) -> None:
    """Under the names that its documentation has."""
    raw = {
        "temperature": b"0.5",
        "user": b'"u-1"',
        "metadata": b'{"run":"7"}',
        "tools": b'[{"type":"function","function":{"name":"shell"}}]',
    }
    guard = Cel(expression=expression, action="block", headers=("x-team", "x-none"))
    assert Action.BLOCK is guard.look(_seen(make_request, "hello", "world", raw=raw)).action


def test_an_expression_sees_the_answer(make_request: Any) -> None:
    """Once there is one."""
    answer = Answer(choices=(Choice(text="yes", finish_reason="stop"),), usage=Usage(prompt_tokens=3, output_tokens=5))
    expression = 'stage == "after" && answer == "yes" && finish_reason == "stop" && prompt_tokens + output_tokens == 8'
    seen = _seen(make_request, "yes", stage=Stage.AFTER, answer=answer)
    assert Action.BLOCK is Cel(expression=expression, action="block").look(seen).action


def test_where_it_is_false_everything_passes(make_request: Any) -> None:
    """Whatever the action would be."""
    assert Action.ALLOW is Cel(expression="size(text) > 100", action="block").look(_seen(make_request)).action


def test_it_redacts_what_its_patterns_match(make_request: Any) -> None:
    """Where the expression is true."""
    guard = Cel(expression='tenant == "acme"', action="redact", patterns=("l+",), replacement="L")
    assert ("heLo",) == guard.look(_seen(make_request)).texts


@pytest.mark.parametrize(
    ("expression", "value"), [("size(text)", "5"), ('"high"', "high"), ("true", None), ('""', "-")]
)
def test_it_annotates_with_what_it_gives(make_request: Any, expression: str, value: str | None) -> None:
    """Text or a number is the value; true alone says that it was so, and empty text says nothing."""
    said = Cel(expression=expression, action="annotate").look(_seen(make_request))
    expected = () if value in {None, "-"} else (("value", value),)
    assert (Action.ALLOW if value == "-" else Action.ANNOTATE, expected) == (said.action, said.annotations)


@pytest.mark.parametrize("expression", ["metadata.no.where", "text", "1", "texts[7]", "[1]"])
def test_what_cannot_be_evaluated_or_is_no_yes_or_no_is_no_verdict(make_request: Any, expression: str) -> None:
    """And quotes nothing."""
    with pytest.raises(CannotSay) as caught:
        Cel(expression=expression, action="block").look(_seen(make_request))
    assert "hello" not in str(caught.value)


@pytest.mark.parametrize(
    ("given", "fault"),
    [
        ({"expression": "text ==", "action": "block"}, "is no CEL"),
        ({"expression": "prompt == ''", "action": "block"}, "names `prompt`, and there are answer, finish_reason"),
        ({"expression": "x" * 2001, "action": "block"}, "at most 2000 characters"),
        ({"expression": "true", "action": "redact"}, "`patterns` are what `action: redact` replaces"),
        ({"expression": "true", "action": "block", "patterns": ["a"]}, "`patterns` are what `action: redact` replaces"),
        ({"expression": "true", "action": "block", "headers": ["authorization"]}, "none of credentials"),
        ({"expression": "true", "action": "block", "headers": ["X-Team"]}, "in lower case"),
        (
            {"expression": "texts.all(t, texts.exists(u, u == t))", "action": "block"},
            "inside another, which could take for ever",
        ),
        ({"expression": "true", "action": "explode"}, "action"),
    ],
)
def test_what_is_wrong_is_said_where_it_stands(given: dict, fault: str) -> None:
    """When the policy file is read."""
    with pytest.raises(ConfigurationError, match="here") as caught:
        plugins.build("guard", {"use": "cel", **given}, where="here")
    assert fault in str(caught.value)


def test_a_macro_in_a_text_is_no_macro() -> None:
    """Nor are two beside each other nested."""
    Cel(expression='texts.all(t, t != ".all(x, y)") && texts.exists(t, t == "b")', action="block")
