import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest

from gateway.batching.file_pages import MOST_UPLOADS
from gateway.batching.file_store import PIECE_BYTES
from tests.unit.gateway.batching.conftest import KEYS, PATIENCE_S, client_of, line

LINES = [line("a"), line("b")]


async def test_a_file_comes_back_as_it_was_left(gate: Any) -> None:
    """Byte for byte, with its size and how long it stays."""
    content = bytes(range(256)) * 3000
    async with gate() as client:
        file = await client.upload(content)
        found = (await client.http.get(f"/v1/files/{file['id']}")).json()
        back = await client.http.get(f"/v1/files/{file['id']}/content")
    assert found == file
    assert {"object": "file", "purpose": "batch", "filename": "in.jsonl", "status": "processed"}.items() <= file.items()
    assert (len(content), 30 * 86_400) == (file["bytes"], file["expires_at"] - file["created_at"])
    assert (content, "application/octet-stream") == (back.content, back.headers["content-type"])
    assert str(len(content)) == back.headers["content-length"]


async def test_the_purpose_may_come_after_the_file(gate: Any) -> None:
    """Fields of a form have no order."""
    body = (
        b'--x\r\ncontent-disposition: form-data; name="file"; filename="a.jsonl"\r\n\r\n{}\r\n'
        b'--x\r\ncontent-disposition: form-data; name="purpose"\r\n\r\nbatch\r\n--x--\r\n'
    )
    async with gate() as client:
        headers = {"content-type": "multipart/form-data; boundary=x"}
        answer = await client.http.post("/v1/files", content=body, headers=headers)
    assert (200, 2, "a.jsonl") == (answer.status_code, answer.json()["bytes"], answer.json()["filename"])


async def test_who_says_for_how_long_is_kept_to_it(gate: Any, hand_clock: Any) -> None:
    """After that there is no such file, and it is taken away."""
    async with gate() as client:
        form = {"expires_after[anchor]": "created_at", "expires_after[seconds]": "3600"}
        file = await client.upload(LINES, **form)
        assert 3600 == file["expires_at"] - file["created_at"]
        hand_clock.advance(3599)
        assert 200 == (await client.http.get(f"/v1/files/{file['id']}")).status_code
        hand_clock.advance(1)
        assert 404 == (await client.http.get(f"/v1/files/{file['id']}")).status_code
        assert [] == (await client.http.get("/v1/files")).json()["data"]
        await client.eventually_rows(0, step_s=60)


async def test_files_are_listed_by_pages(gate: Any, hand_clock: Any) -> None:
    """The newest first or last, those of a purpose alone."""
    async with gate() as client:
        names = []
        for _ in range(5):
            names.append((await client.upload(LINES))["id"])
            hand_clock.advance(1)
        newest = (await client.http.get("/v1/files", params={"limit": 2})).json()
        rest = (await client.http.get("/v1/files", params={"after": newest["last_id"]})).json()
        oldest = (await client.http.get("/v1/files", params={"order": "asc", "limit": 1})).json()
        none = (await client.http.get("/v1/files", params={"purpose": "batch_output"})).json()
    assert (names[4:2:-1], True) == ([one["id"] for one in newest["data"]], newest["has_more"])
    assert (names[2::-1], False) == ([one["id"] for one in rest["data"]], rest["has_more"])
    assert (names[:1], True) == ([one["id"] for one in oldest["data"]], oldest["has_more"])
    assert ([], None) == (none["data"], none["first_id"])


async def test_a_deleted_file_is_gone(gate: Any) -> None:
    """The second time there is none."""
    async with gate() as client:
        file = await client.upload(LINES)
        deleted = await client.http.delete(f"/v1/files/{file['id']}")
        again = await client.http.delete(f"/v1/files/{file['id']}")
    assert {"id": file["id"], "object": "file", "deleted": True} == deleted.json()
    assert (404, "not_found") == (again.status_code, again.json()["error"]["code"])


async def test_a_tenant_meets_its_own_files_alone(gate: Any) -> None:
    """Another's are told like what does not exist."""
    async with gate(key=KEYS["acme"]) as client, client_of(client.gateway, KEYS["beta"]) as other:
        file = await client.upload(LINES)
        answers = [
            await other.http.get(f"/v1/files/{file['id']}"),
            await other.http.get(f"/v1/files/{file['id']}/content"),
            await other.http.delete(f"/v1/files/{file['id']}"),
            await other.http.get("/v1/files", params={"after": file["id"]}),
        ]
        asked = {"input_file_id": file["id"], "endpoint": "/v1/chat/completions", "completion_window": "24h"}
        answers.append(await other.http.post("/v1/batches", json=asked))
        assert [] == (await other.http.get("/v1/files")).json()["data"]
        assert 1 == len((await client.http.get("/v1/files")).json()["data"])
    assert [404] * 5 == [answer.status_code for answer in answers]


@pytest.mark.parametrize(
    ("fields", "status", "param"),
    [
        ({"purpose": "fine-tune"}, 400, "purpose"),
        ({"purpose": "x" * 300}, 400, "purpose"),
        ({"odd": "1"}, 400, "odd"),
        ({"expires_after[seconds]": "3600"}, 400, "expires_after.anchor"),
        ({"expires_after[anchor]": "created_at"}, 400, "expires_after.seconds"),
        ({"expires_after[anchor]": "created_at", "expires_after[seconds]": "60"}, 400, "expires_after.seconds"),
        ({"expires_after[anchor]": "created_at", "expires_after[seconds]": "2592001"}, 400, "expires_after.seconds"),
    ],
)
async def test_a_form_that_says_something_else_is_refused(
    gate: Any, fields: dict[str, str], status: int, param: str
) -> None:
    """By the field's name, and nothing is kept."""
    async with gate() as client:
        answer = await client.send_file(LINES, **fields)
        assert (status, param) == (answer.status_code, answer.json()["error"]["param"])
        assert [] == (await client.http.get("/v1/files")).json()["data"]


