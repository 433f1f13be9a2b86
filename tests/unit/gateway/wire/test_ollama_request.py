"""Ollama's bodies as hub requests, and in the shape of OpenAI's."""

import json
from typing import Any

import pytest

from gateway.conversation import Sampling
from gateway.errors import InvalidRequest, UpstreamRefused
from gateway.types import ChatRequest, Operation
from gateway.wire.hub import as_chat, chat_request
from tests.unit.gateway.wire.ollama_calls import call_of, request_of

CHAT, GENERATE, EMBED = Operation.OLLAMA_CHAT, Operation.OLLAMA_GENERATE, Operation.OLLAMA_EMBED
PNG = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
TOOL = {"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}}
CALL = {"function": {"name": "f", "arguments": {"a": 1}}}


def translated(operation: Operation, **fields: Any) -> dict[str, Any]:
    """The body as one of OpenAI's."""
    call, _ = as_chat(call_of(operation, **fields), object())  # type: ignore[arg-type]  # nobody pushes into it
    return {name: json.loads(bytes(value)) for name, value in call.request.raw.items()}


def turns(*messages: dict[str, Any]) -> Any:
    """The messages of a chat as OpenAI's."""
    return translated(CHAT, messages=list(messages))["messages"]


@pytest.mark.parametrize("operation", [CHAT, GENERATE])
@pytest.mark.parametrize(("given", "streams"), [({}, True), ({"stream": None}, True), ({"stream": False}, False)])
def test_answers_are_streamed_unless_it_is_said_otherwise(
    operation: Operation, given: dict[str, Any], streams: bool
) -> None:
    """As Ollama has it."""
    assert streams is request_of(operation, **given).stream
    assert streams is translated(operation, **given)["stream"]


@pytest.mark.parametrize("operation", [CHAT, GENERATE, EMBED, Operation.OLLAMA_EMBEDDINGS])
@pytest.mark.parametrize(
    ("asked", "name"), [("m:latest", "m"), ("m:7b", "m:7b"), ("a/m:latest", "a/m"), (":latest", ":latest")]
)
def test_the_latest_of_a_model_is_the_model(operation: Operation, asked: str, name: str) -> None:
    """Its tag is what Ollama adds where there is none."""
    assert name == request_of(operation, model=asked).model


def test_options_say_how_tokens_are_drawn() -> None:
    """Under the names of a chat; whole numbers may come with a point, as scripts write them."""
    options = {
        "num_predict": 9.0,
        "temperature": 0.5,
        "top_k": 5,
        "top_p": 0.9,
        "min_p": 0.1,
        "seed": 7,
        "stop": ["x"],
        "repeat_penalty": 1.1,
        "presence_penalty": 0.5,
        "frequency_penalty": -0.5,
    }
    request = request_of(CHAT, options=options)
    assert Sampling(temperature=0.5, top_p=0.9, top_k=5, min_p=0.1, seed=7, stop=("x",)) == request.sampling
    assert (9, {"penalties"}) == (request.max_tokens, request.needs)
    told = translated(CHAT, options=options)
    wanted = {"max_tokens": 9, "repetition_penalty": 1.1, "presence_penalty": 0.5, "frequency_penalty": -0.5}
    wanted |= {"temperature": 0.5, "top_k": 5, "top_p": 0.9, "min_p": 0.1, "seed": 7, "stop": ["x"]}
    assert wanted == {name: value for name, value in told.items() if name not in {"model", "messages", "stream"}}


@pytest.mark.parametrize(
    "options",
    [
        {"num_predict": -1},
        {"num_predict": 0},
        {"seed": -1},
        {"repeat_penalty": 1},
        {
            "num_ctx": 8192,
            "num_gpu": 1,
            "num_thread": 8,
            "num_batch": 2,
            "use_mmap": True,
            "num_keep": 4,
            "numa": False,
        },
        {"typical_p": 1.0, "repeat_last_n": 64, "mirostat": 0, "tfs_z": 1, "penalize_newline": False},
        {"future": None, "stop": []},
    ],
)
def test_options_that_change_nothing_stay_behind(options: dict[str, Any]) -> None:
    """How Ollama loads a model, and what is so anyway."""
    assert {"model", "messages", "stream"} == translated(CHAT, options=options, keep_alive="5m", truncate=True).keys()


def test_what_would_be_cut_is_told() -> None:
    """The window that the client wants, and that a longer prompt may be cut: it is not."""
    translation = request_of(CHAT, options={"num_ctx": 8192}, truncate=True, shift=False).translation
    assert translation is not None
    assert ("truncate", "options.num_ctx") == translation().offers


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"options": {"mirostat": 1}}, "options.mirostat"),
        ({"options": {"typical_p": 0.5}}, "options.typical_p"),
        ({"options": {"future": 1}}, "options.future"),
        ({"future": 1}, "future"),
        ({"messages": [{"role": "user", "content": "x", "future": 1}]}, "messages[0].future"),
        ({"messages": [{"role": "control", "content": "x"}]}, "messages[0].role"),
        ({"messages": [{"role": "tool", "content": "x"}]}, "messages[0]"),
        ({"messages": [{"role": "tool", "content": "x", "tool_name": "f"}]}, "messages[0].tool_name"),
        ({"_debug_render_only": True}, "_debug_render_only"),
    ],
)
def test_what_has_no_place_in_a_chat_is_named(fields: dict[str, Any], param: str) -> None:
    """By its path in the client's body."""
    with pytest.raises(UpstreamRefused) as caught:
        translated(CHAT, **fields)
    assert param == caught.value.param


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"prompt": "hi", "template": "{{ .Prompt }}"}, "template"),
        ({"prompt": "hi", "context": [1, 2]}, "context"),
        ({"prompt": "hi", "width": 64}, "width"),
        ({"prompt": "hi", "raw": True, "images": [PNG]}, "images"),
        ({"prompt": "hi", "raw": True, "think": True}, "think"),
        ({"prompt": "hi", "suffix": "x", "format": "json"}, "format"),
        ({"prompt": "hi", "suffix": "x", "system": "s"}, "system"),
        ({"prompt": "hi", "suffix": "x", "logprobs": True}, "logprobs"),
    ],
)
def test_what_has_no_place_in_a_generation_is_named(fields: dict[str, Any], param: str) -> None:
    """Likewise."""
    with pytest.raises(UpstreamRefused) as caught:
        translated(GENERATE, **fields)
    assert param == caught.value.param


