import json
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.errors import UpstreamRefused
from gateway.types import ChatRequest
from gateway.wire.chat_to_gemini import gemini_body
from gateway.wire.format import BodyLimits
from gateway.wire.openai_chat import read_chat

USER = {"role": "user", "content": "hi"}
CALL = {"id": "c1", "type": "function", "function": {"name": "look", "arguments": '{"at":1}'}}
Write = Callable[..., dict[str, Any]]


@pytest.fixture(scope="session")
def write(make_request: Callable[..., ChatRequest]) -> Write:
    """The body that Gemini gets for a chat's fields."""
    arrival = make_request().arrival

    def writes(thinking: Any = "budget", **fields: Any) -> dict[str, Any]:
        body = json.dumps({"model": "m", "messages": [USER], **fields}).encode()
        written: dict[str, Any] = json.loads(gemini_body(read_chat(arrival, body, BodyLimits()), thinking))
        return written

    return writes


def test_turns_become_contents(write: Write) -> None:
    """Instructions stand apart, results have their function's name, and turns of one role are one."""
    turns = [
        {"role": "system", "content": "Be brief."},
        USER,
        {"role": "assistant", "content": None, "tool_calls": [CALL, {**CALL, "id": "c2"}]},
        {"role": "tool", "tool_call_id": "c1", "content": '{"seen": "sea"}'},
        {"role": "tool", "tool_call_id": "c2", "content": "nothing"},
        {"role": "user", "content": "go on"},
    ]
    body = write(messages=turns)
    calls = [{"functionCall": {"id": name, "name": "look", "args": {"at": 1}}} for name in ("c1", "c2")]
    calls[0]["thoughtSignature"] = "skip_thought_signature_validator"  # type: ignore[assignment]  # beside the call
    answers = [("c1", {"seen": "sea"}), ("c2", {"result": "nothing"})]
    results = [{"functionResponse": {"id": name, "name": "look", "response": said}} for name, said in answers]
    assert {
        "systemInstruction": {"parts": [{"text": "Be brief."}]},
        "contents": [
            {"role": "user", "parts": [{"text": "hi"}]},
            {"role": "model", "parts": calls},
            {"role": "user", "parts": [*results, {"text": "go on"}]},
        ],
    } == body


def test_a_signed_thought_goes_back_on_the_first_call(write: Write) -> None:
    """And on the last words, where nothing was called."""
    block = {"type": "thinking", "thinking": "hm", "signature": "sig"}
    called = write(messages=[USER, {"role": "assistant", "tool_calls": [CALL], "thinking_blocks": [block]}])
    said = write(messages=[USER, {"role": "assistant", "content": "Sea.", "thinking_blocks": [block]}])
    assert ["sig", "sig"] == [body["contents"][1]["parts"][0]["thoughtSignature"] for body in (called, said)]


def test_pictures_files_and_sounds_are_data(write: Write) -> None:
    """By their bytes or by their address."""
    parts = [
        {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}},
        {"type": "image_url", "image_url": {"url": "https://example.com/cat.jpg"}},
        {"type": "file", "file": {"file_data": "data:application/pdf;base64,BBBB", "filename": "a.pdf"}},
        {"type": "input_audio", "input_audio": {"data": "CCCC", "format": "wav"}},
    ]
    assert [
        {"inlineData": {"mimeType": "image/png", "data": "AAAA"}},
        {"fileData": {"fileUri": "https://example.com/cat.jpg", "mimeType": "image/jpeg"}},
        {"inlineData": {"mimeType": "application/pdf", "data": "BBBB"}},
        {"inlineData": {"mimeType": "audio/wav", "data": "CCCC"}},
    ] == write(messages=[{"role": "user", "content": parts}])["contents"][0]["parts"]


def test_settings_go_on_under_geminis_names(write: Write) -> None:
    """What both know is carried; what is for a provider's books is not."""
    schema = {"type": "object", "properties": {"n": {"type": "integer"}}}
    body = write(
        temperature=0.5,
        top_p=0.9,
        top_k=40,
        n=2,
        seed=7,
        stop="END",
        max_completion_tokens=9,
        presence_penalty=0.1,
        frequency_penalty=0.2,
        response_format={"type": "json_schema", "json_schema": {"name": "x", "schema": schema}},
        reasoning_effort="low",
        user="u",
        stream=True,
        stream_options={"include_usage": True},
    )
    assert {
        "temperature": 0.5,
        "topP": 0.9,
        "topK": 40,
        "candidateCount": 2,
        "seed": 7,
        "stopSequences": ["END"],
        "maxOutputTokens": 9,
        "presencePenalty": 0.1,
        "frequencyPenalty": 0.2,
        "responseMimeType": "application/json",
        "responseJsonSchema": schema,
        "thinkingConfig": {"thinkingBudget": 2048, "includeThoughts": True},
    } == body["generationConfig"]
    assert {"contents", "generationConfig"} == body.keys()


