import json
from collections.abc import Callable
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from gateway.errors import InvalidRequest, UpstreamFailed, UpstreamInvalid
from gateway.price import Usage
from gateway.types import Arrival, ChatRequest, Operation
from gateway.wire.format import BodyLimits
from gateway.wire.formats import FORMATS
from gateway.wire.openai_embeddings import MAX_INPUTS, embeddings_answer

EMBEDDINGS = FORMATS[Operation.EMBEDDING]


@pytest.fixture
def read(arrival: Arrival) -> Callable[..., ChatRequest]:
    """Reads a body out of its fields."""

    def call(**fields: Any) -> ChatRequest:
        body = msgspec.json.encode({"model": "m", "input": "hi", **fields})
        return EMBEDDINGS.read(replace(arrival, operation=Operation.EMBEDDING), body)

    return call


@pytest.mark.parametrize(
    ("given", "prompt", "prompt_bytes", "needs"),
    [
        ("é", "é", 2, set()),
        (["a", "bc"], ("a", "bc"), 3, set()),
        ([1, 2, 3], (1, 2, 3), 12, {"token_prompt"}),
        ([[1, 2], [3]], ((1, 2), (3,)), 12, {"token_prompt"}),
    ],
)
def test_every_shape_of_input(read: Any, given: Any, prompt: Any, prompt_bytes: int, needs: set[str]) -> None:
    """A text, texts, the tokens of one or of several; nothing is written and nothing streamed."""
    request = read(input=given, user="u")
    assert (prompt, prompt_bytes, needs) == (request.prompt, request.prompt_bytes, request.needs)
    assert (0, False, 1, "u") == (request.max_tokens, request.stream, request.n, request.unverified_user)


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"input": ""}, "input"),
        ({"input": ["a", ""]}, "input"),
        ({"input": []}, "input"),
        ({"input": [[]]}, "input"),
        ({"input": ["a", 1]}, "input"),
        ({"input": None}, "input"),
        ({"input": ["a"] * (MAX_INPUTS + 1)}, "input"),
        ({"encoding_format": "int8"}, "encoding_format"),
        ({"dimensions": 0}, "dimensions"),
        ({"dimensions": "many"}, "dimensions"),
        ({"stream": True}, "stream"),
        ({"model": ""}, "model"),
        ({"api_key": "x"}, "api_key"),
    ],
)
def test_what_is_wrong_is_named(read: Any, fields: dict[str, Any], param: str) -> None:
    """By its field."""
    with pytest.raises(InvalidRequest) as caught:
        read(**fields)
    assert param == caught.value.param


def test_the_operators_bound_counts_where_it_is_lower(arrival: Arrival) -> None:
    """What bounds the messages of a chat bounds the inputs, too."""
    body = msgspec.json.encode({"model": "m", "input": ["a"] * 5})
    with pytest.raises(InvalidRequest, match="at most 4 inputs"):
        EMBEDDINGS.read(arrival, body, BodyLimits(max_messages=4))


def test_an_answer_is_measured(read: Any) -> None:
    """Its tokens are those of the prompt; a vector may be numbers or base64."""
    body = embeddings_answer("m", [[0.5], "AAAAPw=="], 7)
    view = EMBEDDINGS.whole(read())
    assert body == view.take(body)
    assert (Usage(prompt_tokens=7), "m", 0) == (view.usage, view.model, view.output_bytes)
    assert [0, 1] == [item["index"] for item in json.loads(body)["data"]]


@pytest.mark.parametrize(
    ("body", "error"),
    [
        (b" ", UpstreamInvalid),
        (b"[]", UpstreamInvalid),
        (b'{"data":[]}', UpstreamInvalid),
        (b'{"choices":[]}', UpstreamInvalid),
        (b'{"error":{"message":"at 10.0.0.1"}}', UpstreamFailed),
    ],
)
def test_an_answer_that_is_none(read: Any, body: bytes, error: type[Exception]) -> None:
    """An error in the clothes of a success is one, and tells no addresses."""
    with pytest.raises(error) as caught:
        EMBEDDINGS.whole(read()).take(body)
    assert "10.0.0.1" not in str(caught.value)


def test_a_stream_of_vectors_is_no_answer(read: Any) -> None:
    """Nobody asked for one."""
    with pytest.raises(UpstreamInvalid):
        EMBEDDINGS.stream(read())
