import hashlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from decimal import Decimal
from pathlib import Path
from typing import Any

import httpx
import msgspec
import pytest

from gateway.accounts.pace import MOST_AT_ONCE
from gateway.accounts.task_queries import MOST_OUTCOMES_KEPT

KEYS = {"acme": "sk-acme", "beta": "sk-beta"}
POLICY = """
    backends:
      a: {use: fake, text: one two three, models: {small: {price: {input_usd_per_mtok: 1, output_usd_per_mtok: 2}}}}
      free: {use: fake, text: one two three, models: [dear]}
      down:
        use: fake
        fail: [{kind: status}]
        repeat: true
        models: {small: {price: {input_usd_per_mtok: 0, output_usd_per_mtok: 0, request_usd: 0}}}
    routes:
      r: {models: [small], targets: [a/small], cost: [money]}
      unpriced: {models: [dear], targets: [free/dear]}
      twice: {models: [twice], targets: [down/small, a/small], cost: [money]}
"""
METRICS_KEY = "sk-operator"
TENANTS = "\n".join(
    f"      {name}: {{keys_sha256: [{hashlib.sha256(key.encode()).hexdigest()}]}}" for name, key in KEYS.items()
)


@pytest.fixture
async def client(make_site: Any) -> AsyncIterator[httpx.AsyncClient]:
    """Acme's client."""
    async with _gate(make_site) as client:
        yield client


@asynccontextmanager
async def _gate(make_site: Any, **settings: Any) -> AsyncIterator[httpx.AsyncClient]:
    policy = f"{POLICY}\n    tenants:\n{TENANTS}"
    async with make_site(**{"ledger": "sqlite", "metrics_key": METRICS_KEY, **settings}).running(policy) as gateway:
        transport = httpx.ASGITransport(app=gateway.asgi, raise_app_exceptions=False)
        headers = {"authorization": f"Bearer {KEYS['acme']}"}
        async with httpx.AsyncClient(transport=transport, base_url="http://gate", headers=headers) as client:
            yield client


async def _ask(client: httpx.AsyncClient, task: str | None, *, model: str = "small", **headers: str) -> httpx.Response:
    body = {"model": model, "messages": [{"role": "user", "content": "Say a few words."}]}
    named = {"x-headrace-task": task} if task is not None else {}
    answer = await client.post("/v1/chat/completions", json=body, headers={**named, **headers})
    assert 200 == answer.status_code
    return answer


async def _tell(client: httpx.AsyncClient, task: str, *, key: str | None = None, **body: Any) -> dict[str, Any]:
    headers = {"idempotency-key": key} if key is not None else {}
    answer = await client.post(f"/v1/tasks/{task}/outcome", json=body, headers=headers)
    assert 200 == answer.status_code, answer.text
    return dict(answer.json())


async def _account(client: httpx.AsyncClient, task: str) -> dict[str, Any]:
    answer = await client.get(f"/v1/tasks/{task}")
    assert 200 == answer.status_code, answer.text
    return dict(msgspec.json.decode(answer.content, type=dict[str, Any]))


async def test_an_account_adds_up_what_the_task_took(client: httpx.AsyncClient) -> None:
    """Requests that have just ended are in it; tools and recovery come from the client; money is exact."""
    first = await _ask(client, "t-1")
    second = await _ask(client, "t-1", **{"x-headrace-stage": "check"})
    await _ask(client, "t-2")
    await _tell(client, "t-1", success=True, score=0.5, tool_cost_usd=0.1, recovery_cost_usd=0.000000000001)
    answer = (await client.get("/v1/tasks/t-1")).content
    decode = msgspec.json.Decoder(dict[str, Any], float_hook=Decimal)
    account = decode.decode(answer)
    paid = sum(Decimal(one.headers["x-headrace-cost-usd"]) for one in (first, second))
    assert (2, 2, True, Decimal("0.5")) == tuple(account[name] for name in ("requests", "attempts", "success", "score"))
    assert (paid, Decimal("0.1"), Decimal("0.000000000001"), 0) == tuple(
        account[f"{name}_cost_usd"] for name in ("inference", "tool", "recovery", "retry")
    )
    assert account["total_cost_usd"] == paid + Decimal("0.100000000001")
    assert ["", "check"] == [stage["stage"] for stage in account["stages"]]
    assert paid == sum(stage["inference_cost_usd"] for stage in account["stages"])
    assert [first.headers["x-request-id"], second.headers["x-request-id"]] == [
        attempt["request"] for attempt in account["attempts_made"]
    ]


