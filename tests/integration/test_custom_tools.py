"""OpenAI's custom tools, whose input is free text, by its official client over providers that have none."""

import json
from typing import Any

import openai
import pytest

from gateway.price import Usage
from gateway.types import Arrival, ChatRequest, Operation, TraceContext
from gateway.wire.anthropic_writer import anthropic_writer
from gateway.wire.chat_writer import chat_writer
from gateway.wire.deltas import (
    AnswerEnd,
    AnswerStart,
    ChoiceFinish,
    Delta,
    TextDelta,
    ToolCallArguments,
    ToolCallStart,
    UsageReport,
)
from gateway.wire.translation import WriterOf

TRACE = TraceContext(trace_id="0" * 32, span_id="0" * 16)
ARRIVAL = Arrival(id="r", operation=Operation.CHAT, tenant="t", received_s=0, received_unix_s=0, trace=TRACE)
PATCH = '*** Begin Patch\n+ print("Zoë")\n*** End Patch'
GRAMMAR = {"syntax": "lark", "definition": 'start: "*** Begin Patch" LF'}
QUESTION: Any = {"role": "user", "content": "Patch it."}
OVER: dict[str, WriterOf] = {"anthropic": anthropic_writer, "openai_compatible": chat_writer}


def answer(writer_of: WriterOf, body: dict[str, Any]) -> bytes:
    """A call of the first tool, its arguments in fragments; words where the conversation has its result."""
    deltas: list[Delta] = [AnswerStart(id="a", model="m")]
    if "Done." in json.dumps(body["messages"]):
        deltas += [TextDelta(text="It is patched."), ChoiceFinish(reason="stop")]
    else:
        tool = body["tools"][0]
        deltas.append(ToolCallStart(index=0, id="call_1", name=tool.get("function", tool)["name"]))
        arguments = json.dumps({"input": PATCH})
        deltas += [ToolCallArguments(index=0, text=arguments[at : at + 5]) for at in range(0, len(arguments), 5)]
        deltas.append(ChoiceFinish(reason="tool_calls"))
    usage = UsageReport(usage=Usage(prompt_tokens=9, output_tokens=4))
    return writer_of(ChatRequest(arrival=ARRIVAL, model="m"), body.get("stream", False)).write(
        [*deltas, usage, AnswerEnd()]
    )


@pytest.fixture(params=OVER)
async def front(request: Any, gateway_over: Any) -> Any:
    """A gateway over a provider that knows functions alone, and what that one was sent."""

    async def respond(asked: Any, conversation: Any) -> None:
        said = answer(OVER[request.param], asked.json)
        await (conversation.stream(said) if asked.json.get("stream") else conversation.answer(said))

    fields = {"custom_tools": False} if request.param == "openai_compatible" else {}
    return await gateway_over(respond, use=request.param, **fields)


def schema_of(upstream: Any) -> Any:
    """The parameters of the only tool that the provider was told of."""
    (tool,) = upstream.requests[-1].json["tools"]
    return tool.get("input_schema") or tool["function"]["parameters"]


@pytest.mark.parametrize("stream", [False, True])
async def test_a_custom_tool_in_a_chat(front: Any, stream: bool) -> None:
    """It goes up as a function with one string; its call comes back as text, and so do the words after its result."""
    running, upstream = front
    tool = {"type": "custom", "custom": {"name": "apply_patch", "description": "Patches."}}
    choice = {"type": "custom", "custom": {"name": "apply_patch"}}
    client = running.openai()
    asked: Any = {"model": "m", "tools": [tool], "tool_choice": choice}
    if stream:
        chunks = [c async for c in await client.chat.completions.create(messages=[QUESTION], stream=True, **asked)]
        entries = [call.to_dict() for chunk in chunks for call in chunk.choices[0].delta.tool_calls or ()]
        assert all("function" not in entry for entry in entries)
        assert ("custom", "apply_patch", "call_1") == (
            entries[0]["type"],
            entries[0]["custom"]["name"],
            entries[0]["id"],
        )
        text = "".join(entry["custom"]["input"] for entry in entries)
        assert len(entries) > 5
    else:
        (call,) = (await client.chat.completions.create(messages=[QUESTION], **asked)).choices[0].message.tool_calls
        assert ("custom", "apply_patch") == (call.type, call.custom.name)
        text = call.custom.input
    assert PATCH == text
    assert {"input"} == schema_of(upstream)["properties"].keys()
    turn = {
        "role": "assistant",
        "content": None,
        "tool_calls": [{"id": "call_1", "type": "custom", "custom": {"name": "apply_patch", "input": PATCH}}],
    }
    turns: Any = [QUESTION, turn, {"role": "tool", "tool_call_id": "call_1", "content": "Done."}]
    last = await client.chat.completions.create(model="m", messages=turns, tools=[tool])
    assert "It is patched." == last.choices[0].message.content
    assert "+ print(" in json.dumps(upstream.requests[-1].json["messages"])


