"""What a batch meets on its way: failures, restarts, reloads, and a database that is taken away."""

import asyncio
import hashlib
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gateway.batching.line_runner import MOST_TRIES
from tests.unit.gateway.batching.conftest import KEYS, POLICY, TENANTS, client_of, line

SLOW = POLICY.replace("use: fake,", "use: fake, first_token_s: 10,")
FAILING = """
    backends:
      a: {{use: fake, text: one, fail: {fail}, repeat: {repeat}, models: [small]}}
    routes:
      r: {{models: [small], targets: [a/small], attempts: 1}}
"""
OUTAGE = "{kind: status, status: 500}"
BEGUN = "INSERT INTO batch_tries (batch_id, line, request_id, begun_unix_s) VALUES (:id, :line, :request_id, :unix_s)"
OWNED = "UPDATE batches SET owner = 'killed', lease_unix_s = :unix_s WHERE id = :id"


async def test_a_backend_that_fails_is_tried_again_later(gate: Any) -> None:
    """The line gets the answer that came in the end; each request is on the ledger."""
    async with gate(FAILING.format(fail=f"[{OUTAGE}, {OUTAGE}]", repeat="false"), ledger="sqlite") as client:
        batch = await client.over_in_time((await client.hand_in([line("a")]))["id"])
        rows = await client.rows()
    assert {"total": 1, "completed": 1, "failed": 0} == batch["request_counts"]
    assert ["upstream_failed", "upstream_failed", "ok"] == [row["status"] for row in rows]


async def test_a_backend_that_never_answers_fails_its_line_after_a_few_tries(gate: Any) -> None:
    """With the error as a client would have got it."""
    async with gate(FAILING.format(fail=f"[{OUTAGE}]", repeat="true")) as client:
        batch = await client.over_in_time((await client.hand_in([line("a")]))["id"])
        (bad,) = await client.lines(batch["error_file_id"])
        calls = client.backend().open_calls
    assert (MOST_TRIES, 502) == (calls, bad["response"]["status_code"])


async def test_lines_wait_while_a_refused_key_rests(gate: Any) -> None:
    """Single requests are told not to come back by themselves; a batch has time until somebody mends the key."""
    refused = FAILING.format(fail="[{kind: status, status: 402}]", repeat="false")
    async with gate(refused, batch_lines_at_once=1) as client:
        batch = await client.over_in_time((await client.hand_in([line("a"), line("b")]))["id"])
    assert {"total": 2, "completed": 1, "failed": 1} == batch["request_counts"]


async def test_what_can_never_be_allowed_fails_at_once(gate: Any) -> None:
    """A limit that one request alone is over refuses it without a time to come back."""
    tenants = TENANTS.replace("]}", "], limits: [{tokens: 1, per: minute}]}")
    async with gate(key=KEYS["acme"], tenants=tenants) as client:
        batch = await client.over((await client.hand_in([line("a")]))["id"])
        (bad,) = await client.lines(batch["error_file_id"])
    assert (429, "rate_limit_exceeded") == (
        bad["response"]["status_code"],
        bad["response"]["body"]["error"]["code"],
    )


async def test_a_key_that_is_taken_back_opens_nothing_any_more(gate: Any) -> None:
    """Lines that have not begun are refused as its requests would be."""
    other = TENANTS.replace(hashlib.sha256(KEYS["acme"].encode()).hexdigest(), "a" * 64)
    async with gate(SLOW, key=KEYS["acme"], batch_lines_at_once=1, ledger="sqlite") as client:
        begun = await client.hand_in([line("a"), line("b"), line("c")])
        await client.eventually(lambda: client.backend().open_calls == 1)
        client.gateway._worlds._path.write_text(SLOW + other)
        await client.gateway.reload()
        client.clock.advance(10)
        await client.eventually(lambda: client.gateway._ledger.recorded == 3)
        rows = await client.rows()
    assert begun["id"]
    assert ["ok", "rejected", "rejected"] == [row["status"] for row in rows]
    assert [200, 401, 401] == [row["http_status"] for row in rows]


