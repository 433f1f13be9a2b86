"""The rest of the house holds for what is passed on: keys, limits, budgets, retries, caches; and what does not."""

import asyncio
from collections.abc import Mapping
from decimal import Decimal
from typing import Any

import pytest

from tests.integration.conftest import KEY
from tests.integration.pass_through.conftest import PRICED, SOUND, Provider, head
from tests.loopback import Conversation, Received

BEARER = {"authorization": f"Bearer {KEY}"}
SPEECH = {"model": "tts-1", "input": "x" * 1000, "voice": "alloy"}
"""For 0.015 US dollars."""
FORM = (
    b'--b\r\nContent-Disposition: form-data; name="model"\r\n\r\nwhisper-1\r\n'
    b'--b\r\nContent-Disposition: form-data; name="file"; filename="a.mp3"\r\n\r\n\x00\xff\r\n--b--\r\n'
)
FORM_TYPE = {"content-type": "multipart/form-data; boundary=b"}


def _routes(**route: Any) -> dict[str, Any]:
    return {model: {"models": [model], "targets": [f"provider/{model}"], **route} for model in PRICED}


def _two(provider: Provider, first: Mapping[str, Any]) -> dict[str, Any]:
    routes = {"all": {"models": ["*"], "targets": ["first/whisper-1", "provider/whisper-1"], "cost": ["money"]}}
    return {"backends": {"first": first, "provider": provider.backend()}, "routes": routes}


async def test_a_key_is_asked_for_and_says_what_it_may(open_front: Any) -> None:
    """As for text: nobody without one, and no model that is not the key's."""
    keys = {"acme": {"keys_sha256": [_digest()], "models": ["tts-*"]}}
    front = await open_front({"tenants": keys})
    assert 401 == (await front.http.post("/v1/audio/speech", json=SPEECH)).status_code
    assert 200 == (await front.http.post("/v1/audio/speech", json=SPEECH, headers=BEARER)).status_code
    refused = await front.http.post("/v1/audio/transcriptions", content=FORM, headers={**BEARER, **FORM_TYPE})
    assert 404 == refused.status_code
    assert ["rejected", "ok", "rejected"] == [row["status"] for row in await front.rows()]


def _digest() -> str:
    import hashlib

    return hashlib.sha256(KEY.encode()).hexdigest()


async def test_money_is_reserved_and_settled(open_front: Any) -> None:
    """What is known beforehand is set aside: two of these fit into three cents, and a third does not."""
    limits = [{"usd": 0.03, "per": "day"}]
    front = await open_front({"tenants": {"acme": {"keys_sha256": [_digest()], "limits": limits}}})
    answers = [await front.http.post("/v1/audio/speech", json=SPEECH, headers=BEARER) for _ in range(3)]
    assert [200, 200, 429] == [answer.status_code for answer in answers]
    assert [15_000_000_000, 15_000_000_000, 0] == [row["cost_pico_usd"] for row in await front.rows()]


@pytest.mark.parametrize(("model", "usd"), [("whisper-1", 0.0002), ("gpt-4o-transcribe", 0.00012)])
async def test_what_does_not_say_what_it_took_is_not_free_of_limits(open_front: Any, model: str, usd: float) -> None:
    """Subtitles do not say how long the sound was: their cost is unknown, and what was reserved is settled."""
    limits = [{"usd": usd, "per": "day"}]
    front = await open_front({"tenants": {"acme": {"keys_sha256": [_digest()], "limits": limits}}})
    second = FORM.replace(b"\x00\xff", b"\x00" * 16_000).replace(b"whisper-1", model.encode())
    second = second.replace(
        b"\r\n--b--", b'\r\n--b\r\nContent-Disposition: form-data; name="response_format"\r\n\r\nsrt\r\n--b--'
    )
    path, headers = "/v1/audio/transcriptions", {**BEARER, **FORM_TYPE}
    answers = [await front.http.post(path, content=second, headers=headers) for _ in range(3)]
    assert [200, 200, 429] == [answer.status_code for answer in answers]
    assert [None, None, 0] == [row["cost_pico_usd"] for row in await front.rows()]


async def test_a_task_has_one_budget_for_all_it_does(open_front: Any) -> None:
    """Speech counts towards it."""
    front = await open_front()
    headers = {"x-headrace-task": "t-1", "x-headrace-task-budget": "usd=0.02"}
    answers = [await front.http.post("/v1/audio/speech", json=SPEECH, headers=headers) for _ in range(2)]
    assert [200, 429] == [answer.status_code for answer in answers]
    assert ["t-1", "t-1"] == [row["task"] for row in await front.rows()]


