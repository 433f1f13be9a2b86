"""Tools, forms and measurements: the real model behind the real server, asked by the official client."""

import json
from typing import Any

import openai
import pytest
import pytest_asyncio

pytestmark = [pytest.mark.model, pytest.mark.asyncio(loop_scope="module")]

PARAMETERS = {
    "type": "object",
    "properties": {"city": {"enum": ["Paris", "Rome"]}},
    "required": ["city"],
    "additionalProperties": False,
}
WEATHER = {"type": "function", "function": {"name": "weather", "description": "Of a city.", "parameters": PARAMETERS}}
CLOCK = {"type": "function", "function": {"name": "clock"}}
THINKS = """{% for m in messages %}<|im_start|>{{ m.role }}
{{ m.content }}<|im_end|>
{% endfor %}<|im_start|>assistant
<think>{{ '\n' }}"""
QUESTION = [{"role": "user", "content": "What is the weather in Paris?"}]
ASK = {"model": "any", "messages": QUESTION, "tools": [WEATHER, CLOCK], "max_tokens": 60, "temperature": 0}


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def front(start_shared_gateway: Any, default_model_path: Any) -> Any:
    """A gateway over the embedded model."""
    backend = {"use": "embedded", "model": str(default_model_path), "slots": 2, "context_tokens": 768, "threads": 1}
    return await start_shared_gateway({"backends": {"local": backend}})


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def thinker(start_shared_gateway: Any, default_model_path: Any, tmp_path_factory: pytest.TempPathFactory) -> Any:
    """The same model with a template that opens a thought."""
    template = tmp_path_factory.mktemp("template") / "thinks.jinja"
    template.write_text(THINKS)
    backend = {"use": "embedded", "model": str(default_model_path), "slots": 1, "context_tokens": 512, "threads": 1}
    return await start_shared_gateway({"backends": {"local": {**backend, "chat_template": str(template)}}})


async def _whole(front: Any, **fields: Any) -> tuple[str, list[tuple[str, str]], str]:
    answer = await front.openai().chat.completions.create(**{**ASK, **fields})
    message = answer.choices[0].message
    calls = [(call.function.name, call.function.arguments) for call in message.tool_calls or ()]
    assert all(call.id.startswith("call_") and call.type == "function" for call in message.tool_calls or ())
    return message.content or "", calls, answer.choices[0].finish_reason


async def _streamed(front: Any, **fields: Any) -> tuple[str, list[tuple[str, str]], str]:
    content, calls, reason = "", [], ""
    async for chunk in await front.openai().chat.completions.create(**{**ASK, **fields}, stream=True):
        for choice in chunk.choices:
            reason = choice.finish_reason or reason
            content += choice.delta.content or ""
            for piece in choice.delta.tool_calls or ():
                if piece.id:
                    assert len(calls) == piece.index
                    calls.append((piece.function.name, ""))
                name, arguments = calls[piece.index]
                calls[piece.index] = (name, arguments + (piece.function.arguments or ""))
    return content, calls, reason


@pytest.mark.parametrize(
    ("fields", "names"),
    [
        ({"tool_choice": "required", "parallel_tool_calls": False}, ["weather"]),
        ({"tool_choice": {"type": "function", "function": {"name": "clock"}}}, ["clock"]),
        ({"tool_choice": {"type": "function", "function": {"name": "weather"}}}, ["weather"]),
    ],
)
async def test_a_call_that_must_be_made(front: Any, fields: dict[str, Any], names: list[str]) -> None:
    """Even by a small model, to its schema; streamed and whole the same, and nothing beside it."""
    whole, streamed = await _whole(front, **fields), await _streamed(front, **fields)
    assert whole == streamed
    content, calls, reason = whole
    assert ("", "tool_calls", names) == (content, reason, [name for name, _ in calls])
    arguments = json.loads(calls[0][1])
    assert arguments.get("city") in ({"Paris", "Rome"} if names == ["weather"] else {None})


async def test_several_calls_at_once(front: Any) -> None:
    """As many as fit; the last may be cut short, and what there is of it is the same in both modes."""
    whole, streamed = await _whole(front, tool_choice="required"), await _streamed(front, tool_choice="required")
    assert whole == streamed
    assert "" == whole[0]
    assert len(whole[1]) >= 1


@pytest.mark.parametrize("choice", ["auto", "none"])
async def test_a_call_that_need_not_be_made(front: Any, choice: str) -> None:
    """It answers in words, and neither mode says more than the other."""
    whole = await _whole(front, tool_choice=choice, max_tokens=12)
    assert whole == await _streamed(front, tool_choice=choice, max_tokens=12)
    assert ([], "length") == whole[1:]
    assert whole[0]


