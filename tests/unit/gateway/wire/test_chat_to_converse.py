import json
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import botocore.session
import pytest
from botocore.validate import ParamValidator
from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.errors import InvalidRequest, UpstreamRefused
from gateway.types import ChatRequest
from gateway.wire.chat_to_converse import ConverseTerms, converse_body
from gateway.wire.format import BodyLimits
from gateway.wire.openai_chat import read_chat

USER = {"role": "user", "content": "hi"}
CALL = {"id": "c1", "type": "function", "function": {"name": "look", "arguments": '{"at":1}'}}
USED = {"toolUse": {"toolUseId": "c1", "name": "look", "input": {"at": 1}}}
LOOK = {"type": "function", "function": {"name": "look", "description": "Looks.", "parameters": {"type": "object"}}}
SPEC = {"toolSpec": {"name": "look", "description": "Looks.", "inputSchema": {"json": {"type": "object"}}}}
MARK = {"type": "ephemeral"}
POINT = {"cachePoint": {"type": "default"}}
Write = Callable[..., dict[str, Any]]


@pytest.fixture(scope="session")
def write(make_request: Callable[..., ChatRequest]) -> Write:
    """The body that Converse gets for a chat's fields, which AWS's own description of its API must accept."""
    arrival = make_request().arrival
    shape = botocore.session.Session().get_service_model("bedrock-runtime").operation_model("Converse").input_shape
    validator = ParamValidator()

    def writes(terms: ConverseTerms | None = None, **fields: Any) -> dict[str, Any]:
        body = json.dumps({"model": "m", "messages": [USER], **fields}).encode()
        request = read_chat(arrival, body, BodyLimits())
        written: dict[str, Any] = json.loads(converse_body(request, terms or ConverseTerms()))
        report = validator.validate({"modelId": "m", **written}, shape)
        assert not report.has_errors(), report.generate_report()
        return written

    return writes


def test_turns_become_messages(write: Write) -> None:
    """Instructions stand apart; turns of one role are one; results say whether the tool failed."""
    turns = [
        {"role": "system", "content": "Be brief."},
        USER,
        {"role": "assistant", "content": None, "tool_calls": [CALL]},
        {"role": "tool", "tool_call_id": "c1", "content": "the sea"},
        {"role": "user", "content": "go on"},
        {"role": "developer", "content": "In verse."},
    ]
    assert {
        "system": [{"text": "Be brief."}, {"text": "In verse."}],
        "messages": [
            {"role": "user", "content": [{"text": "hi"}]},
            {"role": "assistant", "content": [USED]},
            {
                "role": "user",
                "content": [{"toolResult": {"toolUseId": "c1", "content": [{"text": "the sea"}]}}, {"text": "go on"}],
            },
        ],
    } == write(messages=turns)


def test_a_tool_that_failed_says_so(write: Write) -> None:
    """As a client of Anthropic's has said it."""
    turns = [
        {"role": "assistant", "tool_calls": [CALL]},
        {"role": "tool", "tool_call_id": "c1", "content": "[tool error] no light"},
    ]
    (result,) = write(messages=turns)["messages"][1]["content"]
    assert {"toolUseId": "c1", "status": "error", "content": [{"text": "no light"}]} == result["toolResult"]


def test_signed_thoughts_go_back_to_their_maker(write: Write) -> None:
    """At the head of their turn, sealed ones too; others stay behind."""
    thoughts = [
        {"type": "thinking", "thinking": "hm", "signature": "sig"},
        {"type": "redacted_thinking", "data": "QUJD"},
        {"type": "thinking", "thinking": "unsigned"},
    ]
    turns = [USER, {"role": "assistant", "content": "Hey.", "thinking_blocks": thoughts}, USER]
    assert [
        {"reasoningContent": {"reasoningText": {"text": "hm", "signature": "sig"}}},
        {"reasoningContent": {"redactedContent": "QUJD"}},
        {"text": "Hey."},
    ] == write(messages=turns)["messages"][1]["content"]


