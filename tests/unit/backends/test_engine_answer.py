import pytest

from backends._engine_answer import translated
from embedded_engine.frames import MAX_FRAME_BYTES, ProtocolError, frame
from embedded_engine.messages import Generate
from gateway.errors import UpstreamRefused


@pytest.mark.parametrize(
    ("request_", "status", "words"),
    [
        (Generate(text="x" * MAX_FRAME_BYTES), 413, "too large"),
        (Generate(text="x", top_k=2**64), 400, "integer"),
        (Generate(text="\ud800"), 400, "not Unicode"),
    ],
)
def test_what_cannot_be_sent_to_the_engine_blames_the_request(request_: Generate, status: int, words: str) -> None:
    """Too large is one thing, a value that has no bytes another."""
    with pytest.raises(ProtocolError) as caught:
        frame(request_)
    error = translated(caught.value)
    assert isinstance(error, UpstreamRefused)
    assert status == error.http_status
    assert words in error.message
