"""Guards that ask a service: what it may do, and what happens whatever else it does."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from typing import Any

import msgspec
import pytest

from gateway.guard_mark import Action, Stage

OpenHouse = Callable[..., AbstractAsyncContextManager[Any]]
Answer = Callable[[Any, Any], Awaitable[None]]


def _policy(url: str, *, when: str = "before", on_error: str = "refuse", **more: str) -> str:
    fields = {"when": when, "use": "http", "name": "hook", "url": url, "on_error": on_error, **more}
    rule = ", ".join(f"{name}: {value}" for name, value in fields.items())
    return f"""
        backends: {{only: {{use: fake, text: the answer has a secret}}}}
        routes: {{main: {{models: ["*"], targets: [only], guards: [{{{rule}}}]}}}}
    """


@pytest.fixture
async def hook(serve: Any) -> AsyncIterator[Any]:
    """Starts a service that answers each question with what ``say`` makes of it."""
    open_services = []

    async def start(say: Callable[[dict[str, Any]], Any] | None = None, *, respond: Answer | None = None) -> Any:
        async def answer(request: Any, conversation: Any) -> None:
            assert say is not None
            await conversation.answer(msgspec.json.encode(say(request.json)))

        service = serve(respond or answer)
        upstream = await service.__aenter__()
        open_services.append(service)
        return upstream

    yield start
    for service in open_services:
        await service.__aexit__(None, None, None)


async def test_it_is_shown_texts_and_says_what_they_should_be(
    open_house: OpenHouse, make_exchange: Any, clock: Any, hook: Any
) -> None:
    """Each with its kind and role; ``null`` leaves one as it is; keys come out of the environment."""
    service = await hook(
        lambda _: {"action": "redact", "texts": [None, "say nothing"], "annotations": {"risk": "high", "x": "y"}}
    )
    headers = "{x-guard-key: {env: GUARD_KEY}, x-team: red}"
    text = _policy(service.url, headers=headers, api_key_env="GUARD_KEY", annotations="[risk]")
    async with open_house(text, clock=clock) as house:
        turns = [{"role": "system", "content": "be kind"}, {"role": "user", "content": "say a secret"}]
        exchange = await house.serve(make_exchange(messages=turns))
        (asked,) = service.requests
        assert ["be kind", "say nothing"] == [turn.content for turn in house.entry.request.messages]
        assert (
            [
                {"text": "be kind", "kind": "text", "role": "system"},
                {"text": "say a secret", "kind": "text", "role": "user"},
            ],
            "before",
            house.entry.arrival.id,
            "small",
        ) == (asked.json["texts"], asked.json["stage"], asked.json["request_id"], asked.json["model"])
        sent = dict(asked.headers)
        assert ("Bearer guard-secret", "guard-secret", "red") == (
            sent["authorization"],
            sent["x-guard-key"],
            sent["x-team"],
        )
        assert "hook:redact:risk=high" == exchange.answer_headers["x-headrace-guards"]


@pytest.mark.parametrize("stream", [True, False])
async def test_after_an_answer_it_sees_how_it_ended(
    open_house: OpenHouse, make_exchange: Any, clock: Any, hook: Any, stream: bool
) -> None:
    """And what it puts in its place is what the client gets, as a stream where it asked for one."""
    service = await hook(
        lambda asked: {"action": "redact", "texts": [one["text"].replace("secret", "S") for one in asked["texts"]]}
    )
    async with open_house(_policy(service.url, when="after"), clock=clock) as house:
        exchange = await house.serve(make_exchange(stream=stream))
        (asked,) = service.requests
        assert ("after", ["stop"], []) == (
            asked.json["stage"],
            asked.json["finish_reasons"],
            asked.json["tool_calls"],
        )
        said = exchange.text if stream else exchange.json["choices"][0]["message"]["content"]
        assert "the answer has a S" == said


async def test_it_may_block_and_say_why_in_a_word(
    open_house: OpenHouse, make_exchange: Any, clock: Any, hook: Any
) -> None:
    """More than a word could quote what it was shown, and is not told."""
    for reason, told in (("jailbreak", "(jailbreak)"), ("you said a secret", "pass")):
        service = await hook(lambda _, reason=reason: {"action": "block", "reason": reason})
        async with open_house(_policy(service.url), clock=clock) as house:
            exchange = await house.serve(make_exchange())
            assert (400, True) == (exchange.status, exchange.json["error"]["message"].endswith(told))


async def _hangs(request: Any, conversation: Any) -> None:
    del request
    await conversation.until_closed()


async def _breaks(request: Any, conversation: Any) -> None:
    del request
    conversation.reset()


def _says(body: bytes, *, status: int = 200) -> Answer:
    async def respond(request: Any, conversation: Any) -> None:
        del request
        await conversation.answer(body, status=status, headers={"location": "http://127.0.0.1:1/"})

    return respond


MISBEHAVIOUR: dict[str, Answer] = {
    "hangs": _hangs,
    "breaks": _breaks,
    "500": _says(b'{"action": "allow"}', status=500),
    "redirects": _says(b'{"action": "allow"}', status=302),
    "says nothing": _says(b""),
    "says no JSON": _says(b"<html>"),
    "says a list": _says(b"[]"),
    "says no action": _says(b"{}"),
    "says an unknown action": _says(b'{"action": "explode"}'),
    "says more than may be": _says(b'{"action": "allow", "x": "' + b"x" * 5000 + b'"}'),
    "says too few texts": _says(b'{"action": "redact", "texts": []}'),
    "says numbers": _says(b'{"action": "redact", "texts": [3]}'),
    "nests deeply": _says(b'{"action": ' + b"[" * 3000 + b"]" * 3000 + b"}"),
}


@pytest.mark.parametrize("misbehaviour", list(MISBEHAVIOUR))
@pytest.mark.parametrize("when", ["before", "after"])
async def test_whatever_it_does_the_file_says_what_happens(
    open_house: OpenHouse, make_exchange: Any, clock: Any, hook: Any, misbehaviour: str, when: str
) -> None:
    """Nothing passes without it, or everything does; and its words are nobody's to see."""
    service = await hook(respond=MISBEHAVIOUR[misbehaviour])
    for on_error, status, action in (("refuse", 503, Action.BLOCK), ("allow", 200, Action.ALLOW)):
        text = _policy(service.url, when=when, on_error=on_error, timeout_s="0.1", max_reply_bytes="4096")
        async with open_house(text, clock=clock) as house:
            exchange = await house.serve(make_exchange())
            (mark,) = house.entry.guards
            assert (status, True, action, Stage(when)) == (exchange.status, mark.failed, mark.action, mark.stage)
            assert f"hook:failed:{action}" == exchange.answer_headers["x-headrace-guards"]
            assert house.is_quiet()


