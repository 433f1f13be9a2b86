from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from gateway.errors import ConfigurationError
from gateway.judgement import Answer, Reply
from gateway.rules import plugins
from gateway.types import ChatRequest
from policies.judge.http import Http
from policies.judge.regression import Regression

Says = Callable[..., Answer]
Asks = Callable[..., ChatRequest]


def test_words_leave_only_because_the_file_says_so(says: Says, asks: Asks) -> None:
    """Without any of them a judge is told the id, the model and how it ended."""
    request, answer = asks(model="small", user="u1"), says("It will rain.", calls=(("time", "{}"),))
    told = {
        send: msgspec.json.decode(Http(url="https://j.example.com/v1", send=send).judge(request, answer).body)
        for send in ((), ("answer",), ("answer", "request"))
    }
    bare = {"request_id": "req-1", "model": "small", "answered_by": "small", "finish_reasons": ["stop"]}
    call = {"name": "time", "arguments": "{}"}
    choice = {"text": "It will rain.", "refusal": "", "finish_reason": "stop", "tool_calls": [call]}
    assert bare == told[()]
    assert {**bare, "choices": [choice]} == told[("answer",)]
    assert {**bare, "choices": [choice], "request": {"model": "small", "user": "u1"}} == told[("answer", "request")]


@pytest.mark.parametrize(
    ("code", "reply", "expected"),
    [
        (200, {"success": True}, (True, None, "")),
        (200, {"success": False, "score": 0.2, "reason": "off_topic"}, (False, 0.2, "off_topic")),
        (200, {"score": 0.5}, (True, 0.5, "")),
        (200, {"score": 0.49}, (False, 0.49, "")),
        (200, {"success": None, "score": 0.9}, (None, None, "it does not say")),
        (200, {"success": True, "score": 7, "reason": "The answer says that it rains"}, (True, None, "")),
        (200, [True], (None, None, "its reply is no JSON object")),
        (302, {"success": True}, (None, None, "it answers with status 302")),
        (500, {"success": True}, (None, None, "it answers with status 500")),
    ],
)
def test_what_a_service_replies_is_read_with_care(code: int, reply: Any, expected: Any) -> None:
    """Only a 200 says something, a reason only where it is one word."""
    said = Http(url="https://j.example.com/v1", send=()).conclude(Reply(code=code, body=msgspec.json.encode(reply)))
    assert expected == (said.success, said.score, said.reason)


@pytest.mark.parametrize(
    ("parameters", "complaint"),
    [
        ({"url": "https://j.example.com"}, "send: must be given"),
        ({"url": "http://j.example.com", "send": []}, "must begin with https://"),
        ({"url": "ftp://j.example.com", "send": []}, "`url` must be an address"),
        ({"url": "https://me:secret@j.example.com", "send": []}, "without a user"),
        ({"url": "https://j.example.com", "send": ["prompt"]}, "send"),
        ({"url": "https://j.example.com", "send": [], "timeout_s": 0}, "`timeout_s` must be more than zero"),
    ],
)
def test_an_address_is_checked_when_the_policy_file_is(parameters: Any, complaint: str) -> None:
    """Nobody reads along without being allowed to, and nothing is sent that nobody asked for."""
    with pytest.raises(ConfigurationError) as caught:
        plugins.build("judge", {"use": "http", **parameters}, where="judge")
    assert complaint in str(caught.value)


@pytest.mark.parametrize(
    "parameters", [{"url": "http://127.0.0.1:9/v1"}, {"url": "http://judge:80/v1", "plain_http": True}]
)
def test_plain_http_is_for_this_machine_or_by_permission(parameters: Any) -> None:
    """A sidecar needs no certificate."""
    assert plugins.build("judge", {"use": "http", "send": [], **parameters}, where="judge").url == parameters["url"]


@pytest.mark.parametrize(
    ("code", "printed", "expected"),
    [
        (0, b"", (True, 1.0, "")),
        (1, b"all is lost", (False, 0.0, "it ends with 1")),
        (0, b'{"score": 0.8}', (True, 0.8, "")),
        (1, b'{"score": 0.3, "reason": "too_long"}', (False, 0.3, "too_long")),
        (2, b'{"score": 0.8}', (None, None, "it ends with 2")),
        (-9, b"", (None, None, "it ends with -9")),
    ],
)
def test_the_exit_code_of_a_program_is_its_verdict(code: int, printed: bytes, expected: Any) -> None:
    """What it prints may add a score and a word."""
    said = Regression(command=("/bin/check",)).conclude(Reply(code=code, body=printed))
    assert expected == (said.success, said.score, said.reason)
