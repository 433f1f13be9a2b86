"""What answers cost, over every endpoint, streamed and whole: the same for the same, never nothing for something."""

from typing import Any

import msgspec
import pytest

ENDPOINTS = ["/v1/chat/completions", "/v1/completions", "/v1/embeddings"]
TEXT = "Because of Rayleigh scattering."
COUNTS = {"prompt_tokens": 1000, "completion_tokens": 7, "total_tokens": 1007}
PRICED = {"price": {"input_usd_per_mtok": 3, "output_usd_per_mtok": 15}}
MICRO = 10**6
USAGES: dict[str, dict[str, Any] | None] = {
    "as usual": COUNTS,
    "with the last words": COUNTS,
    "and a cost of nothing": {**COUNTS, "cost": 0},
    "none": None,
}


def _whole(path: str, usage: Any) -> bytes:
    said = {"usage": usage} if usage is not None else {}
    if path == ENDPOINTS[2]:
        data = [{"object": "embedding", "index": 0, "embedding": [0.5]}]
        return msgspec.json.encode({"object": "list", "model": "m", "data": data, **said})
    choice = {"message": {"role": "assistant", "content": TEXT}} if path == ENDPOINTS[0] else {"text": TEXT}
    choices = [{"index": 0, "finish_reason": "stop", **choice}]
    return msgspec.json.encode({"id": "u", "object": "o", "created": 1, "model": "m", "choices": choices, **said})


def _stream(path: str, usage: Any, *, with_the_last: bool) -> list[bytes]:
    envelope = {"id": "u", "object": "o", "created": 1, "model": "m"}
    word = {"delta": {"content": TEXT}} if path == ENDPOINTS[0] else {"text": TEXT}
    end = {"delta": {}} if path == ENDPOINTS[0] else {"text": ""}
    chunks: list[dict[str, Any]] = [
        {**envelope, "choices": [{"index": 0, "finish_reason": None, **word}]},
        {**envelope, "choices": [{"index": 0, "finish_reason": "stop", **end}]},
    ]
    if usage is not None and with_the_last:
        chunks[-1]["usage"] = usage
    elif usage is not None:
        chunks.append({**envelope, "choices": [], "usage": usage})
    return [*(b"data: " + msgspec.json.encode(chunk) + b"\n\n" for chunk in chunks), b"data: [DONE]\n\n"]


async def _attempt(gateway_over: Any, path: str, usage: Any, *, stream: bool, how: str, **model: Any) -> dict[str, Any]:
    """The one attempt on the ledger."""

    async def respond(_: Any, conversation: Any) -> None:
        if stream:
            await conversation.stream(*_stream(path, usage, with_the_last=how == "with the last words"))
        else:
            await conversation.answer(_whole(path, usage))

    front, _ = await gateway_over(respond, models={"m": model})
    options: dict[str, Any] = {"stream": True} if stream else {}
    if path == ENDPOINTS[2]:
        options = {"input": "Why is the sky blue?"}
    response = await front.post(options, path=path)
    assert 200 == response.status_code, response.content
    (attempt,) = (await front.row())["attempts_made"]
    return dict(attempt)


@pytest.mark.parametrize("path", ENDPOINTS)
@pytest.mark.parametrize("how", USAGES)
async def test_streamed_and_whole_answers_cost_the_same(gateway_over: Any, path: str, how: str) -> None:
    """Wherever the upstream says what was used; where it says nothing, we count, and it is marked."""
    usage = USAGES[how]
    modes = [False] if path == ENDPOINTS[2] else [False, True]
    found = [await _attempt(gateway_over, path, usage, stream=stream, how=how, **PRICED) for stream in modes]
    columns = ("prompt_tokens", "output_tokens", "cost_pico_usd", "cost_source", "cost_doubts", "estimated")
    costs = {tuple(attempt[name] for name in columns) for attempt in found}
    ((prompt_tokens, output_tokens, cost_pico_usd, source, doubts, estimated),) = costs
    assert (prompt_tokens * 3 + output_tokens * 15) * MICRO == cost_pico_usd
    assert cost_pico_usd > 0
    assert "policy" == source
    if usage is None:
        assert ("estimated_usage", 1) == (doubts, estimated)
    else:
        assert (1000, 7, 0) == (prompt_tokens, output_tokens, estimated)
        assert ("stated_zero" if "cost" in usage else "") == doubts


