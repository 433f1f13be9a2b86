"""TLS to the upstream: whom we trust, what we say of ourselves, and that it carries the same answers."""

import asyncio
import ssl
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import trustme
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    PrivateFormat,
    load_pem_private_key,
)

from gateway.errors import ConfigurationError, UpstreamUnreachable
from gateway.transport.client import open_connections

Meet = Callable[..., Any]

OK = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok"


async def test_a_trusted_upstream(meet: Meet, post: Any, server_tls: Any, authority_file: str) -> None:
    """With its authority's certificate in ``verify``; over HTTP/1.1 though it could do more, and by its name."""
    names, protocols = [], []

    async def serve(sock: Any) -> None:
        protocols.append(sock.writer.get_extra_info("ssl_object").selected_alpn_protocol())
        while await sock.request():
            await sock.send(OK)

    server_tls.sni_callback = lambda _, name, __: names.append(name)
    async with meet(serve, server_tls=server_tls, verify=authority_file, at="https://localhost") as (connections, it):
        for _ in range(3):
            assert b"ok" == (await post(connections)).body
        assert (1, 1, 1) == (it.seen, connections.open, connections.idle)
    assert (["localhost"], ["http/1.1"]) == (names, protocols)


async def test_an_upstream_by_its_number(meet: Meet, post: Any, say: Any, server_tls: Any, authority_file: str) -> None:
    """A certificate may be for an IP address."""
    async with meet(say(OK), server_tls=server_tls, verify=authority_file) as (connections, _):
        assert b"ok" == (await post(connections)).body


@pytest.mark.parametrize("verify", [True, "other"])
async def test_nobody_vouches_for_the_upstream(
    meet: Meet, post: Any, say: Any, server_tls: Any, tmp_path: Path, verify: Any
) -> None:
    """An unknown authority is not trusted, nothing of the request goes out, and the place is free again."""
    if verify == "other":
        verify = str(tmp_path / "other.pem")
        trustme.CA().cert_pem.write_to_path(verify)
    async with meet(say(OK), server_tls=server_tls, verify=verify, max_connections=1) as (connections, listener):
        for _ in range(2):
            with pytest.raises(UpstreamUnreachable, match="its certificate is not trusted"):
                await post(connections)
        assert (0, 0) == (listener.seen, connections.open)


async def test_a_certificate_for_another_name(
    meet: Meet, post: Any, say: Any, authority: trustme.CA, authority_file: str
) -> None:
    """A trusted certificate is not enough: it must be the upstream's own."""
    server_tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    authority.issue_cert("elsewhere.example").configure_cert(server_tls)
    async with meet(say(OK), server_tls=server_tls, verify=authority_file) as (connections, _):
        with pytest.raises(UpstreamUnreachable, match="its certificate is not trusted") as caught:
            await post(connections)
    assert "127.0.0.1" not in caught.value.message


async def test_trust_can_be_switched_off(meet: Meet, post: Any, say: Any, server_tls: Any) -> None:
    """``verify: false`` takes any certificate."""
    async with meet(say(OK), server_tls=server_tls, verify=False) as (connections, _):
        assert b"ok" == (await post(connections)).body


async def test_an_upstream_without_tls(meet: Meet, post: Any) -> None:
    """What is no TLS is told as that."""

    async def serve(sock: Any) -> None:
        await sock.send(OK)
        await sock.until_closed()

    async with meet(serve, at="https://127.0.0.1") as (connections, listener):
        with pytest.raises(UpstreamUnreachable, match="TLS failed"):
            await post(connections)
        assert 1 == listener.seen


@pytest.fixture
def key_pair(authority: trustme.CA, tmp_path: Path) -> tuple[str, str]:
    """A client's certificate and key, as files."""
    issued = authority.issue_cert("gateway.example")
    certificate, key = tmp_path / "client.pem", tmp_path / "client.key"
    issued.cert_chain_pems[0].write_to_path(str(certificate))
    issued.private_key_pem.write_to_path(str(key))
    return str(certificate), str(key)


async def test_an_upstream_that_asks_who_we_are(
    meet: Meet, post: Any, server_tls: Any, authority: trustme.CA, authority_file: str, key_pair: tuple[str, str]
) -> None:
    """With a certificate we are let in; without one the request fails."""
    callers = []

    async def serve(sock: Any) -> None:
        callers.append(sock.writer.get_extra_info("peercert")["subjectAltName"])
        while await sock.request():
            await sock.send(OK)

    server_tls.verify_mode = ssl.CERT_REQUIRED
    authority.configure_trust(server_tls)
    server_tls.maximum_version = ssl.TLSVersion.TLSv1_2  # where the refusal is a part of the handshake
    certificate, key = key_pair
    known = {"client_certificate": certificate, "client_key": key}
    async with meet(serve, server_tls=server_tls, verify=authority_file, **known) as (connections, _):
        assert b"ok" == (await post(connections)).body
    async with meet(serve, server_tls=server_tls, verify=authority_file) as (connections, _):
        with pytest.raises(UpstreamUnreachable):
            await post(connections)
    assert [(("DNS", "gateway.example"),)] == callers


def test_files_that_are_no_certificates(origin: Any, tmp_path: Path, key_pair: tuple[str, str]) -> None:
    """They are refused when the connections are made, not when the first request comes; no password is asked for."""
    certificate, key = key_pair
    nothing = tmp_path / "nothing.pem"
    nothing.write_bytes(b"")
    private = load_pem_private_key(Path(key).read_bytes(), None)
    locked = tmp_path / "locked.key"
    locked.write_bytes(private.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, BestAvailableEncryption(b"secret")))
    for fields in (
        {"verify": str(nothing)},
        {"verify": str(tmp_path / "missing")},
        {"client_certificate": str(tmp_path / "missing"), "client_key": key},
        {"client_certificate": certificate},
        {"client_certificate": certificate, "client_key": str(nothing)},
        {"client_certificate": certificate, "client_key": str(locked)},
        {"client_key": key},
    ):
        with pytest.raises(ConfigurationError):
            open_connections(origin(base_url="https://a.example", **fields))


async def test_an_answer_that_ends_with_the_session(
    meet: Meet, post: Any, server_tls: Any, authority_file: str
) -> None:
    """The farewell of TLS is an end as well."""

    async def serve(sock: Any) -> None:
        await sock.request()
        await sock.send(b"HTTP/1.1 200 OK\r\n\r\nall of it")
        sock.writer.close()
        await sock.until_closed()

    async with meet(serve, server_tls=server_tls, verify=authority_file) as (connections, listener):
        for number in (1, 2):
            assert b"all of it" == (await post(connections)).body
            assert number == listener.seen


async def test_an_idle_session_that_ends(meet: Meet, post: Any, server_tls: Any, authority_file: str) -> None:
    """A kept connection whose session the upstream ends is not used again."""

    async def serve(sock: Any) -> None:
        await sock.request()
        await sock.send(OK)
        await answered.wait()
        answered.clear()

    answered = asyncio.Event()
    async with meet(serve, server_tls=server_tls, verify=authority_file) as (connections, listener):
        for number in (1, 2, 3):
            assert b"ok" == (await post(connections)).body
            assert (number, 1) == (listener.seen, connections.idle)
            answered.set()
            await listener.until(lambda it: it.open == 0)
