"""OpenAI's official client over a provider that speaks Anthropic's format: calls, thoughts, and their way back."""

from typing import Any

import pytest

from gateway.price import Usage
from gateway.types import Arrival, ChatRequest, Operation, TraceContext
from gateway.wire.anthropic_writer import anthropic_writer
from gateway.wire.deltas import (
    AnswerEnd,
    AnswerStart,
    ChoiceFinish,
    Delta,
    ReasoningDelta,
    ReasoningSignature,
    TextDelta,
    ToolCallArguments,
    ToolCallStart,
    UsageReport,
)

TRACE = TraceContext(trace_id="0" * 32, span_id="0" * 16)
ARRIVAL = Arrival(id="r", operation=Operation.MESSAGES, tenant="t", received_s=0, received_unix_s=0, trace=TRACE)
TOOL: Any = {"type": "function", "function": {"name": "weather", "parameters": {"type": "object", "properties": {}}}}
QUESTION: Any = {"role": "user", "content": "Weather in Paris?"}
SIGNED = {"type": "thinking", "thinking": "Look it up.", "signature": "sealed"}
CALLS: list[Delta] = [
    ReasoningDelta(text="Look "),
    ReasoningDelta(text="it up."),
    ReasoningSignature(signature="sealed"),
    ToolCallStart(index=0, id="toolu_1", name="weather"),
    ToolCallArguments(index=0, text='{"city":'),
    ToolCallArguments(index=0, text='"Paris"}'),
    ChoiceFinish(reason="tool_calls"),
]
SAYS: list[Delta] = [TextDelta(text="It rains."), ChoiceFinish(reason="stop")]


@pytest.fixture
async def claude(gateway_over: Any) -> Any:
    """A gateway over an upstream that thinks and calls first, and answers when it has the result."""

    async def respond(request: Any, conversation: Any) -> None:
        body = request.json
        has_result = any("tool_result" in str(message["content"]) for message in body["messages"])
        said = [AnswerStart(id="msg_1", model="claude"), *(SAYS if has_result else CALLS)]
        counts = UsageReport(usage=Usage(prompt_tokens=9, output_tokens=4))
        streamed = body.get("stream", False)
        answer = anthropic_writer(ChatRequest(arrival=ARRIVAL, model="m"), streamed).write([*said, counts, AnswerEnd()])
        await (conversation.stream(answer) if streamed else conversation.answer(answer))

    return await gateway_over(respond, use="anthropic")


async def _asked(front: Any, messages: list[Any], *, stream: bool) -> tuple[dict[str, Any], str]:
    """The message that the client puts together, and why it ended."""
    ask = {"model": "m", "messages": messages, "tools": [TOOL], "reasoning_effort": "low"}
    client = front.openai()
    if not stream:
        choice = (await client.chat.completions.create(**ask)).choices[0]
        return choice.message.to_dict(), choice.finish_reason
    message: dict[str, Any] = {"role": "assistant", "content": "", "reasoning_content": "", "thinking_blocks": []}
    reason = ""
    async for chunk in await client.chat.completions.create(**ask, stream=True):
        for choice in chunk.choices:
            reason = choice.finish_reason or reason
            delta = choice.delta.to_dict()
            message["content"] += delta.get("content") or ""
            message["reasoning_content"] += delta.get("reasoning_content", "")
            message["thinking_blocks"] += delta.get("thinking_blocks", [])
            for piece in delta.get("tool_calls", []):
                if "id" in piece:
                    message.setdefault("tool_calls", []).append(piece)
                else:
                    message["tool_calls"][piece["index"]]["function"]["arguments"] += piece["function"]["arguments"]
    return message, reason


@pytest.mark.parametrize("stream", [True, False])
async def test_a_task_with_thoughts_and_a_call(claude: Any, stream: bool) -> None:
    """The thought comes back to its maker with its signature, at the head of its turn, before the call's result."""
    front, upstream = claude
    message, reason = await _asked(front, [QUESTION], stream=stream)
    (call,) = message["tool_calls"]
    assert ("tool_calls", "weather", '{"city":"Paris"}') == (
        reason,
        call["function"]["name"],
        call["function"]["arguments"],
    )
    assert ("Look it up.", [SIGNED]) == (message["reasoning_content"], message["thinking_blocks"])
    result = {"role": "tool", "tool_call_id": call["id"], "content": "Rain."}
    last, reason = await _asked(front, [QUESTION, message, result], stream=stream)
    assert ("It rains.", "stop") == (last["content"], reason)
    first, second = (request.json for request in upstream.requests)
    assert {"type": "enabled", "budget_tokens": 2048} == first["thinking"]
    assert [
        SIGNED,
        {"type": "tool_use", "id": "toolu_1", "name": "weather", "input": {"city": "Paris"}},
    ] == second["messages"][1]["content"]
    assert [{"type": "tool_result", "tool_use_id": "toolu_1", "content": "Rain."}] == second["messages"][2]["content"]