async def test_retries_are_apart(client: httpx.AsyncClient) -> None:
    """Two attempts of one request: the one whose answer came is inference, the other a retry."""
    await _ask(client, "t", model="twice")
    account = await _account(client, "t")
    assert (1, 2, [True, False], ["down", "a"]) == (
        account["requests"],
        account["attempts"],
        [attempt["retry"] for attempt in account["attempts_made"]],
        [attempt["backend"] for attempt in account["attempts_made"]],
    )
    assert account["inference_cost_usd"] > 0
    assert 0 == account["retry_cost_usd"]


async def test_an_unknown_price_is_unknown(client: httpx.AsyncClient) -> None:
    """It is null and counted, and what is known stands beside it."""
    await _ask(client, "t", model="dear")
    priced = Decimal((await _ask(client, "t")).headers["x-headrace-cost-usd"])
    account = await _account(client, "t")
    assert (None, None, 1, float(priced)) == (
        account["inference_cost_usd"],
        account["total_cost_usd"],
        account["unpriced_attempts"],
        account["priced_cost_usd"],
    )


async def test_a_task_belongs_to_its_tenant(client: httpx.AsyncClient) -> None:
    """Another tenant's key finds nothing under the same id, and judges only a task of its own."""
    await _ask(client, "t")
    other = {"authorization": f"Bearer {KEYS['beta']}"}
    missing = await client.get("/v1/tasks/t", headers=other)
    assert (404, "not_found") == (missing.status_code, missing.json()["error"]["code"])
    assert 200 == (await client.post("/v1/tasks/t/outcome", json={"success": False}, headers=other)).status_code
    assert None is (await _account(client, "t"))["success"]
    theirs = (await client.get("/v1/tasks/t", headers=other)).json()
    assert (0, False) == (theirs["requests"], theirs["success"])
    assert 401 == (await client.get("/v1/tasks/t", headers={"authorization": "Bearer nobody"})).status_code


async def test_the_last_outcome_stands(client: httpx.AsyncClient) -> None:
    """Whole: what it leaves out is not known any more. The history is kept."""
    await _tell(client, "t", success=True, tool_cost_usd=1)
    await _tell(client, "t", success=False)
    account = await _account(client, "t")
    assert (False, 0, [False, True]) == (
        account["success"],
        account["tool_cost_usd"],
        [outcome["success"] for outcome in account["outcomes"]],
    )


async def test_the_clients_own_time_orders_outcomes(client: httpx.AsyncClient) -> None:
    """One that was sent earlier and arrives later changes nothing, and is told so."""
    now_unix_s = 1_700_000_000.0
    assert not (await _tell(client, "t", success=True, at=now_unix_s - 5))["superseded"]
    late = await _tell(client, "t", success=False, at="2023-11-14T22:10:00+00:00")
    assert (True, True) == (late["superseded"], late["success"])
    assert (await _account(client, "t"))["success"]


async def test_an_outcome_with_a_key_counts_once(client: httpx.AsyncClient) -> None:
    """The first with the key stands, whatever a repetition says; another task may use the same key."""
    assert not (await _tell(client, "t", key="k", success=True))["repeated"]
    again = await _tell(client, "t", key="k", success=False)
    assert (True, True) == (again["repeated"], again["success"])
    assert 1 == len((await _account(client, "t"))["outcomes"])
    assert not (await _tell(client, "u", key="k", success=True))["repeated"]


