"""Connections through httpx, for upstreams that the gateway's own transport cannot reach: behind a proxy, over HTTP/2.

No redirects (one would carry our key elsewhere), no cookies (one client's answer would mark the next client's request),
no credentials out of a netrc file, no content coding (the bytes go on as they came).

Every connection has an httpx client of its own, which is thrown away whole unless its exchange came to a clean end.
A cancelled call may leave httpx's own pool with a connection that is neither open nor free, at several of its await
points, and a second cancel may keep it from closing the socket; ``test_cancelling_at_any_moment`` finds them.
"""

import asyncio
import socket
import ssl
import time
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from http.cookiejar import CookieJar, DefaultCookiePolicy

import httpx

from gateway.errors import (
    ConfigurationError,
    ConnectionsBusy,
    HeadraceError,
    UpstreamError,
    UpstreamInvalid,
    UpstreamTimeout,
    UpstreamUnreachable,
)
from gateway.ports import Origin, UpstreamAnswer

_BY_TYPE: tuple[tuple[type[httpx.TransportError], type[UpstreamError], str], ...] = (
    (httpx.ConnectTimeout, UpstreamTimeout, "the upstream took too long to connect"),
    (httpx.TimeoutException, UpstreamTimeout, "the upstream took too long"),
    (httpx.ConnectError, UpstreamUnreachable, "no connection to the upstream"),
    (httpx.ProxyError, UpstreamUnreachable, "the proxy gave no connection to the upstream"),
    (httpx.ProtocolError, UpstreamUnreachable, "the upstream closed or broke the connection without an answer"),
    (httpx.TransportError, UpstreamUnreachable, "the connection to the upstream broke without an answer"),
)
"""The first row that fits: the most specific types come first, and the last fits all."""

_CAUSES: tuple[tuple[type[BaseException], str], ...] = (
    (socket.gaierror, "its name does not resolve"),
    (ssl.SSLCertVerificationError, "its certificate is not trusted"),
    (ssl.SSLError, "TLS failed"),
    (ConnectionRefusedError, "connection refused"),
    (ConnectionResetError, "connection reset"),
    (OSError, "network error"),
)


def from_transport(error: httpx.TransportError) -> UpstreamError:
    """The error of our tree for a connection that gave no answer."""
    for foreign, ours, words in _BY_TYPE:
        if isinstance(error, foreign):
            reason = _reason(error)
            return ours(f"{words}: {reason}" if reason else words)
    raise AssertionError(error)  # the last row fits every TransportError


def _reason(error: BaseException) -> str:
    """The most telling cause in the chain, by type: its text may name hosts."""
    chain = tuple(_chain(error))
    return next((words for cause, words in _CAUSES if any(isinstance(link, cause) for link in chain)), "")


def _chain(error: BaseException | None) -> Iterator[BaseException]:
    while error is not None:
        yield error
        error = error.__cause__ or error.__context__


