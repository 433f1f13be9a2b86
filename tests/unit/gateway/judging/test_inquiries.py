import asyncio
import contextlib
import os
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any

import msgspec
import pytest

from gateway.judgement import CommandInquiry, HttpInquiry, Reply
from gateway.judging.inquiries import Inquiries, Unanswered
from gateway.ports import Origin
from gateway.transport.client import open_connections

Serve = Callable[..., AbstractAsyncContextManager[Any]]


@pytest.fixture
async def inquiries() -> AsyncIterator[Inquiries]:
    """Asks over real connections, with one key."""
    opened = Inquiries(open_connections, {"JUDGE_KEY": "judge-secret"}.get)
    yield opened
    await opened.close()


def _post(url: str, **changes: Any) -> HttpInquiry:
    return HttpInquiry(**{"url": url, "body": b'{"a":1}', "timeout_s": 20.0, "max_reply_bytes": 100, **changes})


def _run(*command: str, **changes: Any) -> CommandInquiry:
    given = {"command": command, "body": b'{"a":1}', "timeout_s": 20.0, "max_reply_bytes": 100, **changes}
    return CommandInquiry(**given)


async def test_a_service_is_told_the_question_and_the_key(inquiries: Inquiries, serve: Serve) -> None:
    """At its path and query, as JSON, with the key and nothing else of ours."""

    async def respond(_: Any, conversation: Any) -> None:
        await conversation.answer(b'{"success":true}')

    async with serve(respond) as upstream:
        for _ in range(2):
            reply = await inquiries.ask(_post(f"{upstream.url}/judge?by=us", api_key_env="JUDGE_KEY"))
        assert Reply(code=200, body=b'{"success":true}') == reply
        request = upstream.requests[0]
        headers = dict(request.headers)
        assert ("POST", "/v1/judge?by=us", b'{"a":1}') == (request.method, request.path, request.body)
        assert ("Bearer judge-secret", "application/json") == (headers["authorization"], headers["content-type"])
        assert 1 == upstream.connections


async def test_a_redirect_is_an_answer_and_is_not_followed(inquiries: Inquiries, serve: Serve) -> None:
    """Neither the words nor the key go where the policy file did not say."""

    async def elsewhere(_: Any, conversation: Any) -> None:
        await conversation.answer(b'{"success":true}')

    async with serve(elsewhere) as other:

        async def respond(_: Any, conversation: Any) -> None:
            await conversation.answer(b"", status=307, headers={"location": other.url})

        async with serve(respond) as upstream:
            assert 307 == (await inquiries.ask(_post(upstream.url))).code
        assert [] == other.requests


async def test_silence_too_many_words_and_broken_ends_are_no_reply(inquiries: Inquiries, serve: Serve) -> None:
    """Each with a reason that quotes nobody."""

    async def respond(request: Any, conversation: Any) -> None:
        if request.path.endswith("long"):
            await conversation.answer(b"x" * 101)
        elif request.path.endswith("broken"):
            conversation.reset()
        else:
            await conversation.until_closed()

    async with serve(respond) as upstream:
        for path, changes, reason in (
            ("long", {}, "a reply of more than 100 bytes"),
            ("broken", {}, "no reply: UpstreamUnreachable"),
            ("silent", {"timeout_s": 0.05}, "no reply within 0.05 s"),
            ("any", {"api_key_env": "OTHER_KEY"}, "OTHER_KEY is not set"),
        ):
            with pytest.raises(Unanswered, match=reason):
                await inquiries.ask(_post(f"{upstream.url}/{path}", **changes))
        await upstream.until(lambda seen: seen.open_connections == 0)


async def test_connections_are_kept_for_a_bounded_number_of_addresses(inquiries: Inquiries, serve: Serve) -> None:
    """However many judges a file names."""

    async def respond(_: Any, conversation: Any) -> None:
        await conversation.answer(b"{}")

    origin = Origin(base_url="http://127.0.0.1:9", headers={}, connect_timeout_s=1, keep_alive_s=1, max_connections=1)
    async with serve(respond) as upstream:
        for number in range(64):
            inquiries._connections[f"http://{number}", ""] = open_connections(origin)
        await inquiries.ask(_post(upstream.url))
        assert 1 == len(inquiries._connections)


