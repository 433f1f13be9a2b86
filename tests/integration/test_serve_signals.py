"""``headrace serve`` as operators run it: it drains, ends, reloads, and says how it went."""

import asyncio
import fcntl
import signal
import socket
import termios
from typing import Any

import msgspec
import pytest
import yaml

from gateway.__main__ import main

STREAM = b'{"model":"fake","stream":true,"messages":[{"role":"user","content":"hi"}]}'
SLOW = {"use": "fake", "tokens": 30, "seconds_per_token": 0.04}
STALLED = {"use": "fake", "fail": [{"kind": "stall", "after_chunks": 2}], "repeat": True}


async def _streaming(served: Any, count: int) -> list[Any]:
    """So many clients, each of which has the head of its stream."""
    clients = [await served.connect() for _ in range(count)]
    for client in clients:
        await client.post(STREAM)
    assert [200] * count == [(await client.head()).status for client in clients]
    return clients


async def _rest(client: Any) -> bytes:
    return b"".join([piece async for piece in client.chunks()])


async def _until_nothing_more_comes(unread: socket.socket) -> None:
    """Returns when the socket's buffer has been as full as it is now for a while."""
    turn, loop, before, waiting = asyncio.Event(), asyncio.get_running_loop(), b"", b"\0" * 4
    while waiting != before or waiting == b"\0" * 4:
        loop.call_later(0.2, turn.set)
        await turn.wait()
        turn.clear()
        before, waiting = waiting, fcntl.ioctl(unread.fileno(), termios.FIONREAD, b"\0" * 4)


async def test_a_drain_lets_streams_finish(start_process: Any) -> None:
    """After SIGTERM running streams finish whole, probes tell the two states apart, new work is turned away."""
    served = await start_process({"backends": {"slow": SLOW}}, HEADRACE_DRAIN_S="30")
    clients = await _streaming(served, 20)
    served.signal(signal.SIGTERM)
    await served.until_logged("draining")
    assert (503, 200) == (await served.get("/readyz"), await served.get("/healthz"))
    late = await served.connect()
    await late.post(STREAM)
    answer = await late.answer()
    assert (503, "shutting_down") == (answer.status, answer.json["error"]["code"])
    assert int(answer.header("retry-after")) >= 1
    for rest in await asyncio.gather(*map(_rest, clients)):
        assert rest.endswith(b"data: [DONE]\n\n")
        assert b"error" not in rest
    assert 0 == await served.exit_code()
    assert [("ok", 200)] * 20 == sorted(served.rows())[:20]
    assert [("rejected", 503)] == sorted(served.rows())[20:]


async def test_a_drain_ends_streams_at_its_limit(start_process: Any, collector: Any) -> None:
    """What still runs at the limit gets one error in its stream, a row and its spans, and the exit code is 0."""
    spans_to = {"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": collector.endpoint}
    served = await start_process({"backends": {"stalled": STALLED}}, HEADRACE_DRAIN_S="0.1", **spans_to)
    clients = await _streaming(served, 5)
    served.signal(signal.SIGTERM)
    for client in clients:
        last = (await _rest(client)).split(b"\n\n")[-2]
        assert "shutting_down" == msgspec.json.decode(last.removeprefix(b"data: "))["error"]["code"]
    assert 0 == await served.exit_code()
    assert [("truncated", 200)] * 5 == served.rows()
    assert 10 == len(collector.spans)


async def test_a_whole_answer_is_refused_at_the_limit(start_process: Any) -> None:
    """A request that has no answer yet at the limit gets a 503 of its own."""
    served = await start_process(
        {"backends": {"b": {"use": "fake", "fail": [{"kind": "hang"}]}}}, HEADRACE_DRAIN_S="0.1"
    )
    client = await served.connect()
    await client.post(STREAM)
    assert 200 == await served.get("/healthz")
    served.signal(signal.SIGTERM)
    answer = await client.answer()
    assert (503, "shutting_down") == (answer.status, answer.json["error"]["code"])
    assert 0 == await served.exit_code()


@pytest.mark.parametrize("first", [signal.SIGTERM, signal.SIGINT])
async def test_a_second_signal_ends_it_now(start_process: Any, first: signal.Signals) -> None:
    """Who asks twice means it; the ledger is drained all the same."""
    served = await start_process({"backends": {"stalled": STALLED}}, HEADRACE_DRAIN_S="600")
    await _streaming(served, 2)
    served.signal(first)
    await served.until_logged("draining")
    served.signal(signal.SIGTERM)
    assert 0 == await served.exit_code()
    assert 2 == len(served.rows())