@pytest.mark.parametrize(
    "fault", [{"kind": "status", "status": 503}, {"kind": "refuse"}, {"kind": "reset"}, {"kind": "empty"}]
)
async def test_another_backend_takes_over_before_the_first_byte(
    open_front: Any, provider: Provider, fault: dict[str, Any]
) -> None:
    """A form is held until then: the second one gets all of it."""
    free = {"whisper-1": {"price": {"input_usd_per_mtok": 0, "output_usd_per_mtok": 0}}}
    broken = {"use": "fake", "models": free, "fail": [fault], "repeat": True}
    front = await open_front(_two(provider, broken))
    answer = await front.http.post("/v1/audio/transcriptions", content=FORM, headers=FORM_TYPE)
    assert (200, "provider", "2") == (
        answer.status_code,
        answer.headers["x-headrace-backend"],
        answer.headers["x-headrace-attempts"],
    )
    assert provider.received.body == FORM
    assert ["first", "provider"] == [attempt["backend"] for attempt in (await front.row())["attempts_made"]]


async def test_a_refusal_is_the_providers_own(open_front: Any, provider: Provider) -> None:
    """Its status, its words and its code; nobody else is asked."""

    async def refuse(_: Received, conversation: Conversation) -> None:
        error = b'{"error":{"message":"Audio file is too short.","type":"invalid_request_error","param":"file"}}'
        await conversation.answer(error, status=400)

    provider.instead = refuse
    front = await open_front()
    answer = await front.http.post("/v1/audio/transcriptions", content=FORM, headers=FORM_TYPE)
    error = answer.json()["error"]
    assert (400, "Audio file is too short.", "file") == (answer.status_code, error["message"], error["param"])
    assert 0 == (await front.row())["cost_pico_usd"]


async def test_a_backend_that_fails_rests(open_front: Any, provider: Provider) -> None:
    """After three failures in a row nobody asks it, and clients are told when to come back."""

    async def fail(_: Received, conversation: Conversation) -> None:
        await conversation.answer(b"{}", status=500)

    provider.instead = fail
    front = await open_front()
    answers = [await front.http.post("/v1/audio/speech", json=SPEECH) for _ in range(4)]
    assert [502, 502, 502, 503] == [answer.status_code for answer in answers]
    assert int(answers[-1].headers["retry-after"]) > 0
    assert 3 == len(provider.upstream.requests)


async def test_a_page_for_people_is_no_answer(open_front: Any, provider: Provider) -> None:
    """As proxies have for what they cannot reach, with a status that says all is well."""

    async def page(_: Received, conversation: Conversation) -> None:
        await conversation.answer(b"<html>", headers={"content-type": "text/html; charset=utf-8"})

    provider.instead = page
    answer = await (await open_front()).http.post("/v1/audio/speech", json=SPEECH)
    assert (502, "upstream_invalid") == (answer.status_code, answer.json()["error"]["code"])


async def test_what_does_not_say_what_it_is_goes_on_as_bytes(open_front: Any, provider: Provider) -> None:
    """And a header that not every client can be given stays behind."""

    async def sound(_: Received, conversation: Conversation) -> None:
        head = b"HTTP/1.1 200 OK\r\ncontent-disposition: inline; filename=\xc3\xa9.mp3\r\ncontent-length: 3\r\n\r\n"
        await conversation.send(head + b"\x00\xff\x01")

    provider.instead = sound
    answer = await (await open_front()).http.post("/v1/audio/speech", json=SPEECH)
    assert (200, b"\x00\xff\x01") == (answer.status_code, answer.content)
    assert "application/octet-stream" == answer.headers["content-type"]
    assert "content-disposition" not in answer.headers


async def test_who_serves_no_such_thing_is_not_asked(open_front: Any) -> None:
    """Where nobody does, the client is told so as of any field that nobody can carry."""
    front = await open_front({"backends": {"text": {"use": "openai_compatible", "base_url": "http://127.0.0.1:9/v1"}},
                              "routes": {"all": {"models": ["*"], "targets": ["text"]}}})  # fmt: skip
    answer = await front.http.post("/v1/audio/speech", json=SPEECH)
    error = answer.json()["error"]
    assert (400, "tts-1 does not serve `speech`: ask for another model") == (answer.status_code, error["message"])
    assert 0 == (await front.row())["attempts"]


async def test_an_answer_that_does_not_come_is_given_up(open_front: Any, provider: Provider) -> None:
    """With the route's patience; what it would have cost is reckoned where that is known."""

    async def silent(_: Received, conversation: Conversation) -> None:
        await conversation.until_closed()

    provider.instead = silent
    front = await open_front({"routes": _routes(timeouts={"total_s": 0.05})})
    answer = await front.http.post("/v1/audio/speech", json=SPEECH)
    assert 504 == answer.status_code
    row = await front.row()
    assert (15_000_000_000, "estimated_usage") == (row["cost_pico_usd"], row["attempts_made"][0]["cost_doubts"])