CUT = b'--x\r\ncontent-disposition: form-data; name="file"; filename="a"\r\n\r\n{}'


@pytest.mark.parametrize(
    ("kind", "body", "status"),
    [
        ("application/json", b"{}", 415),
        ("multipart/form-data", b"{}", 415),
        ("multipart/form-data; boundary=" + "y" * 300, b"{}", 415),
        ("multipart/form-data; boundary=x", b"", 400),
        ("multipart/form-data; boundary=x", b"no form", 400),
        ("multipart/form-data; boundary=x", CUT, 400),
        ("multipart/form-data; boundary=x", CUT + b"\r\n--x--\r\n", 400),
        ("multipart/form-data; boundary=x", b"--x\r\n" + b"h: 1\r\n" * 50 + b"\r\n", 400),
    ],
    ids=lambda value: str(value)[-20:],
)
async def test_what_is_no_form_is_refused(gate: Any, kind: str, body: bytes, status: int) -> None:
    """Cut short, too, or without a purpose; and nothing is kept."""
    async with gate() as client:
        answer = await client.http.post("/v1/files", content=body, headers={"content-type": kind})
        assert status == answer.status_code, answer.text
        await client.eventually_rows(0)


async def test_sizes_have_bounds(gate: Any) -> None:
    """Of one file, of all, and of their number."""
    async with gate(max_file_bytes=2000, max_stored_bytes=3000, max_files=3) as client:
        assert 413 == (await client.send_file(b"x" * 2001)).status_code
        assert 413 == (await client.send_file(b"x" * 100_000)).status_code
        await client.upload(b"x" * 2000)
        full = await client.send_file(b"x" * 1001)
        assert (400, "file_storage_limit_exceeded") == (full.status_code, full.json()["error"]["code"])
        await client.upload(b"x" * 900)
        await client.upload(b"x")
        many = await client.send_file(b"")
        assert (400, "file_storage_limit_exceeded") == (many.status_code, many.json()["error"]["code"])


@pytest.mark.parametrize("query", [{"limit": "0"}, {"limit": "10001"}, {"limit": "x"}, {"order": "up"}], ids=str)
async def test_a_page_is_asked_for_with_sense(gate: Any, query: dict[str, str]) -> None:
    """By the parameter's name."""
    async with gate() as client:
        answer = await client.http.get("/v1/files", params=query)
    assert (400, next(iter(query))) == (answer.status_code, answer.json()["error"]["param"])


async def test_where_there_are_no_batches_there_are_no_files(gate: Callable[..., Any], tmp_path: Any) -> None:
    """The operator wants none: there is no such route, and no database."""
    async with gate(batches=False) as client:
        answers = [await client.http.get(path) for path in ("/v1/files", "/v1/batches", "/v1/messages/batches")]
    assert [404] * 3 == [answer.status_code for answer in answers]
    assert not (tmp_path / "batches.sqlite3").exists()


async def test_who_leaves_nothing_costs_no_database(gate: Callable[..., Any], tmp_path: Any) -> None:
    """None is made at the start."""
    async with gate() as client:
        assert 200 == (await client.http.get("/healthz")).status_code
    assert not (tmp_path / "batches.sqlite3").exists()


async def _begun(client: Any, uploads: int) -> None:
    """Returns when so many have begun."""
    async with asyncio.timeout(PATIENCE_S):
        tables = (await client.gateway._annex.wing())._batches._tables
        while await tables.rows("SELECT count(*) FROM files") != [(uploads,)]:
            pass


async def test_slow_uploads_of_one_tenant_are_in_nobody_elses_way(gate: Any) -> None:
    """A tenant has so many at once; one more is told to come later, and another tenant's is taken."""
    unfinished = asyncio.Event()

    async def slowly() -> AsyncIterator[bytes]:
        yield b'--x\r\ncontent-disposition: form-data; name="file"; filename="a.jsonl"\r\n\r\n{}'
        await unfinished.wait()

    async with gate(key=KEYS["acme"]) as client, client_of(client.gateway, KEYS["beta"]) as other:
        headers = {"content-type": "multipart/form-data; boundary=x"}
        async with asyncio.TaskGroup() as group:
            for _ in range(MOST_UPLOADS):
                group.create_task(client.http.post("/v1/files", content=slowly(), headers=headers))
            await _begun(client, MOST_UPLOADS)
            statuses = [(await one.send_file(LINES)).status_code for one in (client, other)]
            unfinished.set()
        freed = await client.send_file(LINES)
    assert ([503, 200], 200) == (statuses, freed.status_code)


async def test_a_file_that_is_deleted_under_a_download_ends_it_early(gate: Any) -> None:
    """Without an end that the bytes do not have, and without an error of ours."""
    async with gate() as client:
        file = await client.upload(b"x" * (3 * PIECE_BYTES))
        sent: list[Any] = []

        async def send(message: Any) -> None:
            sent.append(message)
            if len(sent) == 2:
                await client.http.delete(f"/v1/files/{file['id']}")

        scope = {"type": "http", "method": "GET", "path": f"/v1/files/{file['id']}/content", "headers": [],
                 "query_string": b"", "root_path": "", "http_version": "1.1", "scheme": "http"}  # fmt: skip
        await client.gateway.asgi(scope, asyncio.Event().wait, send)
    assert [PIECE_BYTES] == [len(message["body"]) for message in sent[1:]]
    assert sent[-1]["more_body"]
