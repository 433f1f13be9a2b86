"""What is refused at Anthropic's endpoints, by the body or by us: always in Anthropic's shape."""

from typing import Any

import pytest

from tests.anthropic_answers import checked_error

MESSAGES = "/v1/messages"
ASK = {"model": "m", "max_tokens": 9, "messages": [{"role": "user", "content": "q"}]}
BAD = [
    b"",
    b"[]",
    b"null",
    b"{",
    b'{"model":"m"}',
    b'{"model":"m","max_tokens":9,"messages":{}}',
    b'{"model":"m","max_tokens":9,"messages":[],"messages":[]}',
    b'{"model":"\\ud800","max_tokens":9,"messages":[{"role":"user","content":"x"}]}',
    b'{"model":"m","max_tokens":9,"temperature":NaN,"messages":[{"role":"user","content":"x"}]}',
    b'{"model":"m","max_tokens":1e999,"messages":[{"role":"user","content":"x"}]}',
    b'{"model":"m","max_tokens":9,"messages":[{"role":"user","content":"\xff"}]}',
    b'{"model":"m","max_tokens":9,"messages":' + b"[" * 100_000,
]


@pytest.mark.parametrize("body", BAD, ids=range(len(BAD)))
@pytest.mark.parametrize("path", [MESSAGES, f"{MESSAGES}/count_tokens"])
async def test_a_body_that_is_none_is_a_400_in_anthropics_shape(running: Any, path: str, body: bytes) -> None:
    """Whatever is wrong with it; nobody is asked, and the next request is served."""
    response = await running.post(body, path=path)
    assert (400, "invalid_request_error") == (response.status_code, checked_error(response.content)["type"])
    assert 200 == (await running.post({**ASK, "model": "fake"}, path=MESSAGES)).status_code


async def test_our_own_refusals_have_anthropics_shape(start_gateway: Any) -> None:
    """Too large, over a limit, nobody to ask, no such model: each with the type that its clients know."""
    backends = {
        "gone": {"use": "fake", "models": ["gone"], "fail": [{"kind": "refuse"}], "repeat": True},
        "made-up": {"use": "fake"},
    }
    routes = {
        "gone": {"models": ["gone"], "targets": ["gone"]},
        "limited": {"models": ["limited", "fake"], "targets": ["made-up/fake"]},
    }
    limits = {"models": {"limited": [{"requests": 1, "per": "hour"}]}}
    front = await start_gateway({"backends": backends, "routes": routes, "limits": limits}, max_body_bytes=2000)
    await front.post({**ASK, "model": "limited"}, path=MESSAGES)
    for body, status, kind in (
        ({**ASK, "system": "x" * 3000}, 413, "invalid_request_error"),
        ({**ASK, "model": "limited"}, 503, "overloaded_error"),
        ({**ASK, "model": "gone"}, 502, "api_error"),
        ({**ASK, "model": "none"}, 404, "not_found_error"),
    ):
        response = await front.post(body, path=MESSAGES)
        assert (status, kind) == (response.status_code, checked_error(response.content)["type"]), response.text
        assert response.headers["request-id"].startswith("req_")
