import asyncio
import gzip
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from typing import Any

import msgspec
import pytest

from gateway.endpoints import OPERATIONS, Endpoints
from gateway.types import Operation, Status
from gateway.wire.passages import PASSED

OpenHouse = Callable[..., AbstractAsyncContextManager[Any]]
POLICY = "backends: {a: {use: fake, text: one two, models: [small]}}"
BODY = msgspec.json.encode({"model": "small", "messages": [{"role": "user", "content": "hi"}]})
STREAM = msgspec.json.encode({"model": "small", "stream": True, "messages": [{"role": "user", "content": "hi"}]})


@dataclass
class Server:
    """An ASGI server's side of one request: hands out messages, and keeps what the application sends."""

    messages: list[dict[str, Any]]
    headers: list[tuple[bytes, bytes]] = field(default_factory=list)
    path: str = "/v1/chat/completions"
    sent: list[dict[str, Any]] = field(default_factory=list)
    left: asyncio.Event = field(default_factory=asyncio.Event)

    async def receive(self) -> dict[str, Any]:
        """The next message, and when there are no more, nothing until the client leaves."""
        if self.messages:
            return self.messages.pop(0)
        await self.left.wait()
        return {"type": "http.disconnect"}

    async def send(self, message: Any) -> None:
        """Keeps the message."""
        self.sent.append(dict(message))

    async def serve(self, house: Any, *, max_body_bytes: int = 4096, body_timeout_s: float = 5.0) -> None:
        """Runs the application."""
        app = Endpoints(house.pipeline, max_body_bytes=max_body_bytes, body_timeout_s=body_timeout_s)
        await app({"type": "http", "path": self.path, "headers": self.headers}, self.receive, self.send)

    @property
    def status(self) -> int:
        """The status line."""
        return self.sent[0]["status"]

    @property
    def body(self) -> bytes:
        """All of the answer."""
        return b"".join(message["body"] for message in self.sent[1:])


def _pieces(*bodies: bytes) -> list[dict[str, Any]]:
    last = len(bodies) - 1
    return [{"type": "http.request", "body": body, "more_body": at < last} for at, body in enumerate(bodies)]


@pytest.mark.parametrize(("path", "operation"), OPERATIONS.items())
async def test_a_path_is_an_operation(open_house: OpenHouse, clock: Any, path: str, operation: Operation) -> None:
    """Every inference route runs through the same pipeline."""
    prompts = {
        Operation.CHAT: {"messages": [{"role": "user", "content": "hi"}]},
        Operation.COMPLETION: {"prompt": "hi"},
        Operation.EMBEDDING: {"input": "hi"},
        Operation.MESSAGES: {"messages": [{"role": "user", "content": "hi"}], "max_tokens": 9},
        Operation.COUNT_TOKENS: {"messages": [{"role": "user", "content": "hi"}]},
        Operation.RESPONSE: {"input": "hi"},
        Operation.OLLAMA_CHAT: {"messages": [{"role": "user", "content": "hi"}]},
        Operation.OLLAMA_GENERATE: {"prompt": "hi"},
        Operation.OLLAMA_EMBED: {"input": "hi"},
        Operation.OLLAMA_EMBEDDINGS: {"prompt": "hi"},
        **{key: {"input": "hi", "prompt": "hi", "query": "hi", "documents": ["a"]} for key in PASSED},
    }
    server = Server(_pieces(msgspec.json.encode({"model": "small", **prompts[operation]})), path=path)
    async with open_house(POLICY, clock=clock) as house:
        await server.serve(house)
        assert (200, operation) == (server.status, house.entry.arrival.operation)


async def test_a_whole_answer_says_how_long_it_is(open_house: OpenHouse, clock: Any) -> None:
    """Two messages: the start with a length, and the body."""
    server = Server(_pieces(BODY))
    async with open_house(POLICY, clock=clock) as house:
        await server.serve(house)
    assert ["http.response.start", "http.response.body"] == [message["type"] for message in server.sent]
    assert b"%d" % len(server.body) == dict(server.sent[0]["headers"])[b"content-length"]
    assert not server.sent[1]["more_body"]


async def test_a_stream_ends_with_an_empty_last_message(open_house: OpenHouse, clock: Any) -> None:
    """Every piece announces more, and the last one is the end."""
    server = Server(_pieces(STREAM))
    async with open_house(POLICY, clock=clock) as house:
        await server.serve(house)
    *pieces, last = server.sent[1:]
    assert all(piece["more_body"] and piece["body"] for piece in pieces)
    assert (b"", False) == (last["body"], last["more_body"])
    assert b"content-length" not in dict(server.sent[0]["headers"])
    assert server.body.endswith(b"data: [DONE]\n\n")


