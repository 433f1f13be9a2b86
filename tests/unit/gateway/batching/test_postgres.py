"""The same on a PostgreSQL server, where several replicas meet."""

from typing import Any

import pytest

from tests.unit.gateway.batching.conftest import POLICY, client_of, line

SLOW = POLICY.replace("use: fake,", "use: fake, first_token_s: 10,")


@pytest.fixture
def places(postgres: Any) -> dict[str, str]:
    """Settings of replicas that share a database."""
    return {"ledger": "sqlite", "ledger_url": postgres.new_database()}


async def test_replicas_share_files_and_batches(gate: Any, make_site: Any, places: Any) -> None:
    """A file that one has taken is there for the other, and a batch is run once, wherever it was handed in."""
    content = [line("a", user="\u0000é"), line("b\u0000", messages=7), line("c")]
    async with gate(**places) as first, make_site(**places).running(POLICY) as gateway, client_of(gateway) as second:
        begun = await first.hand_in(content)
        batch = await second.over_in_time(begun["id"], 1.0)
        good, bad = await second.lines(batch["output_file_id"]), await first.lines(batch["error_file_id"])
        files = (await second.http.get("/v1/files", params={"order": "asc", "purpose": "batch_output"})).json()
        assert 2 == first.backend().open_calls + second.backend().open_calls
        await second.http.delete(f"/v1/files/{batch['input_file_id']}")
        assert 404 == (await first.http.get(f"/v1/files/{batch['input_file_id']}")).status_code
    assert ("completed", {"total": 3, "completed": 2, "failed": 1}) == (batch["status"], batch["request_counts"])
    assert (["a", "c"], ["b\u0000"]) == ([one["custom_id"] for one in good], [one["custom_id"] for one in bad])
    assert {batch["output_file_id"], batch["error_file_id"]} == {one["id"] for one in files["data"]}
    assert batch["usage"]["output_tokens"] == 6


async def test_a_replica_that_ends_leaves_its_batch_to_the_others(gate: Any, make_site: Any, places: Any) -> None:
    """They go on where it stopped."""
    site = make_site(batch_lines_at_once=2, **places)
    async with gate(SLOW, batch_lines_at_once=2, **places) as first:
        begun = await first.hand_in([line(str(n)) for n in range(5)])
        await first.eventually(lambda: first.backend().open_calls == 2)
        async with site.running(SLOW) as gateway, client_of(gateway) as second:
            await first.gateway._annex._wing._batches.close()
            batch = await second.over_in_time(begun["id"], 10.0)
            assert 5 == second.backend().open_calls
            assert [str(n) for n in range(5)] == [
                one["custom_id"] for one in await second.lines(batch["output_file_id"])
            ]
