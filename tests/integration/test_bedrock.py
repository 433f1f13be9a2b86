"""Clients of every format over Amazon Bedrock's Converse: a loopback server that answers as AWS describes it.

The exchanges are synthetic, made by hand after AWS's reference: none was recorded.
"""

import json
from collections.abc import Awaitable, Callable
from typing import Any

import anthropic
import openai
import pytest

from tests.aws_frames import event, exception

MODEL = "eu.anthropic.claude-x-v1:0"
ASK = {"model": MODEL, "messages": [{"role": "user", "content": "hi"}]}
TOOL = {"type": "function", "function": {"name": "look", "parameters": {"type": "object"}}}
COUNTS = {
    "inputTokens": 4,
    "outputTokens": 7,
    "totalTokens": 16,
    "cacheReadInputTokens": 3,
    "cacheWriteInputTokens": 2,
}
COUNTED = {"usage": COUNTS, "metrics": {"latencyMs": 9}}
THOUGHT = {"reasoningContent": {"reasoningText": {"text": "hm", "signature": "sig"}}}
USED = {"toolUse": {"toolUseId": "t1", "name": "look", "input": {"at": 1}}}


def _whole(last: dict[str, Any], reason: str) -> bytes:
    message = {"role": "assistant", "content": [THOUGHT, {"text": "He"}, last]}
    return json.dumps({"output": {"message": message}, "stopReason": reason, **COUNTED}).encode()


def _delta(index: int, **delta: Any) -> bytes:
    return event("contentBlockDelta", {"contentBlockIndex": index, "delta": delta})


OPENING = (
    event("messageStart", {"role": "assistant"}),
    _delta(0, reasoningContent={"text": "hm"}),
    _delta(0, reasoningContent={"signature": "sig"}),
    event("contentBlockStop", {"contentBlockIndex": 0}),
    _delta(1, text="He"),
)
CALLING = (
    event("contentBlockStop", {"contentBlockIndex": 1}),
    event("contentBlockStart", {"contentBlockIndex": 2, "start": {"toolUse": {"toolUseId": "t1", "name": "look"}}}),
    _delta(2, toolUse={"input": '{"at":'}),
    _delta(2, toolUse={"input": "1}"}),
    event("contentBlockStop", {"contentBlockIndex": 2}),
    event("messageStop", {"stopReason": "tool_use"}),
)
TALKING = (
    _delta(1, text="llo."),
    event("contentBlockStop", {"contentBlockIndex": 1}),
    event("messageStop", {"stopReason": "end_turn"}),
)
REFUSALS = {
    "slow": (429, "ThrottlingException:http://internal.amazon.com/coral/", "Too many tokens, please wait."),
    "long": (400, "ValidationException", "Input is too long for requested model."),
    "bad": (400, "ValidationException", "The maximum tokens you requested exceeds the model limit."),
    "denied": (403, "AccessDeniedException", "User arn:aws:iam::123:user/x is not authorized"),
    "model error": (424, "ModelErrorException", "The model broke."),
}


async def _respond(request: Any, conversation: Any) -> None:
    said = request.json["messages"][-1]["content"][0].get("text", "")
    calls = "toolConfig" in request.json and said == "hi"
    if said in REFUSALS:
        status, kind, words = REFUSALS[said]
        body = json.dumps({"message": words}).encode()
        await conversation.answer(body, status=status, headers={"x-amzn-errortype": kind})
    elif request.path.endswith("/converse"):
        await conversation.answer(_whole(USED, "tool_use") if calls else _whole({"text": "llo."}, "end_turn"))
    else:
        rest = CALLING if calls else TALKING
        if said == "break":
            rest = (exception("throttlingException", "Too many requests"),)
        events = (*OPENING, *rest, event("metadata", COUNTED))
        await conversation.stream(*events, kind="application/vnd.amazon.eventstream")


Over = Callable[..., Awaitable[tuple[Any, Any]]]


