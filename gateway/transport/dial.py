"""A TCP connection to the first of an upstream's addresses that answers (RFC 8305, "happy eyeballs")."""

import asyncio
import socket
import ssl
from collections import deque
from itertools import chain, zip_longest
from typing import TypeVar, cast

from gateway.transport.address import Address

Protocol = TypeVar("Protocol", bound=asyncio.Protocol)

_STAGGER_S = 0.25
"""How long an address is waited for before the next is tried beside it: RFC 8305, section 8."""

_KEEPALIVE = (("TCP_KEEPIDLE", 60), ("TCP_KEEPINTVL", 15), ("TCP_KEEPCNT", 4))
"""Seconds, seconds, tries. A long wait for a first token keeps its place in NAT tables, and a dead host is noticed."""

_CAUSES: tuple[tuple[type[OSError], str], ...] = (
    (socket.gaierror, "its name does not resolve"),
    (ssl.SSLCertVerificationError, "its certificate is not trusted"),
    (ssl.SSLError, "TLS failed"),
    (ConnectionRefusedError, "connection refused"),
    (ConnectionResetError, "connection reset"),
    (OSError, "network error"),
)
"""The first row that fits: the most specific types come first, and the last fits all."""

_SocketAddress = tuple[socket.AddressFamily, tuple[str, int] | tuple[str, int, int, int] | tuple[int, bytes]]


async def dial(address: Address, tls: ssl.SSLContext | None, protocol: Protocol) -> Protocol:
    """Connects ``protocol``, with its TLS handshake done. Names are resolved anew each time.

    Raises:
        OSError: the name does not resolve, nobody answers, or TLS fails.
    """
    loop = asyncio.get_running_loop()
    sock = await _first_to_connect(await _resolve(address.host, address.port))
    try:
        first = protocol if tls is None else _Unsecured()
        transport, _ = await loop.create_connection(lambda: first, sock=sock)
    except BaseException:
        sock.close()
        raise
    if tls is not None:
        await _shake_hands(transport, protocol, tls, address.host.removesuffix("."))
    return protocol


class _Unsecured(asyncio.Protocol):
    """A connection before its handshake, in which we speak first."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:  # noqa: ARG002  # asyncio's signature
        self._transport.abort()


async def _shake_hands(
    transport: asyncio.Transport, protocol: asyncio.Protocol, tls: ssl.SSLContext, server_name: str
) -> None:
    """Does by hand what ``create_connection(ssl=...)`` does, which forgets its socket when it is cancelled early."""
    if transport.is_closing():
        raise ssl.SSLError("the server speaks first, or has left")
    try:
        secured = await asyncio.get_running_loop().start_tls(transport, protocol, tls, server_hostname=server_name)
    except BaseException:
        transport.abort()
        raise
    if secured is None or transport.is_closing():  # lost since the handshake
        raise ConnectionResetError
    protocol.connection_made(secured)


def reason(error: OSError) -> str:
    """Why ``dial`` failed, by the error's type: its text may name hosts."""
    return next(words for cause, words in _CAUSES if isinstance(error, cause))


async def _resolve(host: str, port: int) -> list[_SocketAddress]:
    """The addresses in the resolver's order, but the families in turn: a broken one costs one wait, not many."""
    found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
    families: dict[socket.AddressFamily, list[_SocketAddress]] = {}
    for family, _, _, _, address in found:
        families.setdefault(family, []).append((family, address))
    in_turn = chain.from_iterable(zip_longest(*families.values()))
    return [address for address in in_turn if address is not None]


async def _first_to_connect(addresses: list[_SocketAddress]) -> socket.socket:
    if len(addresses) == 1:
        return await _connect(addresses[0])
    untried = deque(addresses)
    tried: list[asyncio.Task[socket.socket]] = []
    winner = None
    try:
        while winner is None:
            if untried:
                tried.append(asyncio.create_task(_connect(untried.popleft())))
            pending = [attempt for attempt in tried if not attempt.done()]
            if not pending:
                return tried[0].result()  # raises what went wrong at the address that the resolver put first
            await asyncio.wait(pending, timeout=_STAGGER_S if untried else None, return_when=asyncio.FIRST_COMPLETED)
            winner = next((attempt for attempt in tried if _connected(attempt)), None)
        return winner.result()
    finally:
        for attempt in tried:
            if attempt is not winner:
                attempt.cancel()
                attempt.add_done_callback(_close_late)


async def _connect(address: _SocketAddress) -> socket.socket:
    family, where = address
    sock = socket.socket(family, socket.SOCK_STREAM)
    try:
        sock.setblocking(False)  # noqa: FBT003  # the socket module's signature
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        for option, value in _KEEPALIVE:
            if hasattr(socket, option):
                sock.setsockopt(socket.IPPROTO_TCP, getattr(socket, option), value)
        await asyncio.get_running_loop().sock_connect(sock, where)
    except BaseException:
        sock.close()
        raise
    return sock


def _connected(attempt: "asyncio.Task[socket.socket]") -> bool:
    return attempt.done() and not attempt.cancelled() and attempt.exception() is None


def _close_late(attempt: "asyncio.Task[socket.socket]") -> None:
    if _connected(attempt):
        attempt.result().close()