async def test_a_program_is_told_the_question_and_says_its_code(inquiries: Inquiries, tmp_path: Path) -> None:
    """Without a shell, in an environment without our secrets."""
    script = tmp_path / "check.py"
    script.write_text(
        "import json, os, sys\nasked = json.load(sys.stdin)\n"
        "print(json.dumps([asked, sorted(os.environ), sys.argv[1:]]))\nsys.exit(3)\n"
    )
    os.environ["JUDGE_TEST_SECRET"] = "judge-secret"
    reply = await inquiries.ask(_run(sys.executable, str(script), "$HOME; true", max_reply_bytes=1000))
    del os.environ["JUDGE_TEST_SECRET"]
    asked, environment, arguments = msgspec.json.decode(reply.body)
    assert (3, {"a": 1}, ["$HOME; true"]) == (reply.code, asked, arguments)
    assert {"LANG", "PATH"} <= set(environment) <= {"LANG", "PATH", "LC_CTYPE"}


@pytest.mark.parametrize(
    ("program", "changes", "reason"),
    [
        ("import time; time.sleep(60)", {"timeout_s": 0.3}, "no reply within 0.3 s"),
        ("print('x' * 1000)", {}, "more than 100 bytes of output"),
    ],
)
async def test_a_program_that_goes_too_far_is_killed(
    inquiries: Inquiries, program: str, changes: Any, reason: str
) -> None:
    """In time or in words."""
    with pytest.raises(Unanswered, match=reason):
        await inquiries.ask(_run(sys.executable, "-c", program, **changes))


async def test_a_program_dies_with_all_that_it_has_started(inquiries: Inquiries, tmp_path: Path) -> None:
    """Also where who waits for it is cancelled."""
    told = tmp_path / "pid"
    program = f"sleep 60 & echo $! > {told}.new && mv {told}.new {told}; wait"
    asking = asyncio.create_task(inquiries.ask(_run("/bin/sh", "-c", program)))
    await _until(told.exists)
    asking.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asking
    pid = int(told.read_text())
    await _until(lambda: not _runs(pid))


@pytest.mark.parametrize("leaving", ["exec >&-; exit 0", "exit 0"])
async def test_what_a_program_leaves_behind_ends_with_it(inquiries: Inquiries, tmp_path: Path, leaving: str) -> None:
    """It may have ended well, and what it started may hold its output open or not."""
    told = tmp_path / "pid"
    quiet = ">&-" if leaving != "exit 0" else ""
    program = f"sleep 60 {quiet} & echo $! > {told}; {leaving}"
    with contextlib.suppress(Unanswered):  # an output that stays open is one that never came to its end
        await inquiries.ask(_run("/bin/sh", "-c", program, timeout_s=0.3))
    pid = int(told.read_text())
    await _until(lambda: not _runs(pid))


async def _until(condition: Callable[[], bool]) -> None:
    """What happens in another process tells no event of ours."""
    async with asyncio.timeout(30):
        while not condition():  # noqa: ASYNC110  # another process sets no event of ours
            await asyncio.sleep(0)


def _runs(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state != "Z"


async def test_a_program_need_not_read_its_question(inquiries: Inquiries) -> None:
    """Its code is its word all the same."""
    reply = await inquiries.ask(_run("/bin/true", body=b"x" * 1_000_000))
    assert Reply(code=0, body=b"") == reply


@pytest.mark.parametrize(("command", "error"), [("/does/not/exist", "FileNotFoundError"), ("/", "PermissionError")])
async def test_a_program_that_is_none_is_no_reply(inquiries: Inquiries, command: str, error: str) -> None:
    """By the kind of the error alone."""
    with pytest.raises(Unanswered, match=f"it cannot be run: {error}"):
        await inquiries.ask(_run(command))