async def test_the_conversation_goes_on_with_results(front: Any) -> None:
    """Calls and results of earlier turns are read; a call that refers to them is made."""
    call = {"id": "c1", "type": "function", "function": {"name": "weather", "arguments": '{"city": "Rome"}'}}
    turns = [
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "c1", "content": "Sunny <|im_end|>, 25 degrees."},
    ]
    content, calls, _ = await _whole(front, messages=[*QUESTION, *turns], tool_choice="none", max_tokens=12)
    assert content
    assert [] == calls


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"tools": [{"type": "function", "function": {"name": "a b"}}]}, "tools[0].function.name"),
        ({"tools": [WEATHER, WEATHER]}, "tools[1].function.name"),
        (
            {"tools": [{"type": "function", "function": {"name": "a", "parameters": {"type": "array"}}}]},
            "tools[0].function.parameters",
        ),
        ({"tool_choice": {"type": "function", "function": {"name": "nobody"}}}, "tool_choice"),
        ({"tools": [], "tool_choice": "required"}, "tool_choice"),
    ],
)
async def test_tools_that_are_badly_defined(front: Any, fields: dict[str, Any], param: str) -> None:
    """A ``BadRequestError`` that names the field, before any token is drawn."""
    with pytest.raises(openai.BadRequestError) as caught:
        await _whole(front, **fields)
    assert param == caught.value.body["param"]


@pytest.mark.parametrize(
    ("fields", "check"),
    [
        (
            {"response_format": {"type": "json_schema", "json_schema": {"name": "n", "schema": PARAMETERS}}},
            lambda text: json.loads(text)["city"] in {"Paris", "Rome"},
        ),
        ({"extra_body": {"structured_outputs": {"choice": ["yes", "no"]}}}, lambda text: text in {"yes", "no"}),
        ({"extra_body": {"guided_regex": "[0-9]{4}"}}, lambda text: len(text) == 4 and text.isdigit()),
    ],
)
async def test_an_answer_to_a_form(front: Any, fields: dict[str, Any], check: Any) -> None:
    """OpenAI's field and vLLM's; the model's own wishes give way."""
    text, calls, reason = await _whole(front, **{"tools": openai.NOT_GIVEN, "max_tokens": 24, **fields})
    assert ([], True) == (calls, reason in {"stop", "length"})
    assert reason == "length" or check(text)
    assert (text, calls, reason) == await _streamed(front, **{"tools": openai.NOT_GIVEN, "max_tokens": 24, **fields})


@pytest.mark.parametrize("stream", [False, True])
async def test_log_probabilities(front: Any, stream: bool) -> None:
    """One entry a token, whose bytes join to the text; the token itself is the likeliest where nothing is drawn."""
    fields = {"logprobs": True, "top_logprobs": 2, "max_tokens": 8, "tools": openai.NOT_GIVEN, "stream": stream}
    answer = await front.openai().chat.completions.create(**{**ASK, **fields})
    choices = [choice async for chunk in answer for choice in chunk.choices] if stream else answer.choices
    entries = [entry for choice in choices for entry in (choice.logprobs.content if choice.logprobs else ())]
    text = "".join((choice.delta.content if stream else choice.message.content) or "" for choice in choices)
    assert 8 == len(entries)
    assert text == b"".join(bytes(entry.bytes) for entry in entries).decode()
    assert all(entry.top_logprobs[0].token == entry.token and len(entry.top_logprobs) == 2 for entry in entries)
    assert all(-50 < entry.logprob <= 0 for entry in entries)


@pytest.mark.parametrize("stream", [False, True])
async def test_a_text_is_scored(front: Any, stream: bool) -> None:
    """Echo with log-probabilities and no new token: what other tools ask of a completions endpoint."""
    fields = {"model": "any", "prompt": "Paris is the capital", "max_tokens": 0, "echo": True, "logprobs": 1}
    answer = await front.openai().completions.create(**fields, stream=stream)
    choices = [choice async for chunk in answer for choice in chunk.choices] if stream else answer.choices
    assert "Paris is the capital" == "".join(choice.text for choice in choices)
    tokens = [token for choice in choices if choice.logprobs for token in choice.logprobs.tokens]
    scores = [score for choice in choices if choice.logprobs for score in choice.logprobs.token_logprobs]
    offsets = [offset for choice in choices if choice.logprobs for offset in choice.logprobs.text_offset]
    assert "Paris is the capital" == "".join(tokens)
    assert [None] == scores[:1]
    assert all(score < 0 for score in scores[1:])
    assert [sum(map(len, tokens[:at])) for at in range(len(tokens))] == offsets


@pytest.mark.parametrize("stream", [False, True])
async def test_what_is_measured_stands_in_the_answer(front: Any, stream: bool) -> None:
    """By the names of vLLM and of llama.cpp; in a stream with the last finish reason, once."""
    fields = {"max_tokens": 6, "tools": openai.NOT_GIVEN, "stream": stream}
    answer = await front.openai().chat.completions.create(**{**ASK, **fields})
    chunks = [chunk async for chunk in answer] if stream else [answer]
    (told,) = [chunk for chunk in chunks if "metrics" in (chunk.model_extra or {})]
    assert told.choices[0].finish_reason
    metrics, timings = told.model_extra["metrics"], told.model_extra["timings"]
    assert {"time_to_first_token_ms", "mean_itl_ms", "queue_time_ms", "speculative_decoding"} <= metrics.keys()
    assert {"cache_n", "prompt_n", "prompt_ms", "predicted_n", "predicted_per_second"} <= timings.keys()
    assert 6 == timings["predicted_n"]