async def test_a_restart_goes_on_where_the_last_one_stopped(gate: Any) -> None:
    """No line is sent twice that had its result, and none is forgotten; there is nothing to wait for."""
    async with gate(SLOW, batch_lines_at_once=2, ledger="sqlite") as client:
        begun = await client.hand_in([line(str(n)) for n in range(5)])
        await client.eventually(lambda: client.backend().open_calls == 2)
        client.clock.advance(10)
        await client.eventually(lambda: client.backend().open_calls == 4)
    async with gate(ledger="sqlite") as client:
        batch = await client.over(begun["id"])
        good = await client.lines(batch["output_file_id"])
        assert 3 == client.backend().open_calls
        rows = await client.rows()
    assert {"total": 5, "completed": 5, "failed": 0} == batch["request_counts"]
    assert list("01234") == [one["custom_id"] for one in good]
    assert ["ok"] * 5 + ["rejected"] * 2 == sorted(row["status"] for row in rows)


async def _left_by_a_killed_process(gate: Any, request_id: str) -> str:
    """A batch of two lines, the second of which a process had begun that is no more; its id."""
    async with gate(SLOW, batch_lines_at_once=1, ledger="sqlite") as client:
        begun = await client.hand_in([line("a"), line("b")])
        await client.eventually(lambda: client.backend().open_calls == 1)
        client.clock.advance(10)
        await client.eventually(lambda: client.backend().open_calls == 2)
        await client.gateway._annex._wing._batches._desk.close()
        unix_s = client.clock.unix_s()
        told = {"id": begun["id"], "unix_s": unix_s - 5}
        await client.gateway._annex._wing._batches._tables.write(
            (OWNED, {"id": begun["id"], "unix_s": unix_s + 15}), (BEGUN, {**told, "line": 2, "request_id": request_id})
        )
    return begun["id"]


async def test_what_a_killed_process_had_begun_is_run_again_and_its_cost_is_kept(gate: Any) -> None:
    """When its lease has run out. The first try is on the ledger as left, with what was expected of it."""
    batch_id = await _left_by_a_killed_process(gate, "req_killed")
    async with gate(ledger="sqlite") as client:
        client.clock.advance(14)
        assert "in_progress" == (await client.batch(batch_id))["status"]
        batch = await client.over_in_time(batch_id, 2.0)
        good = await client.lines(batch["output_file_id"])
        assert 1 == client.backend().open_calls
        (row,) = [row for row in await client.rows() if row["id"] == "req_killed"]
    assert list("ab") == [one["custom_id"] for one in good]
    assert ("client_gone", 499, "default", "r") == (row["status"], row["http_status"], row["tenant"], row["route"])
    (attempt,) = row["attempts_made"]
    assert ("a", "small", 1) == (attempt["backend"], attempt["model"], attempt["estimated"])
    assert attempt["output_tokens"] > 0
    assert row["cost_pico_usd"] > 0


async def test_what_is_on_the_ledger_already_does_not_come_there_twice(gate: Any) -> None:
    """A process may be killed between its request's end and the line's."""
    async with gate(ledger="sqlite") as client:
        known = (await client.ask()).headers["x-request-id"]
    batch_id = await _left_by_a_killed_process(gate, known)
    async with gate(ledger="sqlite") as client:
        await client.over_in_time(batch_id, 2.0)
        rows = await client.rows()
    assert ["ok"] == [row["status"] for row in rows if row["id"] == known]


async def test_of_two_processes_one_runs_a_batch(gate: Any, make_site: Any) -> None:
    """The other one tells how far it is, and can cancel it."""
    async with (
        gate(SLOW, batch_lines_at_once=2) as first,
        make_site(batch_lines_at_once=2).running(SLOW) as gateway,
        client_of(gateway) as second,
    ):
        begun = await first.hand_in([line(str(n)) for n in range(6)])
        await first.eventually(lambda: first.backend().open_calls == 2)
        assert "in_progress" == (await second.batch(begun["id"]))["status"]
        first.clock.advance(10)
        await second.until(begun["id"], lambda batch: batch["request_counts"]["completed"] == 2)
        cancelled = await second.http.post(f"/v1/batches/{begun['id']}/cancel")
        assert "cancelling" == cancelled.json()["status"]
        batch = await second.over_in_time(begun["id"], 1.0)
        assert 0 == second.backend().open_calls
    assert "cancelled" == batch["status"]
    assert 6 == batch["request_counts"]["completed"] + batch["request_counts"]["failed"]


