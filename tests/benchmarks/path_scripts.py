"""What is said on the request path, byte for byte: by a client, and by the upstream that answers it."""

import random
from dataclasses import dataclass
from typing import Any

import msgspec
from servers import API_KEY


@dataclass(frozen=True, slots=True, kw_only=True)
class Script:
    """What a client sends, what the upstream answers, read by read, and how an answer ends on the client's side.

    ``prompts`` are different ones, sent in turn: what is asked again is not read again.
    """

    title: str
    requests: int
    prompt_bytes: int = 1024
    prompts: int = 1
    stream: bool = False
    chunks: int = 0
    chunks_a_read: int = 1

    def requests_sent(self) -> list[bytes]:
        """The requests as a client library writes them."""
        same = (_SENTENCE * (self.prompt_bytes // len(_SENTENCE) + 1))[: self.prompt_bytes]
        if self.prompts == 1:
            return [self._request(same)]
        chance, words = random.Random(1), same.split()  # noqa: S311  # a sample, not a secret
        drawn = [chance.choices(words, k=len(words)) for _ in range(self.prompts)]
        return [self._request(f"{number} {' '.join(one)}"[: self.prompt_bytes]) for number, one in enumerate(drawn)]

    def _request(self, prompt: str) -> bytes:
        fields: dict[str, Any] = {"model": "mock-model", "messages": [{"role": "user", "content": prompt}]}
        if self.stream:
            fields["stream"] = True
        body = msgspec.json.encode(fields)
        head = [
            "POST /v1/chat/completions HTTP/1.1",
            "host: 127.0.0.1:8080",
            f"authorization: Bearer {API_KEY}",
            "accept: application/json",
            "content-type: application/json",
            "user-agent: bench/1.0",
            f"content-length: {len(body)}",
        ]
        return "\r\n".join((*head, "", "")).encode() + body

    def reads(self) -> list[bytes]:
        """What the gateway reads of the upstream, cut as it arrives."""
        if not self.stream:
            body = msgspec.json.encode(_WHOLE)
            head = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n"
            return [head % len(body) + body]
        chunks = [_event({"content": " word"}) for _ in range(self.chunks)]
        events = [_event({"role": "assistant", "content": ""}), *chunks, _event({}, finish="stop"), _USAGE, _DONE]
        framed = [b"%x\r\n%b\r\n" % (len(event), event) for event in events] + [b"0\r\n\r\n"]
        head = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"
        step = self.chunks_a_read
        return [head + framed[0]] + [b"".join(framed[at : at + step]) for at in range(1, len(framed), step)]

    def ends(self, data: bytes) -> bool:
        """Whether this write is an answer's last."""
        return not self.stream or data.endswith(b"0\r\n\r\n")


_SENTENCE = "The quick brown fox asks the language model for a short and honest answer, please. "
_USAGE_COUNTS = {"prompt_tokens": 256, "completion_tokens": 16, "total_tokens": 272}
_ENVELOPE = {
    "id": "chatcmpl-0123456789",
    "object": "chat.completion.chunk",
    "created": 1700000000,
    "model": "mock-model",
}
_MESSAGE = {"role": "assistant", "content": "word " * 16}
_WHOLE = {
    **_ENVELOPE,
    "object": "chat.completion",
    "choices": [{"index": 0, "message": _MESSAGE, "logprobs": None, "finish_reason": "stop"}],
    "usage": _USAGE_COUNTS,
}


def _event(delta: dict[str, str], *, finish: str | None = None) -> bytes:
    choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish}
    return b"data: %b\n\n" % msgspec.json.encode({**_ENVELOPE, "choices": [choice]})


_DONE = b"data: [DONE]\n\n"
_USAGE = b"data: %b\n\n" % msgspec.json.encode({**_ENVELOPE, "choices": [], "usage": _USAGE_COUNTS})

SCRIPTS = {
    "a16": Script(title="whole, 1 KB prompt", requests=3000),
    "n16": Script(title="whole, 1 KB prompt, never the same", requests=3000, prompts=4096),
    "b16": Script(title="whole, 32 KB prompt", requests=1500, prompt_bytes=32768),
    "c16": Script(title="stream, 64 chunks, 22 a read", requests=500, stream=True, chunks=64, chunks_a_read=22),
    "e200": Script(title="stream, 32 chunks, 1 a read", requests=500, stream=True, chunks=32),
}
