"""Guards before the official clients, over real sockets: what they see, what is booked, measured and traced."""

import asyncio
from typing import Any

import anthropic
import msgspec
import openai
import pytest

from gateway.commands import explain
from tests.anthropic_answers import checked_events
from tests.integration.seams import SEAMS, choose_seam

CARD = "4111 1111 1111 1111"
SAID = f"Well, your card is {CARD}, and that is all that I can tell you about it today."
CLEAN = SAID.replace(CARD, "[card]")
PATTERN = {"use": "pattern", "patterns": [r"\b[0-9]{4}( [0-9]{4}){3}\b"], "replacement": "[card]", "on_error": "refuse"}
PRICE = {"input_usd_per_mtok": 100, "output_usd_per_mtok": 100}
CHAT: dict[str, Any] = {"model": "fake", "messages": [{"role": "user", "content": f"I pay with {CARD}."}]}
MESSAGE = {**CHAT, "max_tokens": 100}
WINDOW = {**PATTERN, "when": "after", "action": "redact", "stream": "window"}
HOLD = {**WINDOW, "stream": "hold"}
CUT = {**WINDOW, "action": "block"}


@pytest.fixture(params=SEAMS)
async def front_with(request: Any, start_gateway: Any, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Starts a gateway with these guards, whose backend tells the number of a card."""
    choose_seam(request.param, monkeypatch)

    async def start(*guards: dict[str, Any], **settings: Any) -> Any:
        backend = {"use": "fake", "text": SAID, "models": {"fake": {"price": PRICE}}}
        routes = {"all": {"models": ["*"], "targets": ["up"], "guards": list(guards)}}
        return await start_gateway({"backends": {"up": backend}, "routes": routes}, **settings)

    return start


@pytest.mark.parametrize("guard", [WINDOW, HOLD], ids=["window", "hold"])
async def test_openais_client_reads_a_redacted_chat(front_with: Any, guard: dict[str, Any]) -> None:
    """Streamed by the client's own accumulator, whole, and as a completion and a response."""
    client = (await front_with(guard)).openai()
    async with client.chat.completions.stream(**CHAT) as stream:
        final = await stream.get_final_completion()
    assert (CLEAN, "stop") == (final.choices[0].message.content, final.choices[0].finish_reason)
    whole = await client.chat.completions.create(**CHAT)
    assert CLEAN == whole.choices[0].message.content
    completion = await client.completions.create(model="fake", prompt="Pay.")
    assert CLEAN == completion.choices[0].text
    async with client.responses.stream(model="fake", input="Pay.") as stream:
        response = await stream.get_final_response()
    assert ("completed", CLEAN) == (response.status, response.output_text)
    kept = await client.responses.retrieve(response.id)
    assert CLEAN == kept.output_text


@pytest.mark.parametrize("guard", [WINDOW, HOLD], ids=["window", "hold"])
async def test_anthropics_client_reads_a_redacted_message(front_with: Any, guard: dict[str, Any]) -> None:
    """Streamed and whole; each event is of the official types, in their order."""
    front = await front_with(guard)
    client = front.anthropic()
    async with client.messages.stream(**MESSAGE) as stream:
        words = [text async for text in stream.text_stream]
        final = await stream.get_final_message()
    assert (CLEAN, CLEAN, "end_turn") == ("".join(words), final.content[0].text, final.stop_reason)
    assert CLEAN == (await client.messages.create(**MESSAGE)).content[0].text
    checked_events((await front.post({**MESSAGE, "stream": True}, path="/v1/messages")).content)


async def test_ollamas_client_reads_a_redacted_chat(front_with: Any) -> None:
    """Line by line."""
    client = (await front_with(WINDOW)).ollama()
    pieces = [piece async for piece in await client.chat(model="fake", messages=CHAT["messages"], stream=True)]
    assert CLEAN == "".join(piece.message.content or "" for piece in pieces)
    assert ("stop", True) == (pieces[-1].done_reason, pieces[-1].done)
    assert CLEAN == (await client.chat(model="fake", messages=CHAT["messages"])).message.content


async def test_the_clients_understand_a_stream_that_a_guard_ends(front_with: Any) -> None:
    """As one that a filter stopped: no exception, an honest reason, and nothing of the card."""
    front = await front_with(CUT)
    stream = await front.openai().chat.completions.create(**CHAT, stream=True)
    chunks = [chunk async for chunk in stream]
    text = "".join(choice.delta.content or "" for chunk in chunks for choice in chunk.choices)
    assert (True, "content_filter") == (text in SAID, chunks[-1].choices[0].finish_reason)
    assert "4111" not in text
    async with front.anthropic().messages.stream(**MESSAGE) as messages:
        final = await messages.get_final_message()
    assert ("refusal", True) == (final.stop_reason, SAID.startswith(final.content[0].text))
    checked_events((await front.post({**MESSAGE, "stream": True}, path="/v1/messages")).content)
    events = [event async for event in await front.openai().responses.create(model="fake", input="x", stream=True)]
    assert ("response.incomplete", "content_filter") == (events[-1].type, events[-1].response.incomplete_details.reason)
    numbers = [event.sequence_number for event in events]
    assert sorted(set(numbers)) == numbers
    for row in await front.rows():
        assert ("rejected", 200, "pattern:block", True) == (
            row["status"],
            row["http_status"],
            row["guards"],
            row["cost_pico_usd"] > 0,
        )


async def test_the_clients_raise_on_what_does_not_go_in(front_with: Any) -> None:
    """A bad request with the code of content filters, once: neither asks again."""
    front = await front_with({**PATTERN, "when": "before", "action": "block"})
    with pytest.raises(openai.BadRequestError) as raised:
        await front.openai(max_retries=2).chat.completions.create(**CHAT)
    assert "content_filter" == raised.value.code
    with pytest.raises(anthropic.BadRequestError, match="does not let the request pass"):
        await front.anthropic(max_retries=2).messages.create(**MESSAGE)
    assert 2 == len(await front.rows())
    assert 0 == front.backend("up").open_calls


async def test_a_silent_guard_is_asked_once(front_with: Any) -> None:
    """A client that would try again is told not to."""
    hook = {"use": "http", "url": "http://127.0.0.1:9/", "when": "after", "on_error": "refuse", "timeout_s": 0.2}
    front = await front_with(hook)
    with pytest.raises(openai.InternalServerError):
        await front.openai(max_retries=2).chat.completions.create(**CHAT)
    (row,) = await front.rows()
    assert ("rejected", 503, "http:failed:block") == (row["status"], row["http_status"], row["guards"])
    assert row["cost_pico_usd"] > 0


async def test_what_guards_do_is_counted_and_timed(front_with: Any) -> None:
    """By names of the policy file and words of ours."""
    front = await front_with({**PATTERN, "name": "cards", "when": "before", "action": "redact"}, WINDOW)
    await asyncio.gather(*(front.openai().chat.completions.create(**CHAT) for _ in range(3)))
    series = await front.series()
    assert 3 == series['headrace_guard_decisions_total{action="redact",guard="cards",stage="before"}']
    assert 3 == series['headrace_guard_decisions_total{action="redact",guard="pattern",stage="after"}']
    assert 3 == series['headrace_guard_seconds_count{guard="cards",stage="before"}']
    assert not any(CARD in name for name in series)


async def test_traces_tell_what_guards_did(front_with: Any, collector: Any) -> None:
    """In the words of the ledger."""
    front = await front_with({**PATTERN, "when": "before", "action": "redact"})
    await front.openai().chat.completions.create(**CHAT)
    await front.stop()
    await collector.until(lambda: len(collector.spans) == 2)
    told = [span.attributes["headrace.guards"] for span in collector.spans if "headrace.guards" in span.attributes]
    assert [("pattern:redact",)] == [tuple(each) for each in told]


async def test_a_request_that_a_guard_stops_counts_on_request_limits(start_gateway: Any) -> None:
    """And on no other: it took no token and no money."""
    import hashlib

    key = hashlib.sha256(b"test").hexdigest()
    limits = [{"requests": 2, "per": "hour"}, {"usd": 1, "per": "hour", "unpriced": "allow"}]
    front = await start_gateway(
        {
            "backends": {"up": {"use": "fake"}},
            "routes": {
                "all": {
                    "models": ["*"],
                    "targets": ["up"],
                    "guards": [{**PATTERN, "when": "before", "action": "block"}],
                }
            },
            "tenants": {"acme": {"keys_sha256": [key], "limits": limits}},
        }
    )
    headers = {"authorization": "Bearer test"}
    answers = [await front.post(CHAT, headers=headers) for _ in range(3)]
    assert [400, 400, 429] == [answer.status_code for answer in answers]


def test_explain_says_which_guards_a_request_would_meet(tmp_path: Any, capsys: pytest.CaptureFixture[str]) -> None:
    """In the order in which they look, for people and for programs."""
    file, request = tmp_path / "policy.yaml", tmp_path / "request.json"
    guards = [{**PATTERN, "name": "cards", "when": "before", "action": "redact"}, {**WINDOW, "on_error": "allow"}]
    route = {"models": ["*"], "targets": ["up"], "guards": guards}
    policy = {"backends": {"up": {"use": "fake"}}, "routes": {"all": route}}
    file.write_bytes(msgspec.json.encode(policy))
    request.write_bytes(msgspec.json.encode(CHAT))
    assert 0 == explain.run(_arguments(file, request))
    told = [line for line in capsys.readouterr().out.splitlines() if line.startswith("guard ")]
    assert [
        "guard      before the answer, cards (pattern): redact; where it cannot look: refuse",
        "guard      after the answer, pattern: redact; holds back what may begin a match; where it cannot look: allow",
    ] == told
    explain.run(_arguments(file, request, "--json"))
    known = msgspec.json.decode(capsys.readouterr().out)["guards"]
    assert [("cards", "before", "refuse"), ("pattern", "after", "allow")] == [
        (one["name"], one["when"], one["on_error"]) for one in known
    ]
    request.write_bytes(b'{"model": "any", "prompt": "a cat", "input": "a cat"}')
    explain.run(_arguments(file, request, "--format", "speech"))
    told = [line for line in capsys.readouterr().out.splitlines() if line.startswith("guard ")]
    assert ["guard      before the answer, cards (pattern): redact; where it cannot look: refuse"] == told
    for words in ("transcription", "image"):
        explain.run(_arguments(file, request, "--format", words))
        assert 2 == capsys.readouterr().out.count("guard  ")


def _arguments(policy: Any, request: Any, *more: str) -> Any:
    import argparse

    parser = argparse.ArgumentParser()
    explain.add_arguments(parser)
    return parser.parse_args([str(policy), str(request), *more])