async def test_a_database_that_is_taken_away_takes_its_batches_along(gate: Any, tmp_path: Any) -> None:
    """Nothing else breaks, and the next batch is run."""
    async with gate(SLOW) as client:
        begun = await client.hand_in([line("a")])
        await client.eventually(lambda: client.backend().open_calls == 1)
        (tmp_path / "batches.sqlite3").unlink()
        client.clock.advance(10)
        await client.eventually(lambda: not client.gateway._annex._wing._batches._desk.running)
        assert (await client.http.get(f"/v1/batches/{begun['id']}")).status_code in {404, 503}
        again = await client.hand_in([line("a")])
        assert "completed" == (await client.over_in_time(again["id"], 10.0))["status"]


async def test_what_is_past_its_time_is_forgotten(gate: Any) -> None:
    """Batches and what came out of them, as files are."""
    async with gate(files_kept_s=3600.0) as client:
        batch = await client.over((await client.hand_in([line("a")]))["id"])
        client.clock.advance(3601)
        await client.eventually_rows(0, step_s=60)
        async with asyncio.timeout(20):
            while (await client.http.get(f"/v1/batches/{batch['id']}")).status_code == 200:
                client.clock.advance(60)


async def test_batches_and_lines_are_counted(gate: Any) -> None:
    """By status and outcome."""
    async with gate() as client:
        await client.over((await client.hand_in([line("a"), line("b", messages=7)]))["id"])
        text = (await client.http.get("/metrics")).text
    for series in (
        'headrace_batches_total{status="in_progress"} 1.0',
        'headrace_batches_total{status="completed"} 1.0',
        'headrace_batch_lines_total{outcome="completed"} 1.0',
        'headrace_batch_lines_total{outcome="failed"} 1.0',
    ):
        assert series in text


KINDS = st.lists(st.sampled_from(["good", "bad", "blank"]), min_size=1, max_size=12).filter(
    lambda kinds: set(kinds) != {"blank"}
)


@settings(max_examples=15, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(kinds=KINDS, at_once=st.integers(1, 5))
async def test_every_line_is_accounted_for_exactly_once(gate: Any, kinds: list[str], at_once: int) -> None:
    """Whatever they are, and however many are sent at once."""
    made = {"good": line, "bad": lambda name: line(name, messages=7), "blank": lambda _: b" "}
    async with gate(batch_lines_at_once=at_once) as client:
        begun = await client.hand_in([made[kind](str(n)) for n, kind in enumerate(kinds)])
        batch = await client.over(begun["id"])
        good = [one["custom_id"] for one in await client.lines(batch["output_file_id"])]
        bad = [one["custom_id"] for one in await client.lines(batch["error_file_id"])]
    assert [str(n) for n, kind in enumerate(kinds) if kind == "good"] == good
    assert [str(n) for n, kind in enumerate(kinds) if kind == "bad"] == bad


async def test_a_guard_that_is_away_does_not_fail_its_line_at_once(gate: Any) -> None:
    """It is asked a few times more, like a backend that fails; then the line has the error of a single request."""
    guard = "{when: before, use: http, url: 'http://127.0.0.1:9/', on_error: refuse}"
    policy = POLICY.replace("cost: [money]", f"guards: [{guard}]")
    async with gate(policy, ledger="sqlite") as client:
        batch = await client.over_in_time((await client.hand_in([line("a")]))["id"])
        (bad,) = await client.lines(batch["error_file_id"])
        rows = await client.rows()
    assert (503, "guard_unavailable") == (bad["response"]["status_code"], bad["response"]["body"]["error"]["code"])
    assert MOST_TRIES == len(rows)
