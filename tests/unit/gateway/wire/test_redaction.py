"""What other people's words may not carry to a client."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.wire.redaction import redact


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("connect to http://gpu-7.prod:8000/v1/chat failed", "connect to http://[removed]/v1/chat failed"),
        ("see https://user:pw@api.example.com?key=1", "see https://[removed]?key=1"),
        ("redis://:pw@cache:6379/0 is down", "redis://[removed]/0 is down"),
        ("dial tcp 10.0.0.12:8000: refused", "dial tcp [removed]: refused"),
        ("dial tcp [fd00::12]:8000: refused", "dial tcp [removed]: refused"),
        ("http://[fd00::12]:8000/v1", "http://[removed]/v1"),
        ("http://[removed]evil.example/v1", "http://[removed]/v1"),
        ("(see http://gpu-7)]/v1", "(see http://[removed])]/v1"),
        ("host 192.168.1.1 unreachable", "host [removed] unreachable"),
        (
            "Max retries: HTTPConnectionPool(host='gpu-7', port=80)",
            "Max retries: HTTPConnectionPool(host='[removed]', port=80)",
        ),
        ("no route to vllm.models.svc.cluster.local today", "no route to [removed] today"),
        ("worker.example.com:9000 timed out", "[removed] timed out"),
        ("localhost:8000 timed out", "[removed] timed out"),
        ("needs 8401 tokens of 8192, ratio 1.5, at 10:30", "needs 8401 tokens of 8192, ratio 1.5, at 10:30"),
        ("model gpt-4.1 in v1.2.3 refused [1:2]", "model gpt-4.1 in v1.2.3 refused [1:2]"),
    ],
)
def test_places_are_removed_and_words_stay(text: str, expected: str) -> None:
    """Hosts of URLs, addresses with and without port, internal names."""
    assert expected == redact(text)


def test_secrets_are_removed_the_longer_first() -> None:
    """One that contains another leaves nothing behind; an empty one is none."""
    assert "key [removed] and [removed]." == redact("key sk-abc-def and sk-abc.", ["", "sk-abc", "sk-abc-def"])


PIECES = st.sampled_from(
    [
        "http://", "x", "[removed]", "[", "]", "]]", "/", ":", ":8080", ".", "10.0.0.1", "1", "2.3", "fd00::1", "::",
        "host=", "hostname = '", "gpu", ".local", ".svc", "a.example.com:9000", "localhost:80", " ", "@", "sk-1", "+",
    ]
)  # fmt: skip


@given(st.lists(PIECES, max_size=14).map("".join) | st.text(max_size=40), st.sets(st.sampled_from(["sk-1", "removed"])))
def test_redacting_twice_changes_nothing(text: str, secrets: set[str]) -> None:
    """Words pass through here in more than one place."""
    once = redact(text, secrets)
    assert once == redact(once, secrets)
