"""Pooled HTTP/1.1 connections to one upstream, over which nothing goes but what we put there.

No redirects (one would carry our key elsewhere), no cookies (one client's answer would mark the next client's request),
no credentials out of a netrc file, no content coding (the bytes go on as they came).
"""

import asyncio
import ipaddress
import ssl
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from http.cookiejar import CookieJar, DefaultCookiePolicy

import httpx

from gateway.errors import ConfigurationError

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
        self._client = httpx.AsyncClient(
            headers={"user-agent": "headrace", "accept-encoding": "identity", **headers},
            cookies=CookieJar(DefaultCookiePolicy(allowed_domains=())),
            verify=_tls(verify) if base_url.startswith("https:") else False,
            timeout=httpx.Timeout(None, connect=connect_timeout_s, pool=connect_timeout_s),
            limits=httpx.Limits(
                max_connections=max_connections, max_keepalive_connections=None, keepalive_expiry=keep_alive_s
            ),
            follow_redirects=False,
            trust_env=not _is_loopback(base_url),  # a proxy would look for a loopback address at its own place
        )

    @asynccontextmanager
    async def post(
        self, path: str, body: bytes, *, streamed: bool, headers: Mapping[str, str]
    ) -> AsyncIterator[httpx.Response]:
        """Sends ``body`` and gives the response, its body unread.

        On leaving, however that happens, the response is closed: a connection whose answer was not read to its end is
        closed with it, at once.
        """
        accept = "text/event-stream" if streamed else "application/json"
        request = self._client.build_request(
            "POST",
            self._base_url + path,
            content=body,
            headers={"content-type": "application/json", "accept": accept, **headers},
        )
        response = await self._client.send(request, stream=True)
        try:
            yield response
        finally:
            if not response.is_closed:
                await asyncio.shield(asyncio.ensure_future(response.aclose()))

    async def close(self) -> None:
        """Closes all connections; idempotent."""
        await self._client.aclose()


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
        return verify
    try:
        return ssl.create_default_context(cafile=verify)
    except OSError as error:  # which ssl.SSLError is as well
        raise ConfigurationError(f"`{verify}` is no file of CA certificates", where="verify") from error
