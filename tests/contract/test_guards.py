"""What holds for every guard: the suite finds them by itself."""

import copy
from collections.abc import Callable
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.conversation import FunctionCall, ToolCall
from gateway.guard import CannotSay, InquiringGuard, Seen, Text, Verdict, WindowGuard
from gateway.guard_mark import WORD, Action, Stage
from gateway.judgement import Answer, Choice, HttpInquiry, Reply
from gateway.price import Usage
from gateway.rules import plugins
from gateway.types import ChatRequest

MARK = "xyzzy-mark"
URL = "https://guard.example.com/check"

SPECS: dict[str, list[dict[str, Any]]] = {
    "pattern": [
        {"use": "pattern", "patterns": [MARK, "a+"], "action": action} for action in ("block", "redact", "annotate")
    ],
    "cel": [
        {"use": "cel", "expression": f'text.contains("{MARK}")', "action": "block"},
        {"use": "cel", "expression": "size(texts) > 1", "action": "redact", "patterns": [MARK]},
        {"use": "cel", "expression": "text", "action": "annotate"},
        {"use": "cel", "expression": 'texts[3] == "" && metadata.no.where > 1', "action": "block"},
    ],
    "http": [{"use": "http", "url": URL}],
    "litellm": [{"use": "litellm", "url": URL}],
    "openai_moderation": [
        {"use": "openai_moderation", "action": "block"},
        {"use": "openai_moderation", "action": "annotate", "thresholds": {"violence": 0.5}},
    ],
}
GUARDS = [
    pytest.param(spec, id=f"{name}-{number}")
    for name in plugins.names("guard")
    for number, spec in enumerate(SPECS[name])
]

words = st.text(max_size=12) | st.just(MARK) | st.builds(lambda text: f"{text}{MARK}", st.text(max_size=8))
texts = st.lists(
    st.builds(
        Text,
        text=words,
        kind=st.sampled_from(["text", "refusal", "reasoning", "arguments"]),
        role=st.sampled_from(["user", "system", "assistant", "tool", ""]),
    ),
    max_size=4,
)
calls = st.builds(ToolCall, function=st.none() | st.builds(FunctionCall, name=words, arguments=words))
choices = st.builds(Choice, text=words, tool_calls=st.lists(calls, max_size=2).map(tuple), finish_reason=words)
answers = st.none() | st.builds(
    Answer, choices=st.lists(choices, max_size=2).map(tuple), usage=st.none() | st.just(Usage(output_tokens=3))
)
raws = st.sampled_from(
    [
        {},
        {"tools": [{"type": "function", "function": {"name": MARK}}, {"name": "shell"}, None]},
        {"tools": 7, "metadata": [MARK], "temperature": 0.5, "user": MARK},
        {"metadata": {"no": MARK}},
    ]
).map(lambda fields: {name: msgspec.Raw(msgspec.json.encode(value)) for name, value in fields.items()})


@pytest.fixture(scope="module")
def see(make_request: Callable[..., ChatRequest]) -> Callable[..., Seen]:
    """What a guard sees of these texts."""

    def make(shown: list[Text], answer: Answer | None, raw: Any, stage: Stage) -> Seen:
        return Seen(stage=stage, request=make_request("hello", raw=raw), texts=shown, answer=lambda: answer)

    return make


@pytest.mark.parametrize("spec", GUARDS)
@given(shown=texts, answer=answers, raw=raws, stage=st.sampled_from(Stage))
def test_a_guard_is_pure_and_says_what_can_be_carried_out(
    spec: Any, see: Callable[..., Seen], shown: list[Text], answer: Answer | None, raw: Any, stage: Stage
) -> None:
    """The same texts, the same verdict, or none, in words that quote nobody."""
    guard = plugins.build("guard", spec, where="here")
    if stage not in guard.stages:
        return
    before = copy.deepcopy(shown)
    said = _said(guard.look, see(shown, answer, raw, stage))
    assert said == _said(plugins.build("guard", spec, where="here").look, see(shown, answer, raw, stage))
    assert before == shown
    if isinstance(said, HttpInquiry):
        assert isinstance(guard, InquiringGuard)
        assert msgspec.json.decode(said.body) is not None
    elif isinstance(said, Verdict):
        _can_be_carried_out(guard, said, shown)