async def test_outcomes_are_counted(client: httpx.AsyncClient) -> None:
    """By what was said, and each once; ids of tasks are on no metric."""
    await _tell(client, "t-17", key="k", success=True)
    await _tell(client, "t-17", key="k", success=True)
    await _tell(client, "t-17", success=None)
    metrics = (await client.get("/metrics", headers={"authorization": f"Bearer {METRICS_KEY}"})).text
    assert 'headrace_task_outcomes_total{success="true"} 1.0' in metrics
    assert 'headrace_task_outcomes_total{success="unknown"} 1.0' in metrics
    assert "t-17" not in metrics


async def test_the_history_is_bounded(client: httpx.AsyncClient) -> None:
    """The latest by the client's time are kept."""
    for minute in range(MOST_OUTCOMES_KEPT + 3):
        await _tell(client, "t", success=None, score=minute, at=1_600_000_000 + 60 * minute)
    scores = [outcome["score"] for outcome in (await _account(client, "t"))["outcomes"]]
    assert [float(score) for score in range(MOST_OUTCOMES_KEPT + 2, 2, -1)] == scores


async def test_a_request_that_names_no_task_is_one_by_its_own_id(client: httpx.AsyncClient) -> None:
    """It can be judged and asked about by the id that came with its answer."""
    request_id = (await _ask(client, None)).headers["x-request-id"]
    await _tell(client, request_id, success=True)
    account = await _account(client, request_id)
    assert (1, True) == (account["requests"], account["success"])


@pytest.mark.parametrize(
    ("body", "param"),
    [
        (b"{}", "success"),
        (b'{"success": 1}', "success"),
        (b'{"success": "true"}', "success"),
        (b'{"success": true, "verdict": 1}', "verdict"),
        (b'{"success": true, "tool_cost_usd": -0.1}', "tool_cost_usd"),
        (b'{"success": true, "tool_cost_usd": NaN}', "tool_cost_usd"),
        (b'{"success": true, "tool_cost_usd": 1e400}', "tool_cost_usd"),
        (b'{"success": true, "tool_cost_usd": 1000001}', "tool_cost_usd"),
        (b'{"success": true, "tool_cost_usd": "1"}', "tool_cost_usd"),
        (b'{"success": true, "tool_cost_usd": true}', "tool_cost_usd"),
        (b'{"success": true, "recovery_cost_usd": []}', "recovery_cost_usd"),
        (b'{"success": true, "tool_seconds": -1}', "tool_seconds"),
        (b'{"success": true, "retrieval_seconds": 1e9}', "retrieval_seconds"),
        (b'{"success": true, "score": 1e7}', "score"),
        (b'{"success": true, "note": 3}', "note"),
        (b'{"success": true, "note": "' + b"x" * 1001 + b'"}', "note"),
        (b'{"success": true, "note": "\\u0000"}', "note"),
        (b'{"success": true, "at": "yesterday"}', "at"),
        (b'{"success": true, "at": "2023-11-14T22:00:00"}', "at"),
        (b'{"success": true, "at": 4e9}', "at"),
        (b'{"success": true, "at": 1}', "at"),
        (b"[]", None),
        (b"", None),
    ],
)
async def test_an_outcome_that_is_none_is_refused_by_the_fields_name(
    client: httpx.AsyncClient, body: bytes, param: str | None
) -> None:
    """In OpenAI's envelope; nothing is kept of it."""
    answer = await client.post("/v1/tasks/t/outcome", content=body)
    error = answer.json()["error"]
    assert (400, param, "invalid_request_error") == (answer.status_code, error["param"], error["type"])
    assert 404 == (await client.get("/v1/tasks/t")).status_code