async def test_what_reads_alike_is_kept_and_what_is_made_is_not(open_front: Any, provider: Provider) -> None:
    """Where the route keeps answers: verdicts and orders, no sound."""
    front = await open_front({"routes": _routes(cache={"ttl_s": 60})})
    rank = {"model": "rerank-v3.5", "query": "q", "documents": ["a"]}
    judged = [await front.http.post("/v1/moderations", json={"input": "x"}) for _ in range(2)]
    ranked = [await front.http.post("/v1/rerank", json=rank) for _ in range(2)]
    spoken = [await front.http.post("/v1/audio/speech", json=SPEECH) for _ in range(2)]
    told = [answer.headers["x-headrace-cache"] for answer in (*judged, *ranked, *spoken)]
    assert ["miss", "hit", "miss", "hit", "bypass", "bypass"] == told
    assert judged[0].content == judged[1].content
    assert [SOUND, SOUND] == [answer.content for answer in spoken]
    assert 4 == len(provider.upstream.requests)
    assert [None, 4_000_000_000] == [row["saved_pico_usd"] for row in await front.rows()][2:4]


HEDGED = {"hedge": {"quantile": 0.5, "most_requests": 1.0, "most_spend": 1.0}}
SHADOWED = {
    "judge": ["finish_reason"],
    "shadow": {"to": "other/tts-1", "share": 1.0, "usd": 2, "per": "day", "judge": ["finish_reason"]},
}
CASCADE = {"cascade": [{"targets": ["provider/tts-1"], "judge": ["finish_reason"]}, {"targets": ["other/tts-1"]}]}


@pytest.mark.parametrize("watched", [HEDGED, SHADOWED, CASCADE], ids=["hedge", "shadow", "cascade"])
async def test_what_watches_text_leaves_it_alone(open_front: Any, provider: Provider, watched: dict[str, Any]) -> None:
    """No second backend beside a late one, no copy for a shadow, no answer that is held to be judged."""
    dear = {"tts-1": {"price": {"speech_usd_per_mchar": 500}}}
    other = {"use": "fake", "models": dear}
    targets = {} if watched is CASCADE else {"targets": ["provider/tts-1", "other/tts-1"]}
    route = {"models": ["*"], "cost": ["money"], **targets, **watched}
    front = await open_front({"backends": {"provider": provider.backend(), "other": other}, "routes": {"all": route}})
    slow = asyncio.Event()

    async def later(_: Received, conversation: Conversation) -> None:
        asyncio.get_running_loop().call_later(0.05, slow.set)
        await slow.wait()
        await conversation.send(head(200, {"content-type": "audio/mpeg", "content-length": str(len(SOUND))}), SOUND)

    provider.instead = later
    answer = await front.http.post("/v1/audio/speech", json=SPEECH)
    assert (200, SOUND) == (answer.status_code, answer.content)
    row = await front.row()
    await front.gateway.pipeline.settled()
    assert (1, "provider", 0) == (row["attempts"], row["backend"], front.backend("other").open_calls)


async def test_it_goes_to_who_is_cheaper_for_it(open_front: Any, provider: Provider) -> None:
    """By what is known beforehand: the characters, the pictures, about how many seconds."""
    cheap = {**PRICED["tts-1"], "price": {"speech_usd_per_mchar": 5}}
    cheaper = provider.backend(models={"tts-1": cheap})
    routes = {"all": {"models": ["*"], "targets": ["provider/tts-1", "cheaper/tts-1"], "cost": ["money"]}}
    front = await open_front({"backends": {"provider": provider.backend(), "cheaper": cheaper}, "routes": routes})
    answer = await front.http.post("/v1/audio/speech", json=SPEECH)
    assert "cheaper" == answer.headers["x-headrace-backend"]
    assert Decimal("0.005") == Decimal(answer.headers["x-headrace-cost-usd"])


async def test_nothing_is_learned_of_text_from_it(open_front: Any) -> None:
    """When sound or a picture comes says nothing of how fast its backend reads or writes."""
    front = await open_front()
    for _ in range(30):
        await front.http.post("/v1/audio/speech", json={**SPEECH, "stream_format": "sse"})
    standings = front.gateway._fleet._standings.values()
    assert standings
    assert all(standing.progress._common.seen == 0 for standing in standings)
    assert all(standing.work.in_flight == standing.work.waiting == 0 for standing in standings)
    assert [] == [standing.progress.reason for standing in standings if standing.progress.reason]