def _said(look: Callable[..., Any], *arguments: Any) -> Any:
    """A verdict, an inquiry, or the words of who has none."""
    try:
        return look(*arguments)
    except CannotSay as error:
        said = str(error)
    assert MARK not in said
    return said


def _can_be_carried_out(guard: Any, said: Verdict, shown: list[Text]) -> None:
    assert said.action is Action.ALLOW or said.action in guard.actions
    assert (len(shown) if said.action is Action.REDACT else 0) == len(said.texts)


ASKING = [spec for spec in GUARDS if isinstance(plugins.build("guard", spec.values[0], where="here"), InquiringGuard)]
actions = st.sampled_from(["allow", "block", "redact", "annotate", "NONE", "BLOCKED", "GUARDRAIL_INTERVENED", 7, None])
results = st.lists(
    st.sampled_from(
        [
            {"flagged": True, "categories": {"violence": True}, "category_scores": {"violence": 0.9}},
            {"flagged": False, "categories": {}, "category_scores": {"violence": 0.1}},
            {"flagged": True},
            {"flagged": "yes"},
            None,
        ]
    ),
    max_size=3,
)
replies = st.binary(max_size=40) | st.builds(
    msgspec.json.encode,
    st.fixed_dictionaries(
        {},
        optional={
            "action": actions,
            "texts": st.lists(st.none() | words | st.just(7), max_size=4) | st.just(MARK),
            "annotations": st.dictionaries(words, words | st.just(3), max_size=2) | st.just([MARK]),
            "reason": words | st.just(7),
            "blocked_reason": words,
            "results": results,
        },
    ),
)


@pytest.mark.parametrize("spec", ASKING)
@given(shown=texts, body=replies, code=st.sampled_from([200, 200, 200, 204, 301, 404, 500]))
def test_a_reply_of_any_kind_is_a_verdict_or_none(
    spec: Any, see: Callable[..., Seen], shown: list[Text], body: bytes, code: int
) -> None:
    """Whatever a service says."""
    guard = plugins.build("guard", spec, where="here")
    seen = see(shown, None, {}, Stage.BEFORE)
    said = _said(guard.conclude, seen, Reply(code=code, body=body))
    assert said == _said(guard.conclude, seen, Reply(code=code, body=body))
    if isinstance(said, Verdict):
        assert 200 == code
        assert said.action is Action.ALLOW or said.action in (*guard.actions, Action.REDACT)


@pytest.mark.parametrize("spec", GUARDS)
def test_what_it_may_say_is_known_beforehand(spec: Any) -> None:
    """To ``check`` and ``explain``; `allow` is not among it."""
    guard = plugins.build("guard", spec, where="here")
    assert set(guard.actions) <= {Action.BLOCK, Action.REDACT, Action.ANNOTATE}
    assert guard.actions
    assert guard.stages


WINDOWS = [spec for spec in GUARDS if isinstance(plugins.build("guard", spec.values[0], where="here"), WindowGuard)]


@pytest.mark.parametrize("spec", WINDOWS)
@given(text=words, data=st.data())
def test_spans_come_from_the_left_and_none_is_in_another(spec: Any, text: str, data: st.DataObject) -> None:
    """They are in the text, after where they were looked for, and hold something."""
    guard = plugins.build("guard", spec, where="here")
    begin = data.draw(st.integers(0, len(text)))
    at = begin
    for span in guard.spans(text, begin):
        assert at <= span.begin < span.end <= len(text)
        at = span.end


@given(word=words)
def test_a_word_cannot_hold_a_sentence(word: str) -> None:
    """What goes on ledgers, headers and spans has no blank and an end."""
    if WORD.match(word):
        assert " " not in word
        assert "\n" not in word
        assert 64 >= len(word)
