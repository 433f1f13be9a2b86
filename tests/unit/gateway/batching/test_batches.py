from typing import Any

import pytest
from openai.types import Batch, FileObject

from tests.unit.gateway.batching.conftest import CHAT, KEYS, POLICY, TENANTS, client_of, line

SLOW = POLICY.replace("use: fake,", "use: fake, first_token_s: 10,")
STUCK = """
    backends:
      a: {use: fake, text: one two three, models: [small]}
      b: {use: fake, first_token_s: 1000000, models: [stuck]}
    routes:
      r: {models: [small], targets: [a/small]}
      s: {models: [stuck], targets: [b/stuck]}
"""
LIMITED = TENANTS.replace("]}", "], limits: [{requests: 3, per: minute}]}")


async def test_a_batch_has_one_result_for_each_line(gate: Any) -> None:
    """Good ones in one file and bad ones in another, in the order of the lines, in OpenAI's shapes."""
    lines = [line("a"), line("b", messages=7), b"", line("c"), line("d", n=-1)]
    async with gate() as client:
        begun = await client.hand_in(lines, metadata={"for": "a test"})
        batch = await client.over(begun["id"])
        good, bad = await client.lines(batch["output_file_id"]), await client.lines(batch["error_file_id"])
        file = (await client.http.get(f"/v1/files/{batch['output_file_id']}")).json()
    assert ("validating", {"for": "a test"}) == (begun["status"], begun["metadata"])
    assert ("completed", "small") == (batch["status"], batch["model"])
    assert {"total": 4, "completed": 2, "failed": 2} == batch["request_counts"]
    assert ["a", "c"] == [one["custom_id"] for one in good]
    assert [(200, "one two three")] * 2 == [
        (one["response"]["status_code"], one["response"]["body"]["choices"][0]["message"]["content"]) for one in good
    ]
    assert ["b", "d"] == [one["custom_id"] for one in bad]
    assert [(400, "messages"), (400, "n")] == [
        (one["response"]["status_code"], one["response"]["body"]["error"]["param"]) for one in bad
    ]
    for one in (*good, *bad):
        assert {"id", "custom_id", "response", "error"} == set(one)
        assert one["id"].startswith("batch_req_")
        assert one["response"]["request_id"].startswith("req_")
        assert one["error"] is None
    assert 4 == len({one["id"] for one in (*good, *bad)})
    assert {"input_tokens": 8, "output_tokens": 6}.items() <= batch["usage"].items()
    assert ("batch_output", f"{batch['id']}_output.jsonl") == (file["purpose"], file["filename"])
    for shape, told in ((Batch, begun), (Batch, batch), (FileObject, file)):
        shape.model_validate(told, strict=True)


@pytest.mark.parametrize(
    ("endpoint", "body"),
    [
        ("/v1/completions", {"prompt": "Once"}),
        ("/v1/embeddings", {"input": ["a", "b"]}),
        ("/v1/responses", {"input": "hi"}),
        ("/v1/moderations", {"input": "hi"}),
        ("/v1/images/generations", {"prompt": "a river"}),
    ],
)
async def test_other_endpoints_are_served_too(gate: Any, endpoint: str, body: dict[str, Any]) -> None:
    """Each by its own format."""
    one = {"custom_id": "a", "method": "POST", "url": endpoint, "body": {"model": "small", **body}}
    async with gate() as client:
        batch = await client.over((await client.hand_in([one], endpoint))["id"])
        (result,) = await client.lines(batch["output_file_id"])
        usual = (await client.http.post(endpoint, json=one["body"])).json()
    assert usual.keys() == result["response"]["body"].keys()
    assert (200, None) == (result["response"]["status_code"], result["error"])
    assert "completed" == batch["status"]