@pytest.mark.parametrize("stream", [False, True])
async def test_an_unknown_price_is_never_free(gateway_over: Any, stream: bool) -> None:
    """The cost is empty, and a zero that the upstream states is marked."""
    usage = {**COUNTS, "cost": 0}
    attempt = await _attempt(gateway_over, ENDPOINTS[0], usage, stream=stream, how="as usual")
    assert (None, "", "stated_zero") == (attempt["cost_pico_usd"], attempt["cost_source"], attempt["cost_doubts"])


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize(
    ("prompt", "cached", "written", "expected_micro_usd", "doubts"),
    [
        (1000, 0, 0, 3000, ""),
        (1000, 900, 0, 3000, "no_cache_price"),
        (1000, 1000, 0, 3000, "no_cache_price"),
        (100, 900, 0, 300, "inconsistent_usage no_cache_price"),
        (1000, -5, 0, 3000, "inconsistent_usage"),
        (1000, 0, 500, 3000, ""),
    ],
)
async def test_every_prompt_token_is_paid_once(
    gateway_over: Any, stream: bool, prompt: int, cached: int, written: int, expected_micro_usd: int, doubts: str
) -> None:
    """Whatever the upstream says of its cache, where the price has nothing to say of it."""
    details = {"cached_tokens": cached, "cache_write_tokens": written}
    usage = {"prompt_tokens": prompt, "completion_tokens": 0, "prompt_tokens_details": details}
    attempt = await _attempt(gateway_over, ENDPOINTS[0], usage, stream=stream, how="as usual", **PRICED)
    assert (expected_micro_usd * MICRO, doubts) == (attempt["cost_pico_usd"], attempt["cost_doubts"])


@pytest.mark.parametrize("stream", [False, True])
async def test_a_cache_price_is_for_what_was_cached(gateway_over: Any, stream: bool) -> None:
    """With a price of its own, each part is paid by it, in whole numbers."""
    price = {**PRICED["price"], "cached_input_usd_per_mtok": 0.3, "cache_write_usd_per_mtok": 3.75}
    details = {"cached_tokens": 900, "cache_write_tokens": 50}
    usage = {"prompt_tokens": 1000, "completion_tokens": 1, "prompt_tokens_details": details}
    attempt = await _attempt(gateway_over, ENDPOINTS[0], usage, stream=stream, how="as usual", price=price)
    expected_micro_usd = 50 * 3 + 900 * 0.3 + 50 * 3.75 + 15
    assert (round(expected_micro_usd * MICRO), "") == (attempt["cost_pico_usd"], attempt["cost_doubts"])


async def test_a_broken_stream_is_paid_by_what_came(gateway_over: Any) -> None:
    """Estimated, where the count never came, and marked so."""

    async def respond(_: Any, conversation: Any) -> None:
        await conversation.stream(_stream(ENDPOINTS[0], None, with_the_last=False)[0], end=False)
        conversation.writer.close()

    front, _ = await gateway_over(respond, models={"m": PRICED})
    await front.post({"stream": True})
    (attempt,) = (await front.row())["attempts_made"]
    assert ("truncated", 1, "estimated_usage") == (attempt["status"], attempt["estimated"], attempt["cost_doubts"])
    assert attempt["output_tokens"] >= len(TEXT) // 8
    assert attempt["cost_pico_usd"] >= attempt["output_tokens"] * 15 * MICRO
