"""A backend with several keys: one that is refused rests, and the request goes on with the next."""

from collections import Counter
from collections.abc import Callable
from typing import Any

import msgspec
import pytest
import yaml

KEYS = {"KEY_A": "sk-canary-aaaa-0001", "KEY_B": "sk-canary-bbbb-0002"}
WHOLE = msgspec.json.encode({"choices": [{"index": 0, "message": {"content": "ok"}, "finish_reason": "stop"}]})


@pytest.fixture(autouse=True)
def _keys(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, key in KEYS.items():
        monkeypatch.setenv(name, key)


def _used(received: Any) -> str:
    """The variable whose key a request came with."""
    key = dict(received.headers)["authorization"].removeprefix("Bearer ")
    return next(name for name, known in KEYS.items() if known == key)


def _refusing(*names: str, status: int, wait_s: int = 0) -> Callable[..., Any]:
    """An upstream that refuses these keys, quoting them, and serves the others."""

    async def respond(received: Any, conversation: Any) -> None:
        if _used(received) in names:
            said = msgspec.json.encode({"error": {"message": f"no more for {KEYS[_used(received)]}"}})
            headers = {"retry-after": str(wait_s)} if wait_s else {}
            await conversation.answer(said, status=status, headers=headers)
        else:
            await conversation.answer(WHOLE)

    return respond


@pytest.mark.parametrize("status", [401, 402, 403, 429])
async def test_the_next_key_serves_the_request(
    gateway_over: Any, caplog: pytest.LogCaptureFixture, status: int
) -> None:
    """The client notices nothing, both tries are on the ledger, and neither key nor backend is blamed for ever."""
    front, upstream = await gateway_over(_refusing("KEY_A", status=status), api_key_env=list(KEYS))
    responses = [await front.post() for _ in range(4)]
    assert [200, 200, 200, 200] == [response.status_code for response in responses]
    assert ["KEY_A", "KEY_B", "KEY_B", "KEY_B", "KEY_B"] == [_used(request) for request in upstream.requests]
    assert ["2", "1", "1", "1"] == [response.headers["x-headrace-attempts"] for response in responses]
    rows = await front.rows()
    assert [2, 1, 1, 1] == [len(row["attempts_made"]) for row in rows]
    assert "KEY_A" in caplog.text
    said = caplog.text + repr(rows) + repr([(response.text, response.headers.raw) for response in responses])
    assert [] == [key for key in KEYS.values() if key in said]


async def test_a_rotation_is_one_of_the_requests_attempts(gateway_over: Any) -> None:
    """Where the route allows one, the first refusal is the client's answer, and the next request has the other key."""
    policy = {"routes": {"all": {"models": ["*"], "targets": ["up"], "attempts": 1}}}
    front, upstream = await gateway_over(_refusing("KEY_A", status=429), api_key_env=list(KEYS), policy=policy)
    assert [429, 200] == [(await front.post()).status_code for _ in range(2)]
    assert ["KEY_A", "KEY_B"] == [_used(request) for request in upstream.requests]


async def test_the_backend_is_down_only_when_all_keys_rest(gateway_over: Any) -> None:
    """Then clients are told to wait until the first key is back, and the upstream is left alone."""
    front, upstream = await gateway_over(_refusing(*KEYS, status=429, wait_s=30), api_key_env=list(KEYS))
    first, second = await front.post(), await front.post()
    assert (429, "30") == (first.status_code, first.headers["retry-after"])
    assert (503, "no_candidate", 2) == (second.status_code, second.json()["error"]["code"], len(upstream.requests))
    assert 28 <= int(second.headers["retry-after"]) <= 30


async def test_healthy_keys_share_the_load(gateway_over: Any) -> None:
    """One after the other, request by request."""
    front, upstream = await gateway_over(_refusing(status=500), api_key_env=list(KEYS))
    for _ in range(6):
        assert 200 == (await front.post()).status_code
    assert {"KEY_A": 3, "KEY_B": 3} == Counter(map(_used, upstream.requests))


async def test_a_reload_changes_the_keys(gateway_over: Any) -> None:
    """A key that is added serves at once, and one that is taken out is used no more."""
    front, upstream = await gateway_over(_refusing("KEY_A", status=401), api_key_env="KEY_A")
    assert [502, 503] == [(await front.post()).status_code for _ in range(2)]
    policy = yaml.safe_load(front.policy_file.read_text(encoding="utf-8"))
    for names, used in ((["KEY_A", "KEY_B"], {"KEY_A", "KEY_B"}), ("KEY_B", {"KEY_B"})):
        upstream.requests.clear()
        policy["backends"]["up"]["api_key_env"] = names
        front.policy_file.write_text(yaml.safe_dump(policy), encoding="utf-8")
        await front.gateway.reload()
        assert [200, 200] == [(await front.post()).status_code for _ in range(2)]
        assert used == set(map(_used, upstream.requests))