@pytest.mark.parametrize(
    ("thinking", "effort", "config"),
    [
        ("budget", "none", {"thinkingBudget": 0, "includeThoughts": False}),
        ("budget", "high", {"thinkingBudget": 24576, "includeThoughts": True}),
        ("level", "minimal", {"thinkingLevel": "minimal", "includeThoughts": True}),
    ],
)
def test_an_effort_is_a_budget_or_a_level(write: Write, thinking: str, effort: str, config: dict[str, Any]) -> None:
    """As the model's generation takes it."""
    assert config == write(thinking, reasoning_effort=effort)["generationConfig"]["thinkingConfig"]


@pytest.mark.parametrize(
    ("choice", "calling"),
    [
        ("auto", {"mode": "AUTO"}),
        ("none", {"mode": "NONE"}),
        ("required", {"mode": "ANY"}),
        ({"type": "function", "function": {"name": "look"}}, {"mode": "ANY", "allowedFunctionNames": ["look"]}),
    ],
)
def test_tools_are_declared_and_chosen(write: Write, choice: Any, calling: dict[str, Any]) -> None:
    """With the client's own schema."""
    function = {"name": "look", "description": "Looks.", "parameters": {"type": "object"}}
    body = write(tools=[{"type": "function", "function": function}], tool_choice=choice)
    declared = {"name": "look", "description": "Looks.", "parametersJsonSchema": {"type": "object"}}
    assert [{"functionDeclarations": [declared]}] == body["tools"]
    assert {"functionCallingConfig": calling} == body["toolConfig"]


@pytest.mark.parametrize(
    ("choice", "mode"), [(None, "VALIDATED"), ("auto", "VALIDATED"), ("required", "ANY"), ("none", "NONE")]
)
def test_strict_tools_are_called_by_their_schemas(write: Write, choice: str | None, mode: str) -> None:
    """In the mode that promises it, where there is a choice at all."""
    tool = {"type": "function", "function": {"name": "look", "parameters": {"type": "object"}, "strict": True}}
    body = write(tools=[tool], **({} if choice is None else {"tool_choice": choice}))
    assert mode == body["toolConfig"]["functionCallingConfig"]["mode"]


def test_who_speaks_stands_before_what_they_say(write: Write) -> None:
    """There is no field for it."""
    body = write(messages=[{"role": "user", "name": "Ann", "content": "hi"}])
    assert [{"text": "Ann: hi"}] == body["contents"][0]["parts"]


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"logprobs": True}, "logprobs"),
        ({"logit_bias": {"1": 2}}, "logit_bias"),
        ({"parallel_tool_calls": False}, "parallel_tool_calls"),
        ({"tools": [{"type": "custom", "custom": {"name": "x"}}]}, "tools[0]"),
        ({"reasoning_effort": "xhigh"}, "reasoning_effort"),
        ({"messages": [{"role": "wizard", "content": "x"}]}, "messages[0].role"),
        ({"messages": [{"role": "tool", "tool_call_id": "never", "content": "x"}]}, "messages[0].tool_call_id"),
        (
            {"messages": [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "cat"}}]}]},
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


_TURN = st.fixed_dictionaries(
    {"role": st.sampled_from(["system", "user", "assistant", "tool"]), "content": st.text(max_size=8)},
    optional={
        "tool_calls": st.lists(st.just(CALL), max_size=2),
        "tool_call_id": st.sampled_from(["c1", "c2"]),
        "name": st.sampled_from(["look", "x"]),
    },
)


@given(turns=st.lists(_TURN, min_size=1, max_size=6))
def test_any_chat_is_written_or_refused_by_name(write: Write, turns: list[dict[str, Any]]) -> None:
    """Roles alternate, and every text is still there."""
    try:
        body = write(messages=turns)
    except UpstreamRefused as error:
        refused = error
    else:
        assert all(one["role"] != other["role"] for one, other in pairwise(body["contents"]))
        written = json.dumps(body, ensure_ascii=False)
        said = [json.dumps(turn["content"], ensure_ascii=False) for turn in turns if turn["role"] != "tool"]
        assert all(text[1:-1] in written for text in said)
        return
    assert (refused.param or "").startswith("messages[")
