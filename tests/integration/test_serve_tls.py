import asyncio
import ssl
from pathlib import Path
from typing import Any

import httpx
import pytest
import trustme

from gateway.errors import ConfigurationError
from tests.integration.raw_client import RawClient


@pytest.fixture(scope="module")
def authority() -> trustme.CA:
    """An authority that vouches for the gateway."""
    return trustme.CA()


@pytest.fixture
def trust(authority: trustme.CA) -> ssl.SSLContext:
    """What a client needs that believes it."""
    context = ssl.create_default_context()
    authority.configure_trust(context)
    return context


@pytest.fixture
async def secured(start_gateway: Any, authority: trustme.CA, tmp_path: Path) -> Any:
    """A gateway that is ``localhost``, certificate and key in one file; its backend takes its time."""
    file = tmp_path / "server.pem"
    authority.issue_cert("localhost").private_key_and_cert_chain_pem.write_to_path(str(file))
    backends = {
        "quick": {"use": "fake", "text": "one two three", "models": ["fake"]},
        "endless": {"use": "fake", "models": ["endless"], "fail": [{"kind": "stall", "after_chunks": 1}]},
    }
    return await start_gateway({"backends": backends, "routes": {}}, tls_certificate=file)


@pytest.mark.parametrize("stream", [False, True])
async def test_clients_can_speak_https(secured: Any, trust: ssl.SSLContext, stream: bool) -> None:
    """Whole answers and streams, two of them over one connection, and other routes as well."""
    body = {"model": "fake", "stream": stream, "messages": [{"role": "user", "content": "hi"}]}
    async with httpx.AsyncClient(base_url=f"https://localhost:{secured.port}", verify=trust) as client:
        answers = [await client.post("/v1/chat/completions", json=body) for _ in range(2)]
        health = await client.get("/healthz")
    assert [200, 200, 200] == [answer.status_code for answer in (*answers, health)]
    assert all("three" in answer.text for answer in answers)
    assert all(answer.text.endswith("data: [DONE]\n\n") is stream for answer in answers)


async def test_leaving_over_tls_ends_the_work(secured: Any, trust: ssl.SSLContext, eventually: Any) -> None:
    """A client that is gone is noticed behind TLS as well."""
    reader, writer = await asyncio.open_connection("localhost", secured.port, ssl=trust, server_hostname="localhost")
    client = RawClient(reader, writer)
    await client.post(b'{"model":"endless","stream":true,"messages":[{"role":"user","content":"hi"}]}')
    assert 200 == (await client.head()).status
    assert 1 == secured.backend("endless").open_calls
    client.hang_up()
    await eventually(lambda: secured.backend("endless").closed_calls == 1)
    assert "client_gone" == (await secured.row())["status"]


@pytest.mark.parametrize(("certificate", "key"), [("missing.pem", None), ("policy.yaml", None), (None, "policy.yaml")])
async def test_files_that_are_no_certificates(
    start_gateway: Any, tmp_path: Path, certificate: str | None, key: str | None
) -> None:
    """It is said at the start, in a sentence, by the variable's name."""
    (tmp_path / "policy.yaml").write_text("no certificate")
    files = {name: tmp_path / file for name, file in (("tls_certificate", certificate), ("tls_key", key)) if file}
    with pytest.raises(ConfigurationError, match="certificate") as raised:
        await start_gateway({}, **files)
    assert "HEADRACE_TLS_CERTIFICATE" == raised.value.where