async def test_a_client_that_does_not_read_holds_nobody_up(start_process: Any) -> None:
    """A connection that takes no bytes is cut when its time for the last ones is over."""
    endless = {"use": "fake", "text": "x" * 2**16, "tokens": 4000}
    served = await start_process({"backends": {"endless": endless}}, HEADRACE_DRAIN_S="600")
    client = await served.connect()
    client.writer.transport.pause_reading()
    await client.post(STREAM)
    await _until_nothing_more_comes(client.writer.get_extra_info("socket"))
    served.signal(signal.SIGTERM)
    await served.until_logged("draining")
    served.signal(signal.SIGTERM)
    assert 0 == await served.exit_code()
    assert [("client_gone", 499)] == served.rows()


async def test_an_idle_server_ends_at_once(start_process: Any) -> None:
    """Without work there is nothing to wait for, open connections or not; and nothing is written to complain."""
    served = await start_process()
    client = await served.connect()
    served.signal(signal.SIGTERM)
    assert 0 == await served.exit_code()
    assert b"" == await client.until_closed()
    assert not [line for line in served.log if "ERROR" in line or "Traceback" in line]


async def test_reload_takes_a_good_file_and_keeps_its_streams(start_process: Any) -> None:
    """SIGHUP swaps the policy while streams run on; a bad file changes nothing and says where it is wrong."""
    served = await start_process({"backends": {"slow": SLOW}})
    (client,) = await _streaming(served, 1)
    policy = {"backends": {"other": {"use": "fake"}}, "routes": {"r": {"models": ["new"], "targets": ["other"]}}}
    served.policy_file.write_text(yaml.safe_dump(policy), encoding="utf-8")
    served.signal(signal.SIGHUP)
    await served.until_logged("the policy file was reloaded")
    assert (200, 404) == (await served.get("/v1/models/new"), await served.get("/v1/models/fake"))
    served.policy_file.write_text("backends: {other: {use: fak}}\n", encoding="utf-8")
    served.signal(signal.SIGHUP)
    complaint = await served.until_logged(r"was not reloaded: .*")
    assert "backends.other" in complaint[0]
    assert "fake" in complaint[0]
    assert 200 == await served.get("/v1/models/new")
    assert (await _rest(client)).endswith(b"data: [DONE]\n\n")


@pytest.mark.parametrize(
    ("policy", "environment", "words"),
    [
        ("backends: {b: {use: nobody}}", {}, "there is no backend plugin `nobody`"),
        ("backends: {b: {use: fake}}", {"HEADRACE_PROT": "1"}, "HEADRACE_PROT is no setting"),
        ("backends: {b: {use: fake}}", {"HEADRACE_PORT": "many"}, "HEADRACE_PORT"),
    ],
)
def test_a_wrong_configuration_is_one_line_and_exit_code_1(
    tmp_path: Any, monkeypatch: Any, capsys: Any, policy: str, environment: dict[str, str], words: str
) -> None:
    """A configuration that cannot run is refused in one line that names what is wrong, before anything is bound."""
    file = tmp_path / "policy.yaml"
    file.write_text(policy, encoding="utf-8")
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    assert 1 == main(["serve", str(file)])
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("headrace: ")
    assert words in line


async def test_a_server_without_keys_is_not_reachable_from_elsewhere(start_process: Any) -> None:
    """Without a tenant's key the process binds to loopback alone, or ends with code 1 and one line."""
    served = await start_process(HEADRACE_HOST="0.0.0.0")  # noqa: S104  # refused is the point
    assert 1 == await served.exit_code()
    await served.until_logged("headrace: .*no tenant has a key")
    assert 1 == len(served.log)


@pytest.mark.parametrize("wrong", ["an unset key", "a ledger that is none"])
async def test_what_cannot_be_started_is_one_line_and_exit_code_1(
    start_process: Any, tmp_path: Any, wrong: str
) -> None:
    """What only shows at the start is told like any other mistake in the configuration, without a traceback."""
    backend = {"use": "openai_compatible", "base_url": "http://127.0.0.1:9/v1"}
    if wrong == "an unset key":
        backend["api_key_env"] = "KEY_THAT_NOBODY_SET"
    else:
        (tmp_path / "ledger.sqlite3").write_bytes(b"no database" * 1000)
    served = await start_process({"backends": {"up": backend}}, HEADRACE_STATE_DIR=str(tmp_path))
    assert 1 == await served.exit_code()
    await served.until_logged(r"headrace: .*(backends\.up\.api_key_env: .*KEY_THAT_NOBODY_SET|ledger\.sqlite3)")
    assert not [line for line in served.log if "Traceback" in line]


async def test_a_port_in_use_is_no_clean_end(start_process: Any, start_gateway: Any) -> None:
    """A server that could not bind says so by its exit code."""
    taken = await start_gateway()
    served = await start_process(HEADRACE_PORT=str(taken.port))
    assert 3 == await served.exit_code()
    await served.until_logged("address already in use")
    await served.until_logged("nothing is served: .*HEADRACE_PORT")