async def test_each_line_is_on_the_ledger_as_its_own_request(gate: Any) -> None:
    """Of the tenant, on the route, priced, in the task that the client named, with a trace of its own."""
    lines = [line("a"), line("b", metadata={"task_id": "own"}), line("c", messages=7)]
    async with gate(key=KEYS["acme"], ledger="sqlite") as client:
        begun = await client.hand_in(lines, headers={"x-headrace-stage": "nightly"})
        batch = await client.over(begun["id"])
        results = [*await client.lines(batch["output_file_id"]), *await client.lines(batch["error_file_id"])]
        client.gateway._ledger.flush()
        assert await client.gateway._rows.flush()
        rows = [row for one in results for row in await client.gateway._rows.find(one["response"]["request_id"])]
    assert ["ok", "ok", "rejected"] == [row["status"] for row in rows]
    assert {"acme"} == {row["tenant"] for row in rows}
    assert ["r", "r", ""] == [row["route"] for row in rows]
    assert [10_000_000, 10_000_000, 0] == [row["cost_pico_usd"] for row in rows]
    assert 3 == len({row["trace_id"] for row in rows})
    assert [("own", "nightly")] == [(row["task"], row["stage"]) for row in rows if row["task"] == "own"]
    assert ["nightly", "nightly"] == [row["stage"] for row in rows[:2]]


VALIDATION = [
    ([], [("empty_file", None, None)]),
    ([b"  ", b""], [("empty_file", None, None)]),
    ([b"{", line("a")], [("invalid_json_line", 1, None)]),
    ([line("a"), b"", line("a")], [("duplicate_custom_id", 3, "custom_id")]),
    ([line("a", url="/v1/embeddings")], [("url_mismatch", 1, "url")]),
    ([line("a", model="no-such-model")], [("model_not_found", 1, "body.model")]),
    ([line("a", stream=True)], [("invalid_request", 1, "body.stream")]),
    ([{"custom_id": "a"}, b"7"], [("missing_required_parameter", 1, "method"), ("invalid_request", 2, None)]),
    ([line(str(n)) for n in range(6)], [("too_many_tasks", None, None)]),
    ([line("a", messages=["x" * 2000])], [("line_too_large", 1, None)]),
]


@pytest.mark.parametrize(("lines", "expected"), VALIDATION, ids=[found[0][0] for _, found in VALIDATION])
async def test_a_file_that_is_none_fails_with_its_lines_faults(gate: Any, lines: Any, expected: Any) -> None:
    """By code, line and field; nothing is sent, and no file comes of it."""
    async with gate(max_batch_lines=5, max_body_bytes=1024) as client:
        batch = await client.over((await client.hand_in(lines))["id"])
        assert 0 == client.backend().open_calls
    assert "failed" == batch["status"]
    assert batch["failed_at"] is not None
    assert expected == [(one["code"], one.get("line"), one.get("param")) for one in batch["errors"]["data"]]
    assert all(one["message"] for one in batch["errors"]["data"])
    assert ({"total": 0, "completed": 0, "failed": 0}, None, None) == (
        batch["request_counts"],
        batch["output_file_id"],
        batch["error_file_id"],
    )
    Batch.model_validate(batch, strict=True)


async def test_of_many_faults_a_hundred_are_told(gate: Any) -> None:
    """The first ones."""
    async with gate() as client:
        batch = await client.over((await client.hand_in([b"{"] * 500))["id"])
    assert list(range(1, 101)) == [one["line"] for one in batch["errors"]["data"]]


GOOD = {"endpoint": CHAT, "completion_window": "24h"}


