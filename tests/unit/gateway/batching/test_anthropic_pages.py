from typing import Any

import pytest
from anthropic.types.messages import MessageBatch, MessageBatchIndividualResponse

from tests.unit.gateway.batching.conftest import KEYS, POLICY, client_of

BATCHES = "/v1/messages/batches"
SLOW = POLICY.replace("use: fake,", "use: fake, first_token_s: 10,")


def _request(custom_id: str, **params: Any) -> dict[str, Any]:
    asked = {"model": "small", "max_tokens": 9, "messages": [{"role": "user", "content": "hi"}]}
    return {"custom_id": custom_id, "params": {**asked, **params}}


async def _hand_in(client: Any, *requests: Any) -> dict[str, Any]:
    answer = await client.http.post(BATCHES, json={"requests": requests}, headers={"anthropic-version": "2023-06-01"})
    assert 200 == answer.status_code, answer.text
    return answer.json()


async def _ended(client: Any, batch_id: str) -> dict[str, Any]:
    while True:
        batch = (await client.http.get(f"{BATCHES}/{batch_id}")).json()
        if batch["processing_status"] == "ended":
            return batch


async def test_each_request_has_a_result_in_anthropics_shapes(gate: Any) -> None:
    """By its custom_id; there is a place to read them from when all have ended."""
    async with gate() as client:
        begun = await _hand_in(client, _request("good"), _request("bad", messages=3), _request("none", model="none"))
        batch = await _ended(client, begun["id"])
        results = (await client.http.get(batch["results_url"])).text.splitlines()
        files = (await client.http.get("/v1/files")).json()["data"]
    expected = {"processing": 3, "succeeded": 0, "errored": 0, "canceled": 0, "expired": 0}
    assert (expected, None, None) == (begun["request_counts"], begun["results_url"], begun["ended_at"])
    assert {"processing": 0, "succeeded": 1, "errored": 2, "canceled": 0, "expired": 0} == batch["request_counts"]
    good, bad, none = [MessageBatchIndividualResponse.model_validate_json(one) for one in results]
    assert ("good", "one two three") == (good.custom_id, good.result.message.content[0].text)
    assert ("bad", "invalid_request_error") == (bad.custom_id, bad.result.error.error.type)
    assert ("none", "not_found_error") == (none.custom_id, none.result.error.error.type)
    for told in (begun, batch):
        MessageBatch.model_validate(told)
    assert [] == files


async def test_a_cancelled_batch_tells_who_was_not_sent(gate: Any) -> None:
    """What was answered by then is there."""
    async with gate(SLOW, batch_lines_at_once=1) as client:
        begun = await _hand_in(client, *[_request(str(n)) for n in range(3)])
        await client.eventually(lambda: client.backend().open_calls == 1)
        early = await client.http.get(f"{BATCHES}/{begun['id']}/results")
        not_over = await client.http.delete(f"{BATCHES}/{begun['id']}")
        client.clock.advance(10)
        await client.eventually(lambda: client.backend().open_calls == 2)
        told = (await client.http.post(f"{BATCHES}/{begun['id']}/cancel")).json()
        batch = await _ended(client, begun["id"])
        results = (await client.http.get(f"{BATCHES}/{begun['id']}/results")).text
        deleted = (await client.http.delete(f"{BATCHES}/{begun['id']}")).json()
        gone = await client.http.get(f"{BATCHES}/{begun['id']}")
        await client.eventually_rows(0)
    assert (404, "not_found_error") == (early.status_code, early.json()["error"]["type"])
    assert (400, "invalid_request_error") == (not_over.status_code, not_over.json()["error"]["type"])
    assert ("canceling", 3) == (told["processing_status"], told["request_counts"]["processing"])
    assert told["cancel_initiated_at"] is not None
    assert (1, 2) == (batch["request_counts"]["succeeded"], batch["request_counts"]["canceled"])
    assert 2 == results.count('"result":{"type":"canceled"}')
    assert {"id": begun["id"], "type": "message_batch_deleted"} == deleted
    assert (404, "not_found_error") == (gone.status_code, gone.json()["error"]["type"])


async def test_what_the_window_left_over_has_expired(gate: Any) -> None:
    """After a day."""
    async with gate(SLOW.replace("first_token_s: 10", "first_token_s: 1000000")) as client:
        begun = await _hand_in(client, _request("a"))
        await client.eventually(lambda: client.backend().open_calls == 1)
        client.clock.advance(86_400)
        batch = await _ended(client, begun["id"])
        results = (await client.http.get(f"{BATCHES}/{begun['id']}/results")).text
    assert 1 == batch["request_counts"]["expired"]
    assert '{"custom_id":"a","result":{"type":"expired"}}\n' == results


