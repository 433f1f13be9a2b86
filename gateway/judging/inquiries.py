"""Asks services and programs what judges want to know: nowhere else, not for longer, and for no more than they said."""

import asyncio
import contextlib
import os
import signal
from asyncio.subprocess import DEVNULL, PIPE, Process
from collections.abc import Callable
from urllib.parse import urlsplit

from gateway.errors import HeadraceError
from gateway.judgement import CommandInquiry, HttpInquiry, Inquiry, Reply
from gateway.ports import Connections, Origin

_MOST_ORIGINS = 64
_MOST_PROGRAMS = 4
_KEEP_ALIVE_S = 4.0
_MOST_CONNECTIONS = 16

Connect = Callable[[Origin], Connections]
Secret = Callable[[str], str | None]

_Headers = tuple[tuple[str, str], ...]
_Address = tuple[str, str, _Headers, _Headers]


class Unanswered(Exception):
    """There was no reply; the message says why, and quotes nobody."""


class Inquiries:
    """Over connections of its own, kept for each address and key; programs have no shell and no secret."""

    def __init__(self, connect: Connect, secret: Secret) -> None:
        self._connect = connect
        self._secret = secret
        self._connections: dict[_Address, Connections] = {}
        self._programs = asyncio.Semaphore(_MOST_PROGRAMS)

    async def ask(self, inquiry: Inquiry) -> Reply:
        """The reply.

        Raises:
            Unanswered: there was none, or not in time, or more of it than the judge would read.
        """
        try:
            async with asyncio.timeout(inquiry.timeout_s):
                if isinstance(inquiry, HttpInquiry):
                    return await self._post(inquiry)
                async with self._programs:
                    return await _run(inquiry)
        except TimeoutError:
            raise Unanswered(f"no reply within {inquiry.timeout_s:g} s") from None

    async def close(self) -> None:
        """Closes all connections; idempotent."""
        connections, self._connections = self._connections, {}
        await asyncio.gather(*(one.close() for one in connections.values()))

    async def _post(self, inquiry: HttpInquiry) -> Reply:
        parts = urlsplit(inquiry.url)
        path = f"{parts.path or '/'}{f'?{parts.query}' if parts.query else ''}"
        connections = await self._to(f"{parts.scheme}://{parts.netloc}", inquiry)
        try:
            async with connections.post(path, inquiry.body, headers={}) as answer:
                body = bytearray()
                while piece := await answer.piece():
                    body += piece
                    if len(body) > inquiry.max_reply_bytes:
                        raise Unanswered(f"a reply of more than {inquiry.max_reply_bytes} bytes")
                return Reply(code=answer.status, body=bytes(body))
        except HeadraceError as error:
            raise Unanswered(f"no reply: {type(error).__name__}") from None

    async def _to(self, base_url: str, inquiry: HttpInquiry) -> Connections:
        address = (base_url, inquiry.api_key_env, inquiry.headers, inquiry.secret_headers)
        known = self._connections.get(address)
        if known is not None:
            return known
        headers = dict(inquiry.headers)
        headers |= {name: self._value(variable) for name, variable in inquiry.secret_headers}
        if inquiry.api_key_env:
            headers["authorization"] = f"Bearer {self._value(inquiry.api_key_env)}"
        if len(self._connections) >= _MOST_ORIGINS:
            await self.close()
        origin = Origin(
            base_url=base_url,
            headers=headers,
            connect_timeout_s=inquiry.timeout_s,
            keep_alive_s=_KEEP_ALIVE_S,
            max_connections=_MOST_CONNECTIONS,
        )
        made = self._connections[address] = self._connect(origin)
        return made

    def _value(self, variable: str) -> str:
        value = self._secret(variable)
        if value is None:
            raise Unanswered(f"{variable} is not set")
        return value


async def _run(inquiry: CommandInquiry) -> Reply:
    try:
        process = await asyncio.create_subprocess_exec(
            *inquiry.command,
            stdin=PIPE,
            stdout=PIPE,
            stderr=DEVNULL,
            env={"PATH": os.defpath, "LANG": "C.UTF-8"},
            start_new_session=True,
        )
    except OSError as error:
        raise Unanswered(f"it cannot be run: {type(error).__name__}") from None
    try:
        body, _ = await asyncio.gather(_read(process, inquiry.max_reply_bytes), _tell(process, inquiry.body))
        return Reply(code=await process.wait(), body=body)
    finally:
        await _end(process)


async def _tell(process: Process, body: bytes) -> None:
    """Gives the program its question; one that does not read it to its end may still know the answer."""
    if process.stdin is None:
        return
    with contextlib.suppress(BrokenPipeError, ConnectionResetError):
        process.stdin.write(body)
        await process.stdin.drain()
    process.stdin.close()


async def _read(process: Process, most_bytes: int) -> bytes:
    body = bytearray()
    while process.stdout is not None and (piece := await process.stdout.read(65_536)):
        body += piece
        if len(body) > most_bytes:
            raise Unanswered(f"more than {most_bytes} bytes of output")
    return bytes(body)


async def _end(process: Process) -> None:
    """Kills the program and all that it started, which may go on where it has ended itself, and waits for its end.

    The group keeps its number as long as anybody is in it, so that nobody else can be meant.
    """
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    if process.returncode is None:
        await asyncio.shield(process.wait())