class HttpxConnections:
    """The ``Connections`` port over httpx. With ``http2``, nothing but that is spoken, by prior knowledge or over TLS.

    Raises:
        ConfigurationError: ``verify`` or the client's certificate is no such file.
    """

    def __init__(self, origin: Origin, *, http2: bool = False) -> None:
        self._origin = origin
        self._http2 = http2
        self._headers = {"user-agent": "headrace", "accept-encoding": "identity", **origin.headers}
        self._places = asyncio.Semaphore(origin.max_connections)
        self._tls = _tls(origin) if origin.base_url.startswith("https:") else False
        self._clients: set[httpx.AsyncClient] = set()
        self._idle: deque[tuple[httpx.AsyncClient, float]] = deque()
        self._closing: set[asyncio.Task[None]] = set()
        self._sweep: asyncio.TimerHandle | None = None

    @asynccontextmanager
    async def post(self, path: str, body: bytes, *, headers: Mapping[str, str]) -> AsyncIterator[UpstreamAnswer]:
        """See ``Connections.post``."""
        async with self._place():
            client, reusable = self._take(), False
            try:
                request = client.build_request(
                    "POST",
                    self._origin.base_url + path,
                    content=body,
                    headers={"content-type": "application/json", **headers},
                )
                with _ours():
                    response = await client.send(request, stream=True)
                try:
                    yield HttpxAnswer(response)
                except HeadraceError:  # our judgement of an answer, which may well have been read to its end
                    reusable = response.is_closed
                    raise
                reusable = response.is_closed
            finally:
                if reusable:
                    self._keep(client)
                else:
                    await asyncio.shield(self._discard(client))

    async def close(self) -> None:
        """Closes all connections, also those in use, whose calls then fail; idempotent."""
        if self._sweep is not None:
            self._sweep.cancel()
        self._idle.clear()
        for client in tuple(self._clients):
            self._discard(client)
        await asyncio.gather(*self._closing)

    @asynccontextmanager
    async def _place(self) -> AsyncIterator[None]:
        try:
            async with asyncio.timeout(self._origin.connect_timeout_s):
                await self._places.acquire()
        except TimeoutError as error:
            raise ConnectionsBusy("all connections to the upstream are in use") from error
        try:
            yield
        finally:
            self._places.release()

    def _take(self) -> httpx.AsyncClient:
        """The client that was used last, so that surplus ones grow old."""
        self._drop_old()
        return self._idle.pop()[0] if self._idle else self._new_client()

    def _keep(self, client: httpx.AsyncClient) -> None:
        if client not in self._clients:
            return  # closed in the meantime
        self._idle.append((client, time.monotonic()))
        if self._sweep is None:
            self._sweep = asyncio.get_running_loop().call_later(self._origin.keep_alive_s, self._on_sweep)

    def _on_sweep(self) -> None:
        """Closes what is too old even if nobody asks any more, and looks again as long as some are kept."""
        self._sweep = None
        self._drop_old()
        if self._idle:
            self._sweep = asyncio.get_running_loop().call_later(self._origin.keep_alive_s, self._on_sweep)

    def _drop_old(self) -> None:
        oldest_s = time.monotonic() - self._origin.keep_alive_s
        while self._idle and self._idle[0][1] <= oldest_s:
            self._discard(self._idle.popleft()[0])

    def _new_client(self) -> httpx.AsyncClient:
        client = httpx.AsyncClient(
            headers=self._headers,
            cookies=CookieJar(DefaultCookiePolicy(allowed_domains=())),
            verify=self._tls,
            timeout=httpx.Timeout(None, connect=self._origin.connect_timeout_s),
            limits=httpx.Limits(max_connections=1, keepalive_expiry=self._origin.keep_alive_s),
            follow_redirects=False,
            http1=not self._http2,
            http2=self._http2,
            trust_env=True,  # for its proxies; nothing else of it is used
        )
        self._clients.add(client)
        return client

    def _discard(self, client: httpx.AsyncClient) -> asyncio.Task[None]:
        """Closes the client and its connection; goes on when whoever waits for it is cancelled."""
        self._clients.discard(client)
        task = asyncio.ensure_future(client.aclose())
        self._closing.add(task)
        task.add_done_callback(self._closing.discard)
        return task


class HttpxAnswer:
    """The ``UpstreamAnswer`` port over an httpx response."""

    def __init__(self, response: httpx.Response) -> None:
        self.status = response.status_code
        self.headers: Sequence[tuple[str, str]] = response.headers.multi_items()
        self._pieces = response.aiter_raw()

    def header(self, name: str) -> str:
        """See ``UpstreamAnswer.header``."""
        return dict(self.headers).get(name, "").strip()

    async def whole(self, most_bytes: int) -> bytes:
        """See ``UpstreamAnswer.whole``."""
        body = bytearray()
        while piece := await self.piece():
            body += piece
            if len(body) > most_bytes:
                raise UpstreamInvalid(f"the answer is longer than {most_bytes} bytes")
        return bytes(body)

    async def piece(self) -> bytes:
        """See ``UpstreamAnswer.piece``."""
        with _ours():
            async for piece in self._pieces:
                if piece:
                    return piece
        return b""

    async def pour(self, take: Callable[[bytes], Awaitable[None]]) -> None:
        """See ``UpstreamAnswer.pour``."""
        while piece := await self.piece():
            await take(piece)


@contextmanager
def _ours() -> Iterator[None]:
    """Turns what httpx raises into the errors of our tree."""
    try:
        yield
    except httpx.TransportError as error:
        raise from_transport(error) from error


def _tls(origin: Origin) -> ssl.SSLContext:
    try:
        if isinstance(origin.verify, bool):
            context = httpx.create_ssl_context(verify=origin.verify)
        else:
            context = ssl.create_default_context(cafile=origin.verify)
        if origin.client_certificate:
            context.load_cert_chain(origin.client_certificate, origin.client_key or None)
    except OSError as error:  # which ssl.SSLError is as well
        raise ConfigurationError("a certificate file cannot be read", where="verify") from error
    return context