async def test_a_service_that_is_not_there_is_one_that_cannot_say(
    open_house: OpenHouse, make_exchange: Any, clock: Any
) -> None:
    """Nobody listens on that port."""
    async with open_house(_policy("http://127.0.0.1:9/"), clock=clock) as house:
        assert 503 == (await house.serve(make_exchange())).status


async def test_no_more_questions_are_asked_at_a_time_than_the_file_says(
    open_house: OpenHouse, make_exchange: Any, clock: Any, hook: Any
) -> None:
    """The others wait, within the guard's time."""
    under_way, most = 0, 0

    async def respond(request: Any, conversation: Any) -> None:
        nonlocal under_way, most
        del request
        under_way += 1
        most = max(most, under_way)
        for _ in range(20):
            await asyncio.sleep(0)
        under_way -= 1
        await conversation.answer(b'{"action": "allow"}')

    service = await hook(respond=respond)
    async with open_house(_policy(service.url, concurrency="2", timeout_s="20"), clock=clock) as house:
        exchanges = await asyncio.gather(*(house.serve(make_exchange()) for _ in range(8)))
        assert ([200] * 8, 2) == ([exchange.status for exchange in exchanges], most)


async def test_one_that_may_only_annotate_can_do_nothing_else(
    open_house: OpenHouse, make_exchange: Any, clock: Any, hook: Any
) -> None:
    """What it may not say counts as if it could not say."""
    service = await hook(lambda _: {"action": "block"})
    text = _policy(service.url, on_error="allow", actions_allowed="[annotate]")
    async with open_house(text, clock=clock) as house:
        exchange = await house.serve(make_exchange())
        assert (200, "hook:failed:allow") == (exchange.status, exchange.answer_headers["x-headrace-guards"])