@pytest.mark.parametrize("cuts", [[BODY], [BODY[:5], BODY[5:]], [b"", BODY, b""], [bytes([byte]) for byte in BODY]])
async def test_a_body_may_come_in_any_pieces(open_house: OpenHouse, clock: Any, cuts: list[bytes]) -> None:
    """Empty ones included."""
    server = Server(_pieces(*cuts))
    async with open_house(POLICY, clock=clock) as house:
        await server.serve(house)
    assert 200 == server.status


async def test_a_compressed_body_is_read(open_house: OpenHouse, clock: Any) -> None:
    """Also where the server says the end in a message of its own."""
    server = Server(_pieces(gzip.compress(BODY), b""), [(b"content-encoding", b"gzip")])
    async with open_house(POLICY, clock=clock) as house:
        await server.serve(house)
    assert 200 == server.status


@pytest.mark.parametrize(
    ("headers", "bodies", "status"),
    [
        ([], [b"x" * 4097], 413),
        ([], [b"x" * 4000, b"x" * 97], 413),
        ([(b"content-length", b"4097")], [], 413),
        ([(b"content-encoding", b"gzip")], [gzip.compress(b"x" * 100_000)], 413),
        ([(b"content-encoding", b"br")], [], 415),
        ([(b"content-encoding", b"gzip"), (b"content-encoding", b"gzip")], [], 415),
        ([(b"content-encoding", b"gzip")], [BODY], 400),
        ([(b"content-encoding", b"gzip")], [gzip.compress(BODY)[:-1]], 400),
        ([], [b""], 400),
    ],
)
async def test_a_body_that_cannot_be_taken_is_refused(
    open_house: OpenHouse, clock: Any, headers: list[tuple[bytes, bytes]], bodies: list[bytes], status: int
) -> None:
    """Too long by its word, as it comes or when decoded; in a coding that we do not read; or not what it says."""
    server = Server(_pieces(*bodies), headers)
    async with open_house(POLICY, clock=clock) as house:
        await server.serve(house)
        assert (status, Status.REJECTED) == (server.status, house.entry.outcome.status)


async def test_a_body_that_does_not_come_is_a_timeout(open_house: OpenHouse, clock: Any) -> None:
    """A client that stops in the middle of its body does not hold a place for ever."""
    server = Server([{"type": "http.request", "body": b"{", "more_body": True}])
    async with open_house(POLICY, clock=clock) as house:
        await server.serve(house, body_timeout_s=0.01)
    assert 408 == server.status


async def test_a_client_that_leaves_with_its_body_half_sent_is_told_nothing(open_house: OpenHouse, clock: Any) -> None:
    """It is recorded as gone."""
    server = Server([{"type": "http.request", "body": b"{", "more_body": True}, {"type": "http.disconnect"}])
    async with open_house(POLICY, clock=clock) as house:
        await server.serve(house)
        assert (Status.CLIENT_GONE, []) == (house.entry.outcome.status, server.sent)


@pytest.mark.parametrize("body", [BODY, STREAM])
async def test_a_hang_up_ends_the_work(open_house: OpenHouse, clock: Any, body: bytes) -> None:
    """Noticed while the backend is silent, streamed or not; the call upstream is over and nothing was sent."""
    server = Server(_pieces(body))
    policy = "backends: {a: {use: fake, models: [small], fail: [{kind: hang}]}}"
    async with open_house(policy, clock=clock) as house:
        task = asyncio.create_task(server.serve(house))
        await house.until(lambda: house.backend("a").open_calls == 1)
        server.left.set()
        await task
        assert (Status.CLIENT_GONE, [], 1) == (
            house.entry.outcome.status,
            server.sent,
            house.backend("a").closed_calls,
        )
        assert house.is_quiet()


@pytest.mark.parametrize("body", [BODY, STREAM])
async def test_who_leaves_after_the_end_has_missed_nothing(open_house: OpenHouse, clock: Any, body: bytes) -> None:
    """The server says that the client has left as soon as the answer is out; that is no hang-up."""
    server = Server(_pieces(body))
    send = server.send

    async def send_and_leave(message: Any) -> None:
        await send(message)
        if message.get("more_body") is False:
            server.left.set()
            await asyncio.sleep(0)
            await asyncio.sleep(0)

    server.send = send_and_leave  # type: ignore[method-assign]  # a server that is quick to say so
    async with open_house(POLICY, clock=clock) as house:
        await server.serve(house)
        assert Status.OK is house.entry.outcome.status


async def test_nobody_listens_after_the_answer(open_house: OpenHouse, clock: Any) -> None:
    """The watch over the client ends with the request: no task is left behind."""
    server = Server(_pieces(BODY))
    async with open_house(POLICY, clock=clock) as house:
        before = asyncio.all_tasks()
        await server.serve(house)
        await asyncio.sleep(0)
        assert before == asyncio.all_tasks()
