"""``llm-comply`` on a served gateway: all that it asks of OpenAI's chat and Responses and of Anthropic's Messages."""

import asyncio
import json
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from gateway.price import Usage
from gateway.types import Operation
from gateway.wire.openai_answer import Answered, Called, StreamWriter, whole_answer

COMMAND = Path(sys.executable).with_name("llm-comply")
USAGE = Usage(prompt_tokens=9, output_tokens=3)
# Models by whose names it asks for reasoning, too.
ASKED = {"openai-chat": ("gpt-5", 9), "anthropic": ("claude-sonnet-4-5", 9), "open-responses": ("gpt-5", 13)}


async def _respond(request: Any, conversation: Any) -> None:
    """A chat that calls the first tool that it is offered, as OpenAI would write it."""
    fields = request.json
    tools = fields.get("tools") or ()
    calls = [Called("call_1", tools[0]["function"]["name"], '{"location":"Paris"}')] if tools else []
    reason = "tool_calls" if calls else "stop"
    if fields.get("stream"):
        writer = StreamWriter(Operation.CHAT, "chatcmpl-1", fields["model"], 1)
        said = [writer.call(0, 0, calls[0])] if calls else [writer.text(0, "Hello"), writer.text(0, " there.")]
        await conversation.stream(
            writer.opening(0), *said, writer.finish(0, reason), writer.usage(USAGE), writer.done()
        )
        return
    answer = Answered("" if calls else "Hello there.", reason, calls=calls)
    body = msgspec.json.decode(whole_answer(Operation.CHAT, "chatcmpl-1", fields["model"], 1, [answer], USAGE))
    choice = body["choices"][0]
    choice |= {"logprobs": None, "message": {"refusal": None, "annotations": [], **choice["message"]}}
    await conversation.answer(msgspec.json.encode(body))


@pytest.mark.parametrize("form", ASKED)
async def test_it_is_content(form: str, gateway_over: Callable[..., Awaitable[tuple[Any, Any]]]) -> None:
    """Nothing fails and nothing is passed over."""
    gateway, _ = await gateway_over(_respond)
    model, count = ASKED[form]
    process = await asyncio.create_subprocess_exec(
        str(COMMAND), "-u", gateway.url, "-k", "sk-test", "-m", model, "--format", form, "--json",
        stdout=asyncio.subprocess.PIPE,
    )  # fmt: skip
    told, _ = await process.communicate()
    results = json.loads(told[told.index(b"{") :])["results"]
    assert {"passed": count} == {
        status: sum(result["status"] == status for result in results) for status in {it["status"] for it in results}
    }, [result for result in results if result["status"] != "passed"]