@pytest.mark.parametrize(
    ("operation", "fields", "param"),
    [
        (CHAT, {"messages": "hi"}, "messages"),
        (CHAT, {"messages": [{"content": "x"}]}, "messages[0].role"),
        (CHAT, {"messages": [{"role": "user", "content": "x"}] * 4097}, "messages"),
        (CHAT, {"messages": [{"role": "user", "images": ["!"]}]}, "messages[0].images[0]"),
        (CHAT, {"messages": [{"role": "user", "images": [f"data:image/png;base64,{PNG}"]}]}, "messages[0].images[0]"),
        (CHAT, {"options": {"temperature": "hot"}}, "options.temperature"),
        (CHAT, {"options": {"top_p": 2}}, "options.top_p"),
        (CHAT, {"options": []}, "options"),
        (CHAT, {"think": "minimal"}, "think"),
        (CHAT, {"format": 1}, "format"),
        (CHAT, {"top_logprobs": 21}, "top_logprobs"),
        (CHAT, {"tools": [{}]}, "tools[0].function"),
        (CHAT, {"api_base": "x"}, "api_base"),
        (GENERATE, {"prompt": "x", "images": [""]}, "images[0]"),
        (GENERATE, {"prompt": "x", "raw": True, "template": "t"}, "raw"),
        (EMBED, {"input": [1]}, "input[0]"),
        (EMBED, {"input": [""]}, "input[0]"),
        (EMBED, {"input": ["x"] * 2049}, "input"),
    ],
)
def test_what_is_wrong_is_named(operation: Operation, fields: dict[str, Any], param: str) -> None:
    """A client's mistake is told before anybody is asked, and nothing of it is quoted."""
    with pytest.raises(InvalidRequest) as caught:
        request_of(operation, **fields)
    assert param == (caught.value.param or "").replace("[...]", "[0]")


@pytest.mark.parametrize(
    ("fields", "needs"),
    [
        ({"tools": [TOOL]}, {"tools"}),
        ({"format": "json"}, {"json_mode"}),
        ({"format": {"type": "object"}}, {"json_schema"}),
        ({"format": ""}, set()),
        ({"logprobs": True}, {"logprobs"}),
        ({"messages": [{"role": "user", "content": "x", "images": [PNG]}]}, {"vision"}),
        ({"messages": [{"role": "user", "images": ["UklGRiQAAABXQVZFZm10IA=="]}]}, {"audio"}),
    ],
)
def test_what_an_answer_needs_is_known(fields: dict[str, Any], needs: set[str]) -> None:
    """So that only who can is asked."""
    assert needs == request_of(CHAT, **fields).needs


@pytest.mark.parametrize(
    ("think", "effort"),
    [(True, "medium"), (False, "none"), ("low", "low"), ("high", "high"), ("max", "xhigh"), (None, None)],
)
def test_thinking_is_an_effort(think: Any, effort: str | None) -> None:
    """A plain yes is what Ollama takes for it."""
    assert effort == translated(CHAT, think=think).get("reasoning_effort")


def test_forms_are_response_formats() -> None:
    """Strict only where OpenAI's own strictness allows the schema."""
    assert {"type": "json_object"} == translated(CHAT, format="json")["response_format"]
    schema = {"type": "object", "properties": {}}
    open_, closed = schema, {**schema, "additionalProperties": False}
    for given, strict in ((open_, {}), (closed, {"strict": True})):
        named = translated(GENERATE, format=given)["response_format"]["json_schema"]
        assert {"name": "answer", "schema": given, **strict} == named


