"""Kept HTTP/1.1 connections to one upstream, over which nothing goes but what we put there.

No redirects (one would carry our key elsewhere), no cookies (one client's answer would mark the next client's request),
no credentials out of a netrc file, no content coding (the bytes go on as they came).

Every connection has an httpx client of its own, which is thrown away whole unless its exchange came to a clean end.
A cancelled call may leave httpx's own pool with a connection that is neither open nor free, at several of its await
points, and a second cancel may keep it from closing the socket; ``test_cancelling_at_any_moment`` finds them.
"""

import asyncio
import ipaddress
import ssl
import time
from collections import deque
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from http.cookiejar import CookieJar, DefaultCookiePolicy

import httpx

from backends._http import ConnectionsBusy
from gateway.errors import ConfigurationError, HeadraceError

_REFUSAL_BYTES = 64 * 1024
"""So much of an error's body is read; a message is in the first lines or nowhere."""


class Link:
    """The connections to one upstream, and the headers that every request carries.

    Args:
        base_url: checked by ``checked_url``.
        headers: the upstream's own: credentials, and what the operator adds.
        connect_timeout_s: for a connection, and for a free one where ``max_connections`` are busy.
        keep_alive_s: an idle connection is not used again after so long.
        max_connections: at most so many at once.
        verify: a file of CA certificates, true for the usual ones, false for none at all.

    Raises:
        ConfigurationError: ``verify`` is no such file.
    """

    def __init__(
        self,
        *,
        base_url: str,
        headers: Mapping[str, str],
        connect_timeout_s: float,
        keep_alive_s: float,
        max_connections: int,
        verify: bool | str,
    ) -> None:
        self._base_url = base_url
        self._headers = {"user-agent": "headrace", "accept-encoding": "identity", **headers}
        self._connect_timeout_s = connect_timeout_s
        self._keep_alive_s = keep_alive_s
        self._places = asyncio.Semaphore(max_connections)
        self._tls = _tls(verify) if base_url.startswith("https:") else False
        self._trust_env = not _is_loopback(base_url)  # a proxy would look for a loopback address at its own place
        self._clients: set[httpx.AsyncClient] = set()
        self._idle: deque[tuple[httpx.AsyncClient, float]] = deque()
        self._closing: set[asyncio.Task[None]] = set()
        self._sweep: asyncio.TimerHandle | None = None

    @asynccontextmanager
    async def post(
        self, path: str, body: bytes, *, streamed: bool, headers: Mapping[str, str]
    ) -> AsyncIterator[httpx.Response]:
        """Sends ``body`` and gives the response, its body unread.

        On leaving, however that happens, a connection whose answer was not read to its end is closed, at once.

        Raises:
            httpx.TransportError: no connection, or it broke.
            ConnectionsBusy: none of ours was free in time.
        """
        accept = "text/event-stream" if streamed else "application/json"
        async with self._place():
            client, reusable = self._take(), False
            try:
                request = client.build_request(
                    "POST",
                    self._base_url + path,
                    content=body,
                    headers={"content-type": "application/json", "accept": accept, **headers},
                )
                response = await client.send(request, stream=True)
                try:
                    yield response
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
            async with asyncio.timeout(self._connect_timeout_s):
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
            self._sweep = asyncio.get_running_loop().call_later(self._keep_alive_s, self._on_sweep)

    def _on_sweep(self) -> None:
        """Closes what is too old even if nobody asks any more, and looks again as long as some are kept."""
        self._sweep = None
        self._drop_old()
        if self._idle:
            self._sweep = asyncio.get_running_loop().call_later(self._keep_alive_s, self._on_sweep)

    def _drop_old(self) -> None:
        oldest_s = time.monotonic() - self._keep_alive_s
        while self._idle and self._idle[0][1] <= oldest_s:
            self._discard(self._idle.popleft()[0])

    def _new_client(self) -> httpx.AsyncClient:
        client = httpx.AsyncClient(
            headers=self._headers,
            cookies=CookieJar(DefaultCookiePolicy(allowed_domains=())),
            verify=self._tls,
            timeout=httpx.Timeout(None, connect=self._connect_timeout_s),
            limits=httpx.Limits(max_connections=1, keepalive_expiry=self._keep_alive_s),
            follow_redirects=False,
            trust_env=self._trust_env,
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


async def refusal_body(response: httpx.Response) -> bytes:
    """The beginning of an error's body, or what came of it before the connection broke."""
    body = bytearray()
    try:
        async for piece in response.aiter_raw():
            body += piece
            if len(body) >= _REFUSAL_BYTES:
                break
    except httpx.TransportError:
        return bytes(body)  # the status has come, and says more than the break
    return bytes(body[:_REFUSAL_BYTES])


def checked_url(base_url: str) -> str:
    """``base_url`` without a slash at its end.

    Raises:
        ValueError: it is no plain address of an HTTP server. Keys have no place in it: addresses are logged.
    """
    try:
        url = httpx.URL(base_url)
    except httpx.InvalidURL as error:
        raise ValueError(f"`base_url` is no address: {error}") from error
    if url.scheme not in {"http", "https"} or not url.host:
        raise ValueError("`base_url` must start with http:// or https:// and name a host")
    if url.userinfo or url.query or url.fragment:
        raise ValueError("`base_url` must have no user, query or fragment: a key belongs in the environment")
    return base_url.rstrip("/")


def _is_loopback(base_url: str) -> bool:
    host = httpx.URL(base_url).host
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:  # a name
        return False


def _tls(verify: bool | str) -> ssl.SSLContext | bool:  # noqa: FBT001  # httpx's own word and type
    if isinstance(verify, bool):
        return httpx.create_ssl_context(verify=verify)
    try:
        return ssl.create_default_context(cafile=verify)
    except OSError as error:  # which ssl.SSLError is as well
        raise ConfigurationError(f"`{verify}` is no file of CA certificates", where="verify") from error
