"""What goes up, and what does not."""

import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from gateway.errors import UpstreamInvalid, UpstreamRefused
from gateway.types import Operation

Connect = Callable[..., Any]


@pytest.mark.parametrize("operation", [Operation.CHAT, Operation.COMPLETION])
async def test_the_body_goes_up_as_it_came(
    connect: Connect, make_call: Any, recording_sink: Any, operation: Operation
) -> None:
    """The upstream gets the client's fields, unknown ones too, with its own name for the model."""
    async with connect() as (backend, upstream):
        call = make_call(operation, stream=True, future_field={"a": [1, None]})
        await backend.send(call, recording_sink(call))
        (request,) = upstream.requests
    assert ("POST", f"/v1/{'chat/' if operation is Operation.CHAT else ''}completions") == (
        request.method,
        request.path,
    )
    assert ("served", {"a": [1, None]}) == (request.json["model"], request.json["future_field"])
    assert {"include_usage": True} == request.json["stream_options"]


async def test_only_our_own_headers_go_up(
    connect: Connect, key: Any, body: Any, make_call: Any, recording_sink: Any
) -> None:
    """The upstream sees an allow-list of headers and the key; nothing of the client, no cookie of an earlier one."""

    async def respond(request: Any, conversation: Any) -> None:
        answer = body(request)
        await conversation.answer(answer, headers={"set-cookie": "session=1; Path=/"})

    async with connect(respond, headers={"X-Team": "search", "x-pool": {"env": "EXTRA"}}) as (backend, upstream):
        for _ in range(2):
            call = make_call()
            await backend.send(call, recording_sink(call))
        left_out = {"host", "connection"}  # the one is the address, the other says what is so anyway in HTTP/1.1
        seen = [{name: value for name, value in sent.headers if name not in left_out} for sent in upstream.requests]
    expected = {
        "accept": "application/json",
        "accept-encoding": "identity",
        "authorization": f"Bearer {key}",
        "content-length": seen[0]["content-length"],
        "content-type": "application/json",
        "user-agent": "headrace",
        "x-pool": "extra-secret",
        "x-team": "search",
    }
    assert [expected, expected] == seen
    assert 1 == upstream.connections


@pytest.mark.parametrize("propagate", [True, False])
async def test_trace_context_goes_up_only_if_configured(
    connect: Connect, make_call: Any, recording_sink: Any, propagate: bool
) -> None:
    """Trace ids are sent where the operator says so, and to nobody else."""
    async with connect(propagate_trace=propagate) as (backend, upstream):
        call = make_call()
        await backend.send(call, recording_sink(call))
        headers = dict(upstream.requests[0].headers)
    expected = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01" if propagate else None
    assert expected == headers.get("traceparent")


async def test_neither_netrc_nor_a_proxy_come_between(
    connect: Connect, key: Any, make_call: Any, recording_sink: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A netrc entry replaces no key, and a proxy is asked for nothing but what the environment leaves to it."""
    (tmp_path / "netrc").write_text("machine 127.0.0.1 login other password stolen\n")
    monkeypatch.setenv("NETRC", str(tmp_path / "netrc"))
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9")
    monkeypatch.setenv("ALL_PROXY", "http://127.0.0.1:9")
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    async with connect() as (backend, upstream):
        call = make_call()
        await backend.send(call, recording_sink(call))
        assert f"Bearer {key}" == dict(upstream.requests[0].headers)["authorization"]


async def test_a_redirect_is_not_followed(connect: Connect, serve: Any, make_call: Any, recording_sink: Any) -> None:
    """An upstream that points elsewhere does not get us to carry the key there."""

    async def never(*_: Any) -> None:
        raise AssertionError

    async with serve(never) as elsewhere:

        async def respond(_: Any, conversation: Any) -> None:
            await conversation.answer(b"", status=307, headers={"location": elsewhere.url})

        async with connect(respond) as (backend, _):
            call = make_call()
            with pytest.raises(UpstreamInvalid, match="redirects are not followed"):
                await backend.send(call, recording_sink(call))
        assert (0, []) == (elsewhere.connections, elsewhere.requests)


async def test_the_key_is_in_no_log(
    connect: Connect, key: Any, make_call: Any, recording_sink: Any, caplog: pytest.LogCaptureFixture
) -> None:
    """Even with everything logged, and an upstream that quotes our key, the key stands nowhere."""

    async def respond(_: Any, conversation: Any) -> None:
        await conversation.answer(b'{"error":{"message":"bad %b"}}' % key.encode(), status=400)

    caplog.set_level(logging.DEBUG)
    async with connect(respond) as (backend, _):
        call = make_call()
        with pytest.raises(UpstreamRefused) as caught:
            await backend.send(call, recording_sink(call))
    assert "bad " == caught.value.message
    assert key not in caplog.text
    assert key not in repr(backend)