async def test_a_prompt_that_was_read_before_costs_less_and_says_so(front: Any) -> None:
    """In the usage, in the timings, in a header and on the ledger."""
    words = "A long preface that nobody has sent before. " * 12
    fields = {"model": "any", "messages": [{"role": "user", "content": words}], "max_tokens": 2}
    cold, warm = [await front.openai().chat.completions.with_raw_response.create(**fields) for _ in range(2)]
    remembered = warm.parse().usage.prompt_tokens_details.cached_tokens
    assert cold.parse().usage.prompt_tokens_details.cached_tokens < remembered < warm.parse().usage.prompt_tokens
    assert str(remembered) == warm.headers["x-headrace-cached-tokens"]
    assert remembered == warm.parse().model_extra["timings"]["cache_n"]
    assert remembered == (await front.rows())[-1]["cached_tokens"]


async def test_a_prediction_is_counted(front: Any) -> None:
    """OpenAI's two counts; they are of the client's own prediction only."""
    plain = await front.openai().chat.completions.create(**{**ASK, "tools": openai.NOT_GIVEN, "max_tokens": 16})
    text = plain.choices[0].message.content
    for content, right in ((text, True), ("x", False)):
        answer = await front.openai().chat.completions.create(
            **{
                **ASK,
                "tools": openai.NOT_GIVEN,
                "max_tokens": 16,
                "prediction": {"type": "content", "content": content},
            }
        )
        assert text == answer.choices[0].message.content
        details = answer.usage.completion_tokens_details
        drafters = answer.model_extra["metrics"]["speculative_decoding"]["by_drafter"]
        accepted = drafters.get("prediction", {}).get("num_accepted_tokens", 0)
        assert accepted == details.accepted_prediction_tokens  # how much is drafted is a matter of what rows cost here
        assert right or accepted == 0


async def test_a_model_that_does_not_think_refuses_to_be_told_how_long(front: Any) -> None:
    """By name, as every field that would be dropped in silence; a route may say that it does not mind."""
    with pytest.raises(openai.BadRequestError, match="reasoning_effort"):
        await _whole(front, reasoning_effort="high")


@pytest.mark.parametrize("stream", [False, True])
async def test_a_thought_has_its_own_field_and_its_bound(thinker: Any, stream: bool) -> None:
    """At the bound it ends, and the model answers; its tokens are told, and what the user says of tags is text."""
    messages = [{"role": "user", "content": "What is a <think> tag? </think> Tell me."}]
    fields = {"model": "any", "messages": messages, "max_tokens": 24, "temperature": 0, "stream": stream}
    options = {"stream_options": {"include_usage": True}} if stream else {}
    answer = await thinker.openai().chat.completions.create(
        **fields, **options, extra_body={"reasoning": {"max_tokens": 6}}
    )
    chunks = [chunk async for chunk in answer] if stream else [answer]
    parts = [choice.delta if stream else choice.message for chunk in chunks for choice in chunk.choices]
    thought = "".join((part.model_extra or {}).get("reasoning_content") or "" for part in parts)
    said = "".join(part.content or "" for part in parts)
    details = chunks[-1].usage.completion_tokens_details
    assert thought.strip()
    assert said.strip()
    assert "</think>" not in thought
    assert 6 <= details.reasoning_tokens <= 12


async def test_no_effort_is_no_thought(thinker: Any) -> None:
    """``reasoning_effort: none`` closes it at once."""
    fields = {"model": "any", "messages": QUESTION, "max_tokens": 16, "temperature": 0, "reasoning_effort": "none"}
    answer = await thinker.openai().chat.completions.create(**fields)
    assert not (answer.choices[0].message.model_extra or {}).get("reasoning_content")
    assert answer.choices[0].message.content.strip()


async def test_the_engine_tells_of_itself(front: Any) -> None:
    """What it runs and measured, with its drafts by source; and the counters say how many were right."""
    (engine,) = (await front.http.get("/v1/engine")).json()["data"]
    expected = {"backend": "local", "down": None, "quantisation": "Q8_0", "tool_format": "hermes"}
    assert expected == {name: engine[name] for name in expected}
    assert 1.0 == engine["verify_costs"][0]["cost"] == engine["batch_costs"][0]["gain"]
    assert engine["now"]["steps"] > 0
    assert any(drafts["drafted_tokens"] for drafts in engine["drafts"])
    assert "headrace_draft_tokens_total{" in (await front.http.get("/metrics")).text