def test_pictures_are_known_by_their_first_bytes() -> None:
    """Ollama's have no word on what they are."""
    heads = {"/9j/4AAQSkZJRgAB": "image/jpeg", "R0lGODlhAQABAIAA": "image/gif", "UklGRiQAAABXRUJQVlA4": "image/webp"}
    for data, kind in {PNG: "image/png", **heads, "AAAA": "image/png"}.items():
        (turn,) = turns({"role": "user", "content": "see", "images": [data]})
        picture = {"type": "image_url", "image_url": {"url": f"data:{kind};base64,{data}"}}
        assert [{"type": "text", "text": "see"}, picture] == turn["content"]
    (sound,) = turns({"role": "user", "images": ["UklGRiQAAABXQVZFZm10IA=="]})
    assert "input_audio" == sound["content"][0]["type"]


def test_calls_and_results_find_each_other() -> None:
    """By id, else by name, else in turn; a call without an id gets one of its place."""
    told = turns(
        {"role": "user", "content": "x"},
        {"role": "assistant", "content": "", "tool_calls": [CALL, {**CALL, "id": "own"}, {"function": {"name": "g"}}]},
        {"role": "tool", "content": "2", "tool_name": "g"},
        {"role": "tool", "content": "1", "tool_call_id": "own"},
        {"role": "tool", "content": "0"},
    )
    ids = [call["id"] for call in told[1]["tool_calls"]]
    assert ["call_1_0", "own", "call_1_2"] == ids
    assert ['{"a":1}', '{"a":1}', "{}"] == [call["function"]["arguments"] for call in told[1]["tool_calls"]]
    assert [ids[2], ids[1], ids[0]] == [message["tool_call_id"] for message in told[2:]]


def test_thoughts_of_earlier_turns_come_back() -> None:
    """In words, and in blocks that their maker has signed."""
    block = {"type": "thinking", "thinking": "hm", "signature": "s"}
    _, turn, _ = turns(
        {"role": "user", "content": "x"},
        {"role": "assistant", "content": "a", "thinking": "hm", "thinking_blocks": [block]},
        {"role": "user", "content": "y"},
    )
    assert ("hm", [block]) == (turn["reasoning_content"], turn["thinking_blocks"])


def test_an_answer_begun_is_gone_on_with() -> None:
    """As Ollama does with an assistant's last turn."""
    said = [{"role": "user", "content": "x"}, {"role": "assistant", "content": "It is"}]
    told = translated(CHAT, messages=said)
    assert (True, False) == (told["continue_final_message"], told["add_generation_prompt"])
    assert "continue_final_message" not in translated(CHAT, messages=[*said, said[0]])


def test_a_generation_is_a_chat_of_one_turn() -> None:
    """Its instructions before it."""
    told = translated(GENERATE, prompt="hi", system="s", images=[PNG])
    system, user = told["messages"]
    assert ({"role": "system", "content": "s"}, "user") == (system, user["role"])
    assert ["text", "image_url"] == [part["type"] for part in user["content"]]


@pytest.mark.parametrize(("fields", "suffix"), [({"raw": True}, None), ({"suffix": "end"}, "end")])
def test_a_generation_without_a_chat_is_a_completion(fields: dict[str, Any], suffix: str | None) -> None:
    """The prompt as it stands, or up to what comes behind it; only who has completions can serve it."""
    call = call_of(GENERATE, prompt="hi", options={"num_predict": 5}, **fields)
    assert ("hi", ()) == (call.request.prompt, call.request.messages)
    told = translated(GENERATE, prompt="hi", options={"num_predict": 5}, **fields)
    assert ("hi", suffix, 5) == (told["prompt"], told.get("suffix"), told["max_tokens"])
    assert Operation.COMPLETION is as_chat(call, object())[0].request.arrival.operation  # type: ignore[arg-type]
    with pytest.raises(UpstreamRefused) as caught:
        chat_request(call)
    assert next(iter(fields)) == caught.value.param


@pytest.mark.parametrize(
    ("operation", "fields"), [(CHAT, {"messages": []}), (GENERATE, {"prompt": ""}), (EMBED, {"input": ""})]
)
def test_a_request_to_load_a_model_writes_nothing(operation: Operation, fields: dict[str, Any]) -> None:
    """It is answered whole, and nothing is held free for it."""
    request: ChatRequest = request_of(operation, **fields, stream=True)
    assert (False, 0, frozenset()) == (request.stream, request.max_tokens, request.needs)


def test_embeddings_are_openais() -> None:
    """As numbers; what says how an answer is drawn means nothing there."""
    told = translated(EMBED, input=["a", "b"], dimensions=8, options={"temperature": 1, "num_ctx": 5}, truncate=True)
    assert {"model": "m", "input": ["a", "b"], "encoding_format": "float", "dimensions": 8} == told
    assert "hi" == translated(Operation.OLLAMA_EMBEDDINGS)["input"]
    with pytest.raises(UpstreamRefused) as caught:
        translated(EMBED, future=1)
    assert "future" == caught.value.param
