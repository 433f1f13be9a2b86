"""What holds for every judge: the suite finds them by itself."""

import copy
from collections.abc import Callable
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.conversation import FunctionCall, ToolCall, Translation
from gateway.judgement import Answer, Choice, InquiringJudge, Judgement, Reply
from gateway.price import Usage
from gateway.rules import plugins
from gateway.types import ChatRequest, Operation

MARK = "qzxv"
"""A word that nothing but the words of the request and the answer holds."""

SPECS: dict[str, list[Any]] = {
    "cel": [
        {"use": "cel", "expression": "size(text) > 3"},
        {"use": "cel", "expression": "choices[1].tool_calls[0].name == text"},
        {"use": "cel", "expression": "double(output_tokens) / 10.0"},
        {"use": "cel", "expression": "choices.all(c, c.finish_reason == 'stop')"},
    ],
    "http": [{"use": "http", "url": "https://judge.example.com/v1", "send": ["answer", "request"]}],
    "json_schema": [
        "json_schema",
        {"use": "json_schema", "fenced": True, "schema": {"type": "object", "additionalProperties": False}},
    ],
    "regression": [{"use": "regression", "command": ["/bin/true"]}],
    "valid_json": ["valid_json", {"use": "valid_json", "fenced": True}],
}

JUDGES = [
    pytest.param(spec, id=f"{name}-{number}")
    for name in plugins.names("judge")
    for number, spec in enumerate(SPECS.get(name, [name]))
]

marked = st.builds(
    lambda before, after: f"{before}{MARK}{after}",
    st.sampled_from(["", "{", '{"', "[", "```json\n{", "I'm sorry, but I can't ", "null ", "[" * 5000]),
    st.sampled_from(["", "}", '": 1}', "]", "\n```", " help with that.", '": {"a": ' * 2000]) | st.text(max_size=20),
)
json_texts = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.text(max_size=4) | st.just(MARK),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3) | st.just(MARK), inner, max_size=3),
    max_leaves=6,
).map(lambda value: msgspec.json.encode(value).decode())
texts = marked | json_texts | st.text(max_size=30)
words = st.text(max_size=10) | st.just(MARK)
calls = st.builds(
    ToolCall,
    id=words,
    function=st.none() | st.builds(FunctionCall, name=st.sampled_from(["weather", "", MARK]), arguments=texts),
)
choices = st.builds(
    Choice,
    text=texts,
    refusal=st.just("") | marked,
    tool_calls=st.lists(calls, max_size=2).map(tuple),
    finish_reason=st.sampled_from(["stop", "length", "tool_calls", "content_filter", "", MARK]),
)
answers = st.builds(
    Answer,
    choices=st.lists(choices, max_size=3).map(tuple),
    usage=st.none() | st.builds(Usage, output_tokens=st.integers(0, 10**9)),
    model=words,
)
schemas = st.sampled_from(
    [
        {"type": "object", "required": [MARK], "properties": {MARK: {"type": "integer"}}},
        {"pattern": "^(a+)+$"},
        {"pattern": f"(?={MARK})"},
        {"$ref": f"https://example.com/{MARK}.json"},
        {"$ref": "#"},
        {"type": MARK},
        {"enum": [MARK]},
        {},
        True,
        None,
        7,
        [MARK],
    ]
)
tools = st.lists(
    st.builds(
        lambda name, schema: {"type": "function", "function": {"name": name, "parameters": schema}},
        st.sampled_from(["weather", MARK]),
        schemas,
    )
    | st.sampled_from([{"type": "custom"}, None, {"function": {"name": 7}}]),
    max_size=2,
)
tool_choices = st.sampled_from(["auto", "required", {"type": "function", "function": {"name": "weather"}}, 7, {}])
formats = st.builds(
    lambda schema: {"type": "json_schema", "json_schema": {"name": MARK, "schema": schema}}, schemas
) | st.sampled_from([{"type": "json_object"}, {"type": "text"}, {"type": "json_schema"}, MARK, None])
raws = st.fixed_dictionaries(
    {}, optional={"response_format": formats, "tools": tools, "tool_choice": tool_choices, "functions": tools}
).map(lambda fields: {name: msgspec.Raw(msgspec.json.encode(value)) for name, value in fields.items()})


@pytest.fixture(scope="module")
def request_with(make_request: Callable[..., ChatRequest]) -> Callable[..., ChatRequest]:
    """A chat that asks with these fields, of a client of OpenAI's format or of another one."""

    def make(raw: Any, *, translated: bool) -> ChatRequest:
        fields = {"raw": raw} if not translated else {"translation": lambda: Translation(fields=raw)}
        return make_request(f"Tell me about {MARK}.", operation=Operation.CHAT, **fields)

    return make


@pytest.mark.parametrize("spec", JUDGES)
@given(answer=answers, raw=raws, translated=st.booleans())
def test_a_judge_is_pure_never_raises_and_quotes_nothing(
    spec: Any, request_with: Callable[..., ChatRequest], answer: Answer, raw: Any, translated: bool
) -> None:
    """The same request and answer, the same judgement; a reason in words of its own; a score of 0 to 1."""
    judge = plugins.build("judge", spec, where="here")
    request = request_with(raw, translated=translated)
    before = copy.deepcopy(answer)
    said = judge.judge(request, answer)
    assert said == plugins.build("judge", spec, where="here").judge(request, answer)
    assert before == answer
    if isinstance(said, Judgement):
        _is_a_judgement(said)
    else:
        assert isinstance(judge, InquiringJudge)


def _is_a_judgement(said: Judgement) -> None:
    assert said.success in {True, False, None}
    assert said.score is None or 0 <= said.score <= 1
    assert said.success is True or said.reason
    assert MARK not in said.reason
    assert len(said.reason) <= 200


ASKING = [spec for spec in JUDGES if isinstance(plugins.build("judge", spec.values[0], where="here"), InquiringJudge)]
replies = st.binary(max_size=40) | st.builds(
    msgspec.json.encode,
    st.fixed_dictionaries(
        {},
        optional={
            "success": st.sampled_from([True, False, None, 1, "yes"]),
            "score": st.sampled_from([0, 0.5, 1, 1.5, -1, True, "high", None]),
            "reason": st.sampled_from(["too_short", f"It says {MARK}", "", 7, "x" * 500]),
        },
    ),
)


@pytest.mark.parametrize("spec", ASKING)
@given(body=replies, code=st.sampled_from([0, 1, 2, -9, 200, 204, 301, 404, 500]))
def test_a_reply_of_any_kind_is_a_judgement_and_quotes_nothing(spec: Any, body: bytes, code: int) -> None:
    """Whatever a service or a program says."""
    judge = plugins.build("judge", spec, where="here")
    said = judge.conclude(Reply(code=code, body=body))
    assert said == judge.conclude(Reply(code=code, body=body))
    assert said.success in {True, False, None}
    assert said.score is None or 0 <= said.score <= 1
    assert MARK not in said.reason


@pytest.mark.parametrize("spec", JUDGES)
def test_an_answer_of_no_choice_is_nobodys_success(spec: Any, request_with: Callable[..., ChatRequest]) -> None:
    """There is nothing to judge."""
    said = plugins.build("judge", spec, where="here").judge(request_with({}, translated=False), Answer(choices=()))
    assert not (isinstance(said, Judgement) and said.success)
