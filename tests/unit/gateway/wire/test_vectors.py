"""Embeddings between OpenAI's format and Ollama's."""

import base64
import json
import struct
from typing import Any

import pytest

from gateway.errors import UpstreamError, UpstreamFailed, UpstreamInvalid
from gateway.types import Operation
from gateway.wire.deltas import AnswerEnd, TextDelta, VectorsAnswer
from gateway.wire.formats import FORMATS
from gateway.wire.openai_embeddings import embeddings_answer
from gateway.wire.vectors import ollama_vectors_reader, ollama_vectors_writer, openai_vectors_reader
from gateway.wire.writers import WRITERS
from tests.unit.gateway.wire.ollama_calls import STREAMED, WHOLE, request_of

VECTORS = [[0.5, -0.25], [1.0, 0.0]]
OPENAI = embeddings_answer("m", VECTORS, 3)
OLLAMA = b'{"model":"m","embeddings":[[0.5,-0.25],[1.0,0.0]],"prompt_eval_count":3}'


def written(operation: Operation, body: bytes, reader_of: Any, **fields: Any) -> Any:
    """What the client gets for what the provider says; its own view takes it."""
    request = request_of(operation, **fields)
    reader, writer = reader_of(WHOLE), WRITERS[operation](request, WHOLE)
    sent = writer.write([*reader.feed(body), *reader.end()])
    view = FORMATS[operation].whole(request)
    assert sent == view.take(sent)
    assert view.usage is not None
    assert 3 == view.usage.prompt_tokens
    return json.loads(sent)


@pytest.mark.parametrize(("body", "reader_of"), [(OPENAI, openai_vectors_reader), (OLLAMA, ollama_vectors_reader)])
def test_vectors_are_the_same_in_every_format(body: bytes, reader_of: Any) -> None:
    """For each of the clients, whoever answers."""
    embed = written(Operation.OLLAMA_EMBED, body, reader_of, input=["a", "b"])
    assert ("m", VECTORS) == (embed["model"], embed["embeddings"])
    assert {"total_duration", "load_duration"} < embed.keys()
    told = written(Operation.EMBEDDING, body, reader_of, input=["a", "b"])["data"]
    assert VECTORS == [entry["embedding"] for entry in told]
    (packed, _) = written(Operation.EMBEDDING, body, reader_of, input=["a", "b"], encoding_format="base64")["data"]
    assert base64.b64encode(struct.pack("<2f", *VECTORS[0])).decode() == packed["embedding"]


@pytest.mark.parametrize(
    ("body", "reader_of"),
    [
        (embeddings_answer("m", VECTORS[:1], 3), openai_vectors_reader),
        (b'{"embeddings":[[0.5,-0.25]],"prompt_eval_count":3}', ollama_vectors_reader),
    ],
)
def test_one_text_has_one_vector(body: bytes, reader_of: Any) -> None:
    """As the older endpoint has it; for two texts one vector is not enough, for nobody could tell whose it is."""
    assert VECTORS[0] == written(Operation.OLLAMA_EMBEDDINGS, body, reader_of)["embedding"]
    for operation in (Operation.EMBEDDING, Operation.OLLAMA_EMBED):
        with pytest.raises(UpstreamInvalid, match="1 vectors for 2 texts"):
            written(operation, body, reader_of, input=["a", "b"])


def test_vectors_come_in_the_order_of_the_texts() -> None:
    """OpenAI's are numbered, and Ollama's clients know no numbers."""
    data = [{"index": at, "embedding": VECTORS[at]} for at in (1, 0)]
    body = json.dumps({"data": data, "usage": {"prompt_tokens": 3, "total_tokens": 3}}).encode()
    embed = written(Operation.OLLAMA_EMBED, body, openai_vectors_reader, input=["a", "b"])
    assert VECTORS == embed["embeddings"]


@pytest.mark.parametrize("reader_of", [openai_vectors_reader, ollama_vectors_reader])
@pytest.mark.parametrize(
    ("body", "error"),
    [
        (b"", UpstreamInvalid),
        (b"{}", UpstreamInvalid),
        (b'{"data":[],"embeddings":[]}', UpstreamInvalid),
        (b'{"data":[{"embedding":"x"}],"embeddings":{}}', UpstreamInvalid),
        (b'{"data":[{"embedding":["x"]}],"embeddings":[["x"]]}', UpstreamInvalid),
        (b'{"data":[{"embedding":null}],"embeddings":[null]}', UpstreamInvalid),
        (b'{"error":"no"}', UpstreamFailed),
    ],
)
def test_an_answer_without_vectors_is_none(reader_of: Any, body: bytes, error: type[UpstreamError]) -> None:
    """Whatever it says in place of them."""
    reader = reader_of(WHOLE)
    reader.feed(body)
    with pytest.raises(error):
        reader.end()


@pytest.mark.parametrize("reader_of", [openai_vectors_reader, ollama_vectors_reader])
def test_vectors_are_never_streamed(reader_of: Any) -> None:
    """Nobody asked for that."""
    with pytest.raises(UpstreamInvalid):
        reader_of(STREAMED)


def test_words_are_no_vectors() -> None:
    """Nor is a vector of words one."""
    request = request_of(Operation.OLLAMA_EMBED)
    with pytest.raises(UpstreamInvalid):
        ollama_vectors_writer(lambda: 10.0)(request, WHOLE).write([TextDelta(text="x")])
    packed = WRITERS[Operation.EMBEDDING](request_of(Operation.EMBEDDING, encoding_format="base64"), WHOLE)
    with pytest.raises(UpstreamInvalid):
        packed.write([VectorsAnswer(vectors=[["x"]]), AnswerEnd()])