@pytest.mark.parametrize(
    ("change", "param"),
    [
        ({"input_file_id": None}, "input_file_id"),
        ({"input_file_id": "file-none"}, "file_id"),
        ({"endpoint": "/v1/audio"}, "endpoint"),
        ({"endpoint": 3}, "endpoint"),
        ({"completion_window": "1h"}, "completion_window"),
        ({"metadata": {"a": 1}}, "metadata"),
        ({"metadata": {str(n): "x" for n in range(17)}}, "metadata"),
        ({"metadata": {"a": "x" * 513}}, "metadata"),
        ({"output_expires_after": {"anchor": "created_at", "seconds": 60}}, "output_expires_after.seconds"),
        ({"odd": 1}, None),
    ],
    ids=lambda value: str(value)[:50],
)
async def test_what_a_client_asks_for_is_checked_at_once(gate: Any, change: dict[str, Any], param: str | None) -> None:
    """By the field's name."""
    async with gate() as client:
        file = await client.upload([line("a")])
        answer = await client.http.post("/v1/batches", json={**GOOD, "input_file_id": file["id"], **change})
    assert answer.status_code in {400, 404}
    assert (answer.json()["error"]["param"] or "").startswith(param or "")


async def test_what_comes_out_stays_as_long_as_the_client_says(gate: Any) -> None:
    """From when it is made."""
    async with gate() as client:
        kept = {"anchor": "created_at", "seconds": 7200}
        begun = await client.hand_in([line("a")], output_expires_after=kept)
        batch = await client.over(begun["id"])
        file = (await client.http.get(f"/v1/files/{batch['output_file_id']}")).json()
    assert 7200 == file["expires_at"] - file["created_at"]


async def test_batches_are_listed_by_pages(gate: Any, hand_clock: Any) -> None:
    """The newest first."""
    async with gate() as client:
        names = []
        for _ in range(3):
            names.append((await client.over((await client.hand_in([line("a")]))["id"]))["id"])
            hand_clock.advance(1)
        first = (await client.http.get("/v1/batches", params={"limit": 2})).json()
        rest = (await client.http.get("/v1/batches", params={"after": first["last_id"]})).json()
        wrong = await client.http.get("/v1/batches", params={"limit": 101})
    assert (names[:0:-1], True) == ([one["id"] for one in first["data"]], first["has_more"])
    assert (names[:1], False) == ([one["id"] for one in rest["data"]], rest["has_more"])
    assert 400 == wrong.status_code


async def test_a_tenant_meets_its_own_batches_alone(gate: Any) -> None:
    """Another's, and what came out of them, are told like what does not exist."""
    async with gate(key=KEYS["acme"]) as client, client_of(client.gateway, KEYS["beta"]) as other:
        batch = await client.over((await client.hand_in([line("a")]))["id"])
        answers = [
            await other.http.get(f"/v1/batches/{batch['id']}"),
            await other.http.post(f"/v1/batches/{batch['id']}/cancel"),
            await other.http.get("/v1/batches", params={"after": batch["id"]}),
            await other.http.get(f"/v1/files/{batch['output_file_id']}/content"),
            await other.http.get(f"/v1/messages/batches/{batch['id']}"),
            await client.http.get(f"/v1/messages/batches/{batch['id']}"),
        ]
        assert [] == (await other.http.get("/v1/batches")).json()["data"]
    assert [404] * 6 == [answer.status_code for answer in answers]


async def test_a_tenant_has_so_many_under_way_and_no_more(gate: Any) -> None:
    """429, with when to come back."""
    async with gate(SLOW, max_batches=2) as client:
        for _ in range(2):
            await client.hand_in([line("a")])
        file = await client.upload([line("a")])
        answer = await client.http.post("/v1/batches", json={**GOOD, "input_file_id": file["id"]})
    assert (429, "60") == (answer.status_code, answer.headers["retry-after"])


async def test_lines_in_flight_are_bounded(gate: Any) -> None:
    """So many at once, and the next when one has ended."""
    async with gate(SLOW, batch_lines_at_once=3) as client:
        batch = await client.hand_in([line(str(n)) for n in range(7)])
        await client.eventually(lambda: client.backend().open_calls == 3)
        for ended in (3, 6):
            client.clock.advance(10)
            await client.eventually(lambda ended=ended: client.backend().open_calls == min(ended + 3, 7))
        client.clock.advance(10)
        assert "completed" == (await client.over(batch["id"]))["status"]