async def test_pages_go_in_both_directions(gate: Any, hand_clock: Any) -> None:
    """The newest first."""
    async with gate() as client:
        names = []
        for _ in range(4):
            names.append((await _hand_in(client, _request("a")))["id"])
            hand_clock.advance(1)
        names.reverse()

        async def page(**query: Any) -> tuple[list[str], bool]:
            answer = (await client.http.get(BATCHES, params=query)).json()
            return [one["id"] for one in answer["data"]], answer["has_more"]

        assert (names[:2], True) == await page(limit=2)
        assert (names[2:], False) == await page(after_id=names[1])
        assert (names[1:2], True) == await page(before_id=names[2], limit=1)
        assert (names[:2], False) == await page(before_id=names[2])
        both = await client.http.get(BATCHES, params={"before_id": names[1], "after_id": names[0]})
    assert 400 == both.status_code


async def test_a_tenant_meets_its_own_alone(gate: Any) -> None:
    """Another's are told like what does not exist."""
    async with gate(key=KEYS["acme"]) as client, client_of(client.gateway, KEYS["beta"]) as other:
        batch = await _ended(client, (await _hand_in(client, _request("a")))["id"])
        place = f"{BATCHES}/{batch['id']}"
        answers = [
            await other.http.get(place),
            await other.http.get(f"{place}/results"),
            await other.http.post(f"{place}/cancel"),
            await other.http.delete(place),
            await client.http.get(f"/v1/batches/{batch['id']}"),
        ]
        assert [] == (await other.http.get(BATCHES)).json()["data"]
    assert [404] * 5 == [answer.status_code for answer in answers]


@pytest.mark.parametrize(
    ("body", "param"),
    [
        (b"{", None),
        (b"{}", "requests"),
        (b'{"requests": []}', "requests"),
        (b'{"requests": [], "odd": 1}', None),
        ({"requests": [_request("a"), _request("a")]}, "requests[1].custom_id"),
        ({"requests": [_request("a b")]}, "requests[0].custom_id"),
        ({"requests": [_request("x" * 65)]}, "requests[0].custom_id"),
        ({"requests": [_request("a", stream=True)]}, "requests[0].params.stream"),
        ({"requests": [_request("a", model="")]}, "requests[0].params.model"),
        ({"requests": [{"custom_id": "a", "params": []}]}, "requests[0].params"),
        ({"requests": [{"custom_id": "a"}]}, "requests[0].params"),
        ({"requests": [_request(str(n)) for n in range(6)]}, "requests"),
    ],
    ids=lambda value: str(value)[:60],
)
async def test_what_is_no_batch_is_refused_at_once(gate: Any, body: Any, param: str | None) -> None:
    """In Anthropic's envelope, with the field at fault, and nothing is kept."""
    async with gate(max_batch_lines=5) as client:
        given = {"content": body} if isinstance(body, bytes) else {"json": body}
        answer = await client.http.post(BATCHES, **given)
        await client.eventually_rows(0)
    assert (400, "invalid_request_error") == (answer.status_code, answer.json()["error"]["type"])
    assert param == answer.json()["error"].get("param")


async def test_requests_count_as_files_do(gate: Any) -> None:
    """By their number, and by their bytes."""
    async with gate(max_files=2, max_stored_bytes=2000) as client:
        large = await client.http.post(BATCHES, json={"requests": [_request("a", system="x" * 2000)]})
        await _ended(client, (await _hand_in(client, _request("a")))["id"])
        many = await client.http.post(BATCHES, json={"requests": [_request("a")]})
    assert [400, 400] == [large.status_code, many.status_code]
    assert ["bytes" in large.text, "files already" in many.text] == [True, True]


async def test_the_address_of_results_has_the_scheme_that_a_proxy_says(gate: Any) -> None:
    """And nothing that is none."""
    async with gate() as client:
        batch = await _ended(client, (await _hand_in(client, _request("a")))["id"])
        for said, scheme in (("https", "https"), ("javascript", "http")):
            told = await client.http.get(f"{BATCHES}/{batch['id']}", headers={"x-forwarded-proto": said})
            assert told.json()["results_url"].startswith(f"{scheme}://gate/v1/messages/batches/msgbatch_")