@pytest.mark.parametrize("stream", [False, True])
async def test_a_custom_tool_in_responses(front: Any, stream: bool) -> None:
    """Items and events are those of custom tools; what comes of the call goes up with it."""
    running, upstream = front
    client = running.openai()
    tools: Any = [{"type": "custom", "name": "apply_patch", "format": {"type": "text"}}]
    asked: Any = {"model": "m", "tools": tools}
    if stream:
        async with client.responses.stream(input="Patch it.", **asked) as events:
            told = [event async for event in events]
            response = await events.get_final_response()
        deltas = [e.delta for e in told if e.type == "response.custom_tool_call_input.delta"]
        (done,) = (e for e in told if e.type == "response.custom_tool_call_input.done")
        assert (PATCH, PATCH) == ("".join(deltas), done.input)
    else:
        response = await client.responses.create(input="Patch it.", **asked)
    (item,) = response.output
    assert ("custom_tool_call", "apply_patch", PATCH, "call_1") == (item.type, item.name, item.input, item.call_id)
    result = {"type": "custom_tool_call_output", "call_id": item.call_id, "output": "Done."}
    last = await client.responses.create(previous_response_id=response.id, input=[result], **asked)
    assert "It is patched." == last.output_text
    assert {"input"} == schema_of(upstream)["properties"].keys()


async def test_a_grammar_is_refused_by_name(front: Any) -> None:
    """Nothing here could hold a model to it, inside the string of a function."""
    running, upstream = front
    client = running.openai()
    tool: Any = {"type": "custom", "custom": {"name": "p", "format": {"type": "grammar", "grammar": GRAMMAR}}}
    with pytest.raises(openai.BadRequestError) as chat:
        await client.chat.completions.create(model="m", messages=[QUESTION], tools=[tool])
    flat: Any = {"type": "custom", "name": "p", "format": {"type": "grammar", **GRAMMAR}}
    with pytest.raises(openai.BadRequestError) as response:
        await client.responses.create(model="m", input="hi", tools=[flat])
    assert ("tools.custom.format", "tools.format") == (chat.value.param, response.value.param)
    assert [] == upstream.requests


@pytest.mark.parametrize("use", OVER)
async def test_a_route_may_have_a_grammar_told_in_words(gateway_over: Any, use: str) -> None:
    """Then it stands in the description of the tool, and the answer says what was lost."""

    async def respond(asked: Any, conversation: Any) -> None:
        await conversation.answer(answer(OVER[use], asked.json))

    filters = [{"use": "capable", "may_drop": ["tools.custom.format"]}]
    policy = {"routes": {"all": {"models": ["*"], "targets": ["up"], "filter": filters}}}
    fields = {"custom_tools": False} if use == "openai_compatible" else {}
    running, upstream = await gateway_over(respond, use=use, policy=policy, **fields)
    tool: Any = {"type": "custom", "custom": {"name": "p", "format": {"type": "grammar", "grammar": GRAMMAR}}}
    asked = running.openai().chat.completions.with_raw_response
    answered = await asked.create(model="m", messages=[QUESTION], tools=[tool])
    assert "tools.custom.format" == answered.headers["x-headrace-dropped"]
    assert PATCH == answered.parse().choices[0].message.tool_calls[0].custom.input
    assert "Begin Patch" in json.dumps(upstream.requests[0].json["tools"])


@pytest.mark.parametrize("stream", [False, True])
async def test_who_knows_custom_tools_is_given_them(gateway_over: Any, stream: bool) -> None:
    """A server without a preset gets a chat as it came; a response gets there with its grammar, and back."""
    start = {"index": 0, "id": "call_1", "type": "custom", "custom": {"name": "p", "input": ""}}
    pieces = [start, *({"index": 0, "custom": {"input": PATCH[at : at + 9]}} for at in range(0, len(PATCH), 9))]

    async def respond(asked: Any, conversation: Any) -> None:
        whole = {"id": "call_1", "type": "custom", "custom": {"name": "p", "input": PATCH}}
        choice = {"index": 0, "message": {"role": "assistant", "content": None, "tool_calls": [whole]}}
        envelope = {"id": "a", "object": "chat.completion", "created": 1, "model": "m"}
        if asked.json.get("stream"):
            deltas = [{"index": 0, "delta": {"tool_calls": [piece]}} for piece in pieces]
            ends = [{"index": 0, "delta": {}, "finish_reason": "tool_calls"}]
            events = [b"data: %b\n\n" % json.dumps({**envelope, "choices": [it]}).encode() for it in [*deltas, *ends]]
            await conversation.stream(*events, b"data: [DONE]\n\n")
        else:
            answered = {**envelope, "choices": [{**choice, "finish_reason": "tool_calls"}]}
            await conversation.answer(json.dumps(answered).encode())

    running, upstream = await gateway_over(respond)
    client = running.openai()
    tool: Any = {"type": "custom", "custom": {"name": "p", "format": {"type": "grammar", "grammar": GRAMMAR}}}
    asked: Any = {"model": "m", "messages": [QUESTION], "tools": [tool]}
    if stream:
        chunks = [c async for c in await client.chat.completions.create(**asked, stream=True)]
        entries = [call.to_dict() for chunk in chunks for call in chunk.choices[0].delta.tool_calls or ()]
        assert pieces == entries
    else:
        assert PATCH == (await client.chat.completions.create(**asked)).choices[0].message.tool_calls[0].custom.input
    assert [tool] == upstream.requests[-1].json["tools"]
    flat: Any = {"type": "custom", "name": "p", "format": {"type": "grammar", **GRAMMAR}}
    if stream:
        async with client.responses.stream(model="m", input="hi", tools=[flat]) as events:
            item = (await events.get_final_response()).output[0]
    else:
        item = (await client.responses.create(model="m", input="hi", tools=[flat])).output[0]
    assert ("custom_tool_call", PATCH) == (item.type, item.input)
    assert [tool] == upstream.requests[-1].json["tools"]