async def test_a_cancelled_batch_keeps_what_was_answered(gate: Any) -> None:
    """Its other lines are in the error file, each once; those in flight are ended."""
    async with gate(SLOW, batch_lines_at_once=2, ledger="sqlite") as client:
        begun = await client.hand_in([line(str(n)) for n in range(5)])
        await client.eventually(lambda: client.backend().open_calls == 2)
        client.clock.advance(10)
        await client.eventually(lambda: client.backend().open_calls == 4)
        told = (await client.http.post(f"/v1/batches/{begun['id']}/cancel")).json()
        batch = await client.over(begun["id"])
        good, bad = await client.lines(batch["output_file_id"]), await client.lines(batch["error_file_id"])
        again = await client.http.post(f"/v1/batches/{begun['id']}/cancel")
        assert await client.gateway._rows.flush()
        ends = await client.gateway._rows.tables.rows("SELECT status, count(*) FROM requests GROUP BY 1 ORDER BY 1")
        assert client.backend().open_calls == client.backend().closed_calls
    assert ("cancelling", "cancelled") == (told["status"], batch["status"])
    assert None not in {batch["cancelling_at"], batch["cancelled_at"]}
    assert {"total": 5, "completed": 2, "failed": 3} == batch["request_counts"]
    assert ["0", "1"] == [one["custom_id"] for one in good]
    assert [(str(n), None, "batch_cancelled") for n in (2, 3, 4)] == [
        (one["custom_id"], one["response"], one["error"]["code"]) for one in bad
    ]
    assert (200, "cancelled") == (again.status_code, again.json()["status"])
    assert [("client_gone", 2), ("ok", 2)] == ends


async def test_a_batch_that_is_over_cannot_be_cancelled(gate: Any) -> None:
    """400, and it stays as it is."""
    async with gate() as client:
        batch = await client.over((await client.hand_in([line("a")]))["id"])
        answer = await client.http.post(f"/v1/batches/{batch['id']}/cancel")
        assert batch == await client.batch(batch["id"])
    assert 400 == answer.status_code


async def test_what_the_window_left_over_has_expired(gate: Any) -> None:
    """What was answered by then is there; every other line is told in the error file."""
    lines = [line("0"), line("1", model="stuck"), line("2"), line("3", model="stuck"), line("4", model="stuck")]
    async with gate(STUCK, batch_lines_at_once=2) as client:
        begun = await client.hand_in(lines)
        await client.until(begun["id"], lambda batch: batch["request_counts"]["completed"] == 2)
        client.clock.advance(86_400)
        batch = await client.over(begun["id"])
        bad = await client.lines(batch["error_file_id"])
    assert ("expired", 86_400) == (batch["status"], batch["expires_at"] - batch["created_at"])
    assert {"total": 5, "completed": 2, "failed": 3} == batch["request_counts"]
    assert [(name, None, "batch_expired") for name in "134"] == [
        (one["custom_id"], one["response"], one["error"]["code"]) for one in bad
    ]


async def test_a_limit_of_ours_is_waited_for_and_fails_no_line(gate: Any) -> None:
    """As long as it takes, within the window."""
    async with gate(key=KEYS["acme"], tenants=LIMITED) as client:
        first_minute = client.clock.unix_s() // 60
        begun = await client.hand_in([line(str(n)) for n in range(8)])

        def over_while_time_passes(batch: dict[str, Any]) -> bool:
            allowed = 3 * (client.clock.unix_s() // 60 - first_minute + 1)
            assert allowed >= batch["request_counts"]["completed"]
            client.clock.advance(5)
            return batch["status"] == "completed"

        batch = await client.until(begun["id"], over_while_time_passes)
    assert {"total": 8, "completed": 8, "failed": 0} == batch["request_counts"]
