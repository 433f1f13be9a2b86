"""Embeddings between formats: one reader for each format that providers answer in, one writer for each client's.

Vectors are never streamed, so an answer is one delta with all of it.
"""

import base64
import struct
from collections.abc import Callable, Sequence
from operator import attrgetter
from typing import Any

import msgspec

from gateway.conversation import prompt_count
from gateway.errors import UpstreamInvalid
from gateway.price import Usage
from gateway.types import ChatRequest, Operation
from gateway.wire.deltas import AnswerEnd, Delta, UsageReport, VectorsAnswer
from gateway.wire.ollama_counts import Stopwatch, read_counts
from gateway.wire.ollama_embeddings import opened_vectors
from gateway.wire.openai_embeddings import embeddings_answer
from gateway.wire.openai_usage import read_usage
from gateway.wire.openai_whole import opened
from gateway.wire.translation import AnswerReader, AnswerWriter, WriterOf
from gateway.wire.upstream_json import text_at, text_of
from gateway.wire.whole_reader import WholeReader

_ENCODE = msgspec.json.Encoder().encode
_BASE64 = b'"base64"'
_NO_VECTOR = "the upstream sent a vector that is none"


class _Entry(msgspec.Struct):
    embedding: list[float]
    index: int = 0


class _OpenAIAnswer(msgspec.Struct):
    data: list[_Entry] | None = None
    usage: Any = None
    error: Any = None
    object: Any = None
    model: Any = None


_OPENAI_ANSWER = msgspec.json.Decoder(_OpenAIAnswer)


def openai_vectors_reader(streamed: bool) -> AnswerReader:  # noqa: FBT001  # the door's signature
    """Reads OpenAI's; see ``ReaderOf``."""
    return _reader(streamed, _read_openai)


def ollama_vectors_reader(streamed: bool) -> AnswerReader:  # noqa: FBT001  # the door's signature
    """Reads Ollama's; see ``ReaderOf``."""
    return _reader(streamed, _read_ollama)


def _reader(streamed: bool, read: Callable[[bytes], list[Delta]]) -> AnswerReader:  # noqa: FBT001  # private
    if streamed:
        raise UpstreamInvalid("the upstream streamed embeddings")
    return WholeReader(read)


def _read_openai(body: bytes) -> list[Delta]:
    answer = opened(body, _OPENAI_ANSWER)
    if not answer.data:
        raise UpstreamInvalid("the upstream sent an answer without vectors")
    entries = sorted(answer.data, key=attrgetter("index"))  # of a server that names none, in the order they came in
    return _deltas(text_of(answer.model), [entry.embedding for entry in entries], read_usage(answer.usage))


def _read_ollama(body: bytes) -> list[Delta]:
    fields = opened_vectors(body)
    vectors = fields.get("embeddings")
    if not isinstance(vectors, list) or not vectors:
        raise UpstreamInvalid("the upstream sent an answer without vectors")
    try:
        vectors = msgspec.convert(vectors, list[list[float]])
    except msgspec.ValidationError as error:
        raise UpstreamInvalid(_NO_VECTOR) from error
    return _deltas(text_at(fields, "model"), vectors, read_counts(fields.get("prompt_eval_count"), None))


def _deltas(model: str, vectors: list[Any], usage: Usage | None) -> list[Delta]:
    counted: list[Delta] = [] if usage is None else [UsageReport(usage=usage)]
    return [VectorsAnswer(model=model, vectors=vectors), *counted, AnswerEnd()]


class _Writer:
    """See ``AnswerWriter``: ``write_answer`` makes the body of the model, the vectors and the usage.

    With fewer vectors than texts, or more, nobody could tell which belongs to which.
    """

    def __init__(self, request: ChatRequest, write_answer: Callable[[str, list[Any], Usage | None], bytes]) -> None:
        self._model = request.model
        self._wanted = prompt_count(request.prompt)
        self._vectors: list[Any] = []
        self._usage: Usage | None = None
        self._write_answer = write_answer

    def write(self, deltas: Sequence[Delta]) -> bytes:
        """See ``AnswerWriter.write``."""
        out = b""
        for delta in deltas:
            match delta:
                case VectorsAnswer(vectors=vectors) if len(vectors) != self._wanted:
                    raise UpstreamInvalid(f"the upstream sent {len(vectors)} vectors for {self._wanted} texts")
                case VectorsAnswer(model=model, vectors=vectors):
                    self._model, self._vectors = model or self._model, vectors
                case UsageReport(usage=usage):
                    self._usage = usage
                case AnswerEnd():
                    out = self._write_answer(self._model, self._vectors, self._usage)
                case _:
                    raise UpstreamInvalid("the upstream sent words where vectors were asked for")
        return out


def openai_vectors_writer(request: ChatRequest, streamed: bool) -> AnswerWriter:  # noqa: ARG001, FBT001  # the door's signature
    """Writes OpenAI's, in the encoding that the client asked for; see ``WriterOf``."""
    packed = bytes(request.raw.get("encoding_format", b"")) == _BASE64

    def write_answer(model: str, vectors: list[Any], usage: Usage | None) -> bytes:
        return embeddings_answer(
            model, [_packed(it) for it in vectors] if packed else vectors, usage.prompt_tokens if usage else 0
        )

    return _Writer(request, write_answer)


def ollama_vectors_writer(now_s: Callable[[], float]) -> WriterOf:
    """What makes writers of Ollama's for an attempt that begins now, on a monotonic clock."""
    began_s = now_s()

    def writer_of(request: ChatRequest, streamed: bool) -> AnswerWriter:  # noqa: ARG001, FBT001  # the door's signature
        one = request.arrival.operation is Operation.OLLAMA_EMBEDDINGS
        watch = Stopwatch(request.arrival, now_s, began_s=began_s)

        def write_answer(model: str, vectors: list[Any], usage: Usage | None) -> bytes:
            counted = {"prompt_eval_count": usage.prompt_tokens} if usage is not None else {}
            if one:
                return _ENCODE({"embedding": vectors[0] if vectors else [], **counted})
            durations = watch.durations()
            told = {name: durations[name] for name in ("total_duration", "load_duration")}
            return _ENCODE({"model": model, "embeddings": vectors, **told, **counted})

        return _Writer(request, write_answer)

    return writer_of


def _packed(vector: Any) -> str:
    """The base64 of the vector's 32-bit little-endian floats.

    Raises:
        UpstreamInvalid: it is no vector.
    """
    try:
        return base64.b64encode(struct.pack(f"<{len(vector)}f", *vector)).decode()
    except (struct.error, TypeError, OverflowError) as error:
        raise UpstreamInvalid(_NO_VECTOR) from error