@pytest.mark.parametrize(
    ("part", "block"),
    [
        (
            {"type": "image_url", "image_url": {"url": "data:image/jpg;base64,QUJD"}},
            {"image": {"format": "jpeg", "source": {"bytes": "QUJD"}}},
        ),
        (
            {"type": "image_url", "image_url": {"url": "s3://pool/cat.png"}},
            {"image": {"format": "png", "source": {"s3Location": {"uri": "s3://pool/cat.png"}}}},
        ),
        (
            {"type": "file", "file": {"filename": "a_b. c.pdf", "file_data": "data:application/pdf;base64,QUJD"}},
            {"document": {"format": "pdf", "name": "a b c", "source": {"bytes": "QUJD"}}},
        ),
        (
            {"type": "file", "file": {"filename": "x.csv", "file_data": "data:application/any;base64,QUJD"}},
            {"document": {"format": "csv", "name": "x", "source": {"bytes": "QUJD"}}},
        ),
        (
            {"type": "input_audio", "input_audio": {"data": "QUJD", "format": "wav"}},
            {"audio": {"format": "wav", "source": {"bytes": "QUJD"}}},
        ),
    ],
)
def test_pictures_documents_and_audio(write: Write, part: dict[str, Any], block: dict[str, Any]) -> None:
    """As bytes, or where they lie in S3."""
    assert [block] == write(messages=[{"role": "user", "content": [part]}])["messages"][0]["content"]


def test_two_documents_have_two_names(write: Write) -> None:
    """Converse takes none twice."""
    part = {"type": "file", "file": {"file_data": "data:text/plain;base64,QUJD"}}
    blocks = write(messages=[{"role": "user", "content": [part, part]}])["messages"][0]["content"]
    assert ["document", "document (2)"] == [block["document"]["name"] for block in blocks]


def test_sampling_and_stop_strings(write: Write) -> None:
    """The string that ended the answer is asked for."""
    body = write(temperature=0.5, top_p=0.25, top_k=40, max_completion_tokens=7, stop="END", service_tier="flex")
    config = {"temperature": 0.5, "topP": 0.25, "maxTokens": 7, "stopSequences": ["END"]}
    assert config == body["inferenceConfig"]
    assert ({"top_k": 40}, ["/stop_sequence"], {"type": "flex"}) == (
        body["additionalModelRequestFields"],
        body["additionalModelResponseFieldPaths"],
        body["serviceTier"],
    )


@pytest.mark.parametrize(
    ("choice", "told"),
    [
        ("auto", {"toolChoice": {"auto": {}}}),
        ("required", {"toolChoice": {"any": {}}}),
        ({"type": "function", "function": {"name": "look"}}, {"toolChoice": {"tool": {"name": "look"}}}),
        (None, {}),
    ],
)
def test_tools_and_their_choice(write: Write, choice: Any, told: dict[str, Any]) -> None:
    """With the client's own schema."""
    assert {"tools": [SPEC], **told} == write(tools=[LOOK], tool_choice=choice)["toolConfig"]


def test_who_may_call_nothing_has_no_tools(write: Write) -> None:
    """Converse has no such choice; where earlier calls want their tools to be there, it cannot be said at all."""
    assert "toolConfig" not in write(tools=[LOOK], tool_choice="none")
    with pytest.raises(UpstreamRefused) as caught:
        write(tools=[LOOK], tool_choice="none", messages=[USER, {"role": "assistant", "tool_calls": [CALL]}])
    assert "tool_choice" == caught.value.param


def test_an_answers_shape_is_a_schema(write: Write) -> None:
    """As text, as Converse wants it."""
    shape = {"type": "json_schema", "json_schema": {"name": "n", "schema": {"type": "object"}, "strict": True}}
    text_format = write(response_format=shape)["outputConfig"]["textFormat"]
    assert {"schema": '{"type":"object"}', "name": "n"} == text_format["structure"]["jsonSchema"]


def test_efforts_are_budgets_or_words(write: Write) -> None:
    """A budget leaves room for the answer; Anthropic's own words go on as they are."""
    budget = write(reasoning_effort="low")
    assert {"type": "enabled", "budget_tokens": 2048} == budget["additionalModelRequestFields"]["thinking"]
    assert 2048 + 4096 == budget["inferenceConfig"]["maxTokens"]
    assert (
        976
        < write(reasoning_effort="high", max_tokens=3000)["additionalModelRequestFields"]["thinking"]["budget_tokens"]
    )
    own = {"type": "enabled", "budget_tokens": 1500}
    assert own == write(thinking=own, max_tokens=3000)["additionalModelRequestFields"]["thinking"]
    words = write(ConverseTerms(thinking="effort"), reasoning_effort="minimal")
    assert {"effort": "low"} == words["outputConfig"]
    assert {"messages"} == write(reasoning_effort="none").keys()