async def test_an_outcome_is_small_and_an_id_is_a_name(client: httpx.AsyncClient) -> None:
    """A body over the limit, an id with other characters and a key that is none are refused."""
    assert 413 == (await client.post("/v1/tasks/t/outcome", content=b"x" * 20_000)).status_code
    assert 400 == (await client.post("/v1/tasks/a%20b/outcome", json={"success": True})).status_code
    assert 400 == (await client.get("/v1/tasks/" + "x" * 129)).status_code
    key = await client.post("/v1/tasks/t/outcome", json={"success": True}, headers={"idempotency-key": "x" * 300})
    assert (400, "idempotency-key") == (key.status_code, key.json()["error"]["param"])


async def test_who_tells_faster_than_is_taken_is_told_when_to_come_back(
    client: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    """429, for this tenant alone."""
    monkeypatch.setattr("gateway.accounts.pace.MOST_AT_ONCE", 2)
    assert MOST_AT_ONCE > 2
    answers = [await client.post("/v1/tasks/t/outcome", json={"success": True}) for _ in range(3)]
    assert [200, 200, 429] == [answer.status_code for answer in answers]
    assert "1" == answers[2].headers["retry-after"]
    other = {"authorization": f"Bearer {KEYS['beta']}"}
    assert 200 == (await client.post("/v1/tasks/t/outcome", json={"success": True}, headers=other)).status_code


async def test_without_a_ledger_there_are_no_tasks(make_site: Any) -> None:
    """It says why."""
    async with _gate(make_site, ledger="off") as client:
        answer = await client.get("/v1/tasks/t")
        assert (404, True) == (answer.status_code, "keeps no ledger" in answer.json()["error"]["message"])


async def test_a_report_is_of_the_tenant_alone(client: httpx.AsyncClient) -> None:
    """Whoever asks sees its own requests and nobody else's, as JSON or as CSV."""
    await _ask(client, "t")
    await _ask(client, "u", authorization=f"Bearer {KEYS['beta']}")
    await _account(client, "t")
    report = (await client.get("/v1/report?by=tenant,route")).json()
    assert ([{"tenant": "acme", "route": "r"}], 1) == (
        [line["by"] for line in report["lines"]],
        report["total"]["requests"],
    )
    answer = await client.get("/v1/report?by=route&format=csv")
    assert ("text/csv; charset=utf-8", "route,requests") == (answer.headers["content-type"], answer.text[:14])


@pytest.mark.parametrize(
    ("query", "param"),
    [
        ("by=colour", "by"),
        ("tenant=beta", "tenant"),
        ("since=yesterday", "since"),
        ("until=2026-99-99", "until"),
        ("format=xls", "format"),
        ("route=a&route=b", "route"),
        ("model=%00", "model"),
        ("model=" + "m" * 300, "model"),
    ],
)
async def test_a_report_that_nobody_can_make_is_refused_by_the_parameters_name(
    client: httpx.AsyncClient, query: str, param: str
) -> None:
    """Another tenant's is none that can be asked for."""
    answer = await client.get(f"/v1/report?{query}")
    assert (400, param) == (answer.status_code, answer.json()["error"]["param"])


@pytest.mark.parametrize("path", ["/v1/tasks/t", "/v1/report"])
async def test_a_ledger_that_cannot_be_read_is_no_clients_business(
    client: httpx.AsyncClient, tmp_path: Path, path: str
) -> None:
    """Who asks is told to come again, and not where the file lies."""
    await _ask(client, "t")
    await _account(client, "t")
    damaged = [file.write_bytes(b"no database" * 1000) for file in _files(tmp_path, "ledger.sqlite3*")]
    assert damaged
    answer = await client.get(path)
    assert (503, "overloaded") == (answer.status_code, answer.json()["error"]["code"])
    assert "the ledger cannot be reached now" == answer.json()["error"]["message"]


def _files(folder: Path, name: str) -> list[Path]:
    return sorted(folder.rglob(name))