@pytest.fixture
async def over(serve: Any, start_gateway: Any, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Starts a gateway over it, with these parameters; gives the upstream too."""
    monkeypatch.setenv("AWS_ID", "AKIDEXAMPLE")
    monkeypatch.setenv("AWS_SECRET", "aws-secret")
    async with serve(_respond) as upstream:

        async def start(**fields: Any) -> tuple[Any, Any]:
            who = fields or {"access_key_env": "AWS_ID", "secret_key_env": "AWS_SECRET"}
            address = upstream.url.removesuffix("/v1")
            bedrock = {"use": "bedrock", "region": "eu-central-1", "base_url": address, "models": [MODEL], **who}
            return await start_gateway({"backends": {"aws": bedrock}}), upstream

        yield start


async def test_a_chat(over: Over) -> None:
    """Whole and streamed, with what was thought and counted; each request is signed."""
    front, upstream = await over()
    client = front.openai()
    whole = await client.chat.completions.create(**ASK)
    stream = await client.chat.completions.create(**ASK, stream=True, stream_options={"include_usage": True})
    chunks = [chunk async for chunk in stream]
    assert ("Hello.", "hm") == (whole.choices[0].message.content, whole.choices[0].message.reasoning_content)
    assert "Hello." == "".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices)
    for usage in (whole.usage, chunks[-1].usage):
        assert (9, 7, 3) == (usage.prompt_tokens, usage.completion_tokens, usage.prompt_tokens_details.cached_tokens)
    path = "/model/eu.anthropic.claude-x-v1%3A0"
    assert [f"{path}/converse", f"{path}/converse-stream"] == [request.path for request in upstream.requests]
    for request in upstream.requests:
        assert dict(request.headers)["authorization"].startswith("AWS4-HMAC-SHA256 Credential=AKIDEXAMPLE/")
        assert b"aws-secret" not in request.body


@pytest.mark.parametrize("stream", [False, True])
async def test_a_call_its_signed_thought_and_its_result(over: Over, stream: bool) -> None:
    """The whole round by Anthropic's client, whose next turn brings all of it back."""
    front, upstream = await over()
    tools = [{"name": "look", "input_schema": {"type": "object"}}]
    asked = {**ASK, "max_tokens": 99, "tools": tools}
    client = front.anthropic()
    if stream:
        async with client.messages.stream(**asked) as events:
            message = await events.get_final_message()
    else:
        message = await client.messages.create(**asked)
    assert ["thinking", "text", "tool_use"] == [block.type for block in message.content]
    assert ("tool_use", "sig", {"at": 1}) == (
        message.stop_reason,
        message.content[0].signature,
        message.content[2].input,
    )
    assert (4, 3, 2) == (
        message.usage.input_tokens,
        message.usage.cache_read_input_tokens,
        message.usage.cache_creation_input_tokens,
    )
    result = {"type": "tool_result", "tool_use_id": message.content[2].id, "content": "the sea"}
    content = [block.model_dump(exclude_none=True) for block in message.content]
    turns = [*ASK["messages"], {"role": "assistant", "content": content}, {"role": "user", "content": [result]}]
    again = await client.messages.create(**{**asked, "messages": turns})
    assert "Hello." == "".join(block.text for block in again.content if block.type == "text")
    assert [THOUGHT, {"text": "He"}, USED] == upstream.requests[-1].json["messages"][1]["content"]


async def test_a_response(over: Over) -> None:
    """OpenAI's other format, called and streamed."""
    front, _ = await over()
    function = {"type": "function", "name": "look", "parameters": {"type": "object"}, "strict": False}
    response = await front.openai().responses.create(model=MODEL, input="hello")
    assert "Hello." == response.output_text
    stream = await front.openai().responses.create(model=MODEL, input="hi", tools=[function], stream=True)
    events = [one async for one in stream]
    (call,) = (item for item in events[-1].response.output if item.type == "function_call")
    assert ("look", '{"at":1}') == (call.name, call.arguments)


async def test_bedrocks_own_keys(over: Over, monkeypatch: pytest.MonkeyPatch) -> None:
    """Sent as they are, with no signature."""
    monkeypatch.setenv("BEDROCK_KEY", "bedrock-key")
    front, upstream = await over(api_key_env="BEDROCK_KEY")
    await front.openai().chat.completions.create(**ASK)
    assert "Bearer bedrock-key" == dict(upstream.requests[0].headers)["authorization"]


@pytest.mark.parametrize(
    ("said", "expected", "code"),
    [
        ("slow", openai.RateLimitError, "ThrottlingException"),
        ("long", openai.BadRequestError, "ValidationException"),
        ("bad", openai.BadRequestError, "ValidationException"),
        ("denied", openai.InternalServerError, "upstream_unauthorised"),
        ("model error", openai.InternalServerError, "ModelErrorException"),
    ],
)
async def test_what_aws_refuses_is_told_by_its_exception(over: Over, said: str, expected: Any, code: str) -> None:
    """In the client's own format; of our account no word goes on."""
    front, _ = await over()
    with pytest.raises(expected) as caught:
        await front.openai(max_retries=0).chat.completions.create(
            model=MODEL, messages=[{"role": "user", "content": said}]
        )
    assert code == caught.value.code
    assert "arn:" not in str(caught.value)


async def test_an_exception_in_the_middle_ends_the_stream_with_an_error(over: Over) -> None:
    """What was said before it stays said."""
    front, _ = await over()
    said: list[str] = []
    turns = [{"role": "user", "content": "break"}]
    with pytest.raises(anthropic.APIStatusError, match="Too many requests"):
        async with front.anthropic().messages.stream(model=MODEL, max_tokens=9, messages=turns) as stream:
            said.extend([text async for text in stream.text_stream])
    assert said in ([], ["He"])


async def test_what_it_cannot_carry_is_refused_by_name(over: Over) -> None:
    """In the client's own format."""
    front, _ = await over()
    with pytest.raises(openai.BadRequestError) as caught:
        await front.openai().chat.completions.create(**ASK, logit_bias={"1": 1})
    assert "logit_bias" == caught.value.param