def test_marks_of_the_prompt_cache_are_points(write: Write) -> None:
    """Behind what they mark, with their life; no more than four; none where the models refuse them."""
    marked = {"type": "text", "text": "long", "cache_control": {**MARK, "ttl": "1h"}}
    turns = [{"role": "system", "content": [marked]}, {"role": "user", "content": [marked, marked, marked, marked]}]
    tool = {**LOOK, "cache_control": MARK}
    body = write(messages=turns, tools=[tool])
    assert [SPEC, POINT] == body["toolConfig"]["tools"]
    assert 4 == json.dumps(body).count("cachePoint")
    assert {"cachePoint": {"type": "default", "ttl": "1h"}} == body["messages"][0]["content"][-1]
    assert "cachePoint" not in json.dumps(write(ConverseTerms(cache_marks=False), messages=turns, tools=[tool]))


def test_ids_of_other_makers_fit(write: Write) -> None:
    """What has to change stays unlike any other, and a result finds its call."""
    calls = [{**CALL, "id": name * 80} for name in ("a", "b|")]
    turns = [
        {"role": "assistant", "tool_calls": calls},
        *({"role": "tool", "tool_call_id": call["id"], "content": "x"} for call in calls),
    ]
    called, answered = write(messages=turns)["messages"]
    ids = [block["toolUse"]["toolUseId"] for block in called["content"]]
    assert ids == [block["toolResult"]["toolUseId"] for block in answered["content"]]
    assert 2 == len(set(ids))
    assert all(len(it) <= 64 and "|" not in it for it in ids)


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"seed": 7}, "seed"),
        ({"n": 2}, "n"),
        ({"logprobs": True}, "logprobs"),
        ({"parallel_tool_calls": False}, "parallel_tool_calls"),
        ({"response_format": {"type": "json_object"}}, "response_format"),
        ({"reasoning_effort": "low", "max_tokens": 9}, "reasoning_effort"),
        ({"tools": [{"type": "custom", "custom": {"name": "x"}}]}, "tools[0]"),
        ({"messages": [{"role": "wizard", "content": "x"}]}, "messages[0].role"),
        ({"messages": [{"role": "tool", "content": "x"}]}, "messages[0]"),
        (
            {
                "messages": [
                    {"role": "user", "content": [{"type": "image_url", "image_url": {"url": "https://a/b.png"}}]}
                ]
            },
            "messages[0].content[0]",
        ),
        ({"of_tomorrow": 1}, "of_tomorrow"),
    ],
)
def test_what_has_no_place_there_is_refused_by_name(write: Write, fields: dict[str, Any], param: str) -> None:
    """Nothing is dropped in silence."""
    with pytest.raises(UpstreamRefused) as caught:
        write(**fields)
    assert param == caught.value.param


ODD = st.sampled_from([None, True, 0, "x", "", [], [1], [{}], {}, {"a": 1}, {"name": 1}, {"type": "x"}, MARK])
PART = st.builds(
    lambda kind, it: {**it, "type": kind},
    st.sampled_from(["text", "image_url", "file", "input_audio", "odd"]),
    st.fixed_dictionaries({}, optional=dict.fromkeys(["text", "image_url", "file", "cache_control"], ODD)),
)
TURN = st.fixed_dictionaries(
    {
        "role": st.sampled_from(["system", "user", "assistant", "tool", "function"]),
        "content": st.text(st.characters(exclude_categories=["Cs"]), max_size=8) | st.lists(PART, max_size=2),
    },
    optional={
        "tool_calls": st.lists(st.just(CALL), max_size=2),
        "tool_call_id": st.sampled_from(["c1", "c 2"]),
        "name": st.sampled_from(["look", "x"]),
        **dict.fromkeys(["thinking_blocks", "cache_control", "refusal", "function_call", "audio"], ODD),
    },
)


@settings(max_examples=200)
@given(turns=st.lists(TURN, min_size=1, max_size=5), tools=st.lists(st.just(LOOK), max_size=1), thinking=ODD)
def test_any_chat_is_written_or_refused_by_name(
    write: Write, turns: list[Any], tools: list[Any], thinking: Any
) -> None:
    """What is written is what AWS describes, roles alternate, and every text is still there."""
    try:
        body = write(messages=turns, tools=tools, thinking=thinking)
    except (UpstreamRefused, InvalidRequest) as error:
        refused = error
    else:
        assert all(one["role"] != other["role"] for one, other in pairwise(body["messages"]))
        written = json.dumps(body, ensure_ascii=False)
        texts = [turn["content"] for turn in turns if isinstance(turn["content"], str) and turn["role"] != "function"]
        assert all(json.dumps(text, ensure_ascii=False)[1:-1] in written for text in texts if text.strip())
        return
    assert refused.message
