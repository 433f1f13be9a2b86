"""Anthropic's official client and the real model: what only an engine can show, tools, stops, thoughts and counts."""

import json
from typing import Any

import anthropic
import pytest
import pytest_asyncio

from tests.anthropic_answers import blocks_of, checked_events, checked_message

pytestmark = [pytest.mark.model, pytest.mark.asyncio(loop_scope="module")]

SCHEMA = {
    "type": "object",
    "properties": {"city": {"enum": ["Paris", "Rome"]}},
    "required": ["city"],
    "additionalProperties": False,
}
WEATHER = {"name": "weather", "description": "Of a city.", "input_schema": SCHEMA}
THINKS = """{% for m in messages %}<|im_start|>{{ m.role }}
{{ m.content }}<|im_end|>
{% endfor %}<|im_start|>assistant
<think>{{ '\n' }}"""
QUESTION = [{"role": "user", "content": "What is the weather in Paris?"}]
ASK = {"model": "any", "messages": QUESTION, "max_tokens": 24}
BODY = {**ASK, "temperature": 0}


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def front(start_shared_gateway: Any, default_model_path: Any) -> Any:
    """A gateway over the embedded model."""
    backend = {"use": "embedded", "model": str(default_model_path), "slots": 2, "context_tokens": 1024, "threads": 1}
    return await start_shared_gateway({"backends": {"local": backend}})


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def thinker(start_shared_gateway: Any, default_model_path: Any, tmp_path_factory: pytest.TempPathFactory) -> Any:
    """The same model with a template that opens a thought."""
    template = tmp_path_factory.mktemp("template") / "thinks.jinja"
    template.write_text(THINKS)
    backend = {"use": "embedded", "model": str(default_model_path), "slots": 1, "context_tokens": 512, "threads": 1}
    return await start_shared_gateway({"backends": {"local": {**backend, "chat_template": str(template)}}})


async def _both(front: Any, **fields: Any) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """The whole answer, and the events of the streamed one."""
    whole = await front.post({**BODY, **fields}, path="/v1/messages")
    assert 200 == whole.status_code, whole.text
    streamed = await front.post({**BODY, **fields, "stream": True}, path="/v1/messages")
    return checked_message(whole.content), checked_events(streamed.content)


async def test_text_is_the_same_streamed_and_whole(front: Any) -> None:
    """And the counts are those of the engine, in the last event but one."""
    whole, events = await _both(front)
    (block,) = whole["content"]
    assert [block] == [{**one, "citations": []} for one in blocks_of(events)]
    assert "estimated" not in whole["usage"]
    counted = events[-2]["usage"]
    prompt_tokens = sum(counted[name] for name in ("input_tokens", "cache_read_input_tokens"))
    assert (24, whole["usage"]["output_tokens"]) == (counted["output_tokens"], 24)
    answer = await front.anthropic().messages.count_tokens(model="any", messages=QUESTION)
    assert prompt_tokens == answer.input_tokens


async def test_a_tool_is_called(front: Any) -> None:
    """Because it must: the input is an object of its schema, and the result goes back in a turn of the user's."""
    forced = {"type": "any", "disable_parallel_tool_use": True}
    fields = {"tools": [WEATHER], "tool_choice": forced, "max_tokens": 60}
    whole, events = await _both(front, **fields)
    (call,) = [block for block in whole["content"] if block["type"] == "tool_use"]
    assert ("weather", "tool_use") == (call["name"], whole["stop_reason"])
    assert call["input"] in ({"city": "Paris"}, {"city": "Rome"})
    assert [call["input"]] == [block["input"] for block in blocks_of(events) if block["type"] == "tool_use"]
    result = {"type": "tool_result", "tool_use_id": call["id"], "content": [{"type": "text", "text": "Rain."}]}
    turns = [*QUESTION, {"role": "assistant", "content": whole["content"]}, {"role": "user", "content": [result]}]
    answer = await front.anthropic().messages.create(
        **{**ASK, "messages": turns, "tools": [WEATHER]}, extra_body={"temperature": 0}
    )
    assert answer.content


async def test_a_stop_sequence_is_named(front: Any) -> None:
    """The one that matched, and nothing of it is shown."""
    whole, events = await _both(front, stop_sequences=["zzzz", " "])
    assert ("stop_sequence", " ") == (whole["stop_reason"], whole["stop_sequence"])
    assert {"stop_reason": "stop_sequence", "stop_sequence": " "} == events[-2]["delta"]
    assert " " not in whole["content"][0]["text"]


async def test_a_form_is_kept_to(front: Any) -> None:
    """``output_config.format`` binds the engine's grammar."""
    form = {"format": {"type": "json_schema", "schema": SCHEMA}}
    whole, _ = await _both(front, output_config=form)
    assert json.loads(whole["content"][0]["text"]) in ({"city": "Paris"}, {"city": "Rome"})


async def test_an_answer_goes_on_where_it_was_begun(front: Any) -> None:
    """A last turn of the assistant's is the answer's beginning, which is not said again."""
    turns = [*QUESTION, {"role": "assistant", "content": "The weather in Paris is"}]
    whole, _ = await _both(front, messages=turns)
    assert whole["content"][0]["text"]
    assert not whole["content"][0]["text"].startswith("The weather in Paris is")


async def test_an_effort_is_no_reason_to_refuse(front: Any) -> None:
    """A model that does not think goes without; the client is told."""
    answer = await front.post({**BODY, "output_config": {"effort": "high"}}, path="/v1/messages")
    assert (200, "output_config.effort") == (answer.status_code, answer.headers["x-headrace-dropped"])


async def test_a_budget_of_thoughts_is_refused_by_a_model_that_has_none(front: Any) -> None:
    """By the client's own name of the field."""
    thinking = {"type": "enabled", "budget_tokens": 1024}
    with pytest.raises(anthropic.BadRequestError, match="thinking"):
        await front.anthropic().messages.create(**{**ASK, "max_tokens": 2000}, thinking=thinking)


async def test_thoughts_are_blocks_of_their_own(thinker: Any) -> None:
    """Before the text, and counted among the output."""
    whole, events = await _both(thinker, thinking={"type": "enabled", "budget_tokens": 8})
    assert "thinking" == whole["content"][0]["type"]
    assert [block["type"] for block in whole["content"]] == [block["type"] for block in blocks_of(events)]
    thinking_tokens = whole["usage"]["output_tokens_details"]["thinking_tokens"]
    assert 0 < thinking_tokens <= whole["usage"]["output_tokens"]
    turns = [*QUESTION, {"role": "assistant", "content": whole["content"]}, *QUESTION]
    answer = await thinker.anthropic().messages.create(**{**ASK, "messages": turns}, extra_body={"temperature": 0})
    assert answer.content
