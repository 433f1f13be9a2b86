"""Request bodies as they come in the wild: what is fine reaches the upstream as it is, what is not is a clear 4xx."""

import itertools
import json
from typing import Any

import msgspec
import pytest

ENDPOINTS = ["/v1/chat/completions", "/v1/completions"]
CHAT_FIELDS = b'"model":"m","messages":[{"role":"user","content":"hi"}]'
COMPLETION_FIELDS = b'"model":"m","prompt":"hi"'
FIELDS = dict(zip(ENDPOINTS, (CHAT_FIELDS, COMPLETION_FIELDS), strict=True))
ANSWER = msgspec.json.encode(
    {"id": "a", "choices": [{"index": 0, "message": {"role": "assistant", "content": "ok"}, "finish_reason": "stop"}]}
)
MARKER = "marker-7f3a"


@pytest.fixture
async def recorded(gateway_over: Any) -> Any:
    """A gateway over an upstream that says ok, and what that upstream received."""

    async def respond(_: Any, conversation: Any) -> None:
        await conversation.answer(ANSWER)

    return await gateway_over(respond)


def _check_envelope(response: Any, *, status: int = 400, param: str | None = None) -> dict[str, Any]:
    assert status == response.status_code, response.text
    error = response.json()["error"]
    assert {"message", "type", "param", "code"} == error.keys()
    if param is not None:
        assert param == error["param"]
    return error


CALL = {"id": "c1", "type": "function", "function": {"name": "f", "arguments": "{}"}}
CONTENTS = {"null": {"content": None}, "empty": {"content": ""}, "absent": {}, "no parts": {"content": []}}


@pytest.mark.parametrize("content", CONTENTS)
@pytest.mark.parametrize("calls", [{}, {"tool_calls": [CALL]}], ids=["no calls", "with calls"])
async def test_an_assistant_turn_without_text_is_passed_on(recorded: Any, content: str, calls: dict[str, Any]) -> None:
    """A replayed turn without text is accepted, and no message and no call of it is lost or filled up."""
    front, upstream = recorded
    messages = [
        {"role": "user", "content": "hi"},
        {"role": "assistant", **CONTENTS[content], **calls},
        *([{"role": "tool", "tool_call_id": "c1", "content": "42"}] if calls else []),
        {"role": "user", "content": "and?"},
    ]
    assert 200 == (await front.post({"messages": messages})).status_code
    assert messages == upstream.requests[0].json["messages"]


NUMBER_FIELDS = ["temperature", "top_p", "min_p", "presence_penalty", "frequency_penalty", "max_tokens", "seed", "n"]
NO_NUMBERS = ["NaN", "Infinity", "-Infinity", "1e999", '"nan"', '"inf"']


@pytest.mark.parametrize("path", ENDPOINTS)
@pytest.mark.parametrize("field", NUMBER_FIELDS)
async def test_what_is_no_number_is_refused_by_name(recorded: Any, path: str, field: str) -> None:
    """Not-a-number and infinity, however they are spelt, are a 400 that names the field and reach nobody."""
    front, upstream = recorded
    for value in NO_NUMBERS:
        response = await front.post(
            b"{%b,%b:%b}" % (FIELDS[path], json.dumps(field).encode(), value.encode()), path=path
        )
        _check_envelope(response, param=field)
    assert [] == upstream.requests


@pytest.mark.parametrize("value", NO_NUMBERS)
async def test_what_is_no_number_inside_a_field_is_refused(recorded: Any, value: str) -> None:
    """The same inside ``logit_bias``."""
    front, upstream = recorded
    response = await front.post(b'{%b,"logit_bias":{"5":%b}}' % (CHAT_FIELDS, value.encode()))
    assert "logit_bias" in _check_envelope(response)["param"]
    assert [] == upstream.requests


ZEROS = {"temperature": 0, "top_p": 0, "seed": 0, "presence_penalty": 0, "frequency_penalty": 0.0, "stop": []}


@pytest.mark.parametrize("path", ENDPOINTS)
async def test_zero_is_a_value(gateway_over: Any, path: str) -> None:
    """Zeros and empty lists arrive as they were sent, also after a fallback; what was absent stays absent."""
    statuses = iter((503, 200))

    async def respond(_: Any, conversation: Any) -> None:
        await conversation.answer(ANSWER.replace(b'"message"', b'"text":"","message"'), status=next(statuses))

    policy = {"routes": {"all": {"models": ["*"], "targets": ["up", "up/other"]}}}
    front, upstream = await gateway_over(respond, policy=policy)
    fields = {**ZEROS, "tool_choice": "none"} if path == ENDPOINTS[0] else ZEROS
    assert 200 == (await front.post(fields, path=path)).status_code
    first, second = (request.json for request in upstream.requests)
    for body in (first, second):
        assert fields == {name: value for name, value in body.items() if name in fields}
        assert "n" not in body
        assert "stream_options" not in body
    assert {"fake", "other"} == {first["model"], second["model"]}


LONE = [rb"\ud800", rb"\udc00", rb"x\uDBFFy", rb"\udc00\ud800"]
PLACES = {
    "content": b'{"model":"m","messages":[{"role":"user","content":"%b"}]}',
    "tool result": b'{"model":"m","messages":[{"role":"tool","tool_call_id":"c","content":"%b"}]}',
    "tool name": b'{"model":"m","messages":[{"role":"user","content":"x"}],"tools":[{"type":"function","function":'
    b'{"name":"%b"}}]}',
    "user": b'{"user":"%b",' + CHAT_FIELDS + b"}",
    "model": b'{"model":"%b","messages":[{"role":"user","content":"x"}]}',
    "wrong type": b'{"temperature":"%b",' + CHAT_FIELDS + b"}",
    "field name": b'{"%b":1,' + CHAT_FIELDS + b"}",
}


@pytest.mark.parametrize("place", PLACES)
async def test_half_a_surrogate_pair_is_refused_everywhere(recorded: Any, place: str) -> None:
    """An escape that no UTF-8 can hold is a 400 wherever it stands, and the answer to it is valid JSON."""
    front, upstream = recorded
    for half in LONE:
        _check_envelope(await front.post(PLACES[place] % half))
    assert [] == upstream.requests
    assert 200 == (await front.post(PLACES["content"] % rb"\ud83d\ude00 \\ud800")).status_code


@pytest.mark.parametrize("path", ENDPOINTS)
@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-32", "latin-1"])
async def test_other_encodings_are_refused(recorded: Any, path: str, encoding: str) -> None:
    """A body that is not UTF-8 is a 400."""
    front, _ = recorded
    body = (b"{%b}" % FIELDS[path].replace(b"hi", "é".encode())).decode().encode(encoding)
    _check_envelope(await front.post(body, path=path))


async def test_a_header_that_is_no_text_is_harmless(recorded: Any) -> None:
    """Bytes in headers that are no text of any kind neither fail the request nor reach the upstream."""
    front, upstream = recorded
    client = await front.raw()
    await client.post(b"{%b}" % CHAT_FIELDS, headers="x-user: \xff\xfe\r\ntracestate: \xff\r\nx-request-id: \xe4\r\n")
    assert 200 == (await client.answer()).status
    assert not {"x-user", "tracestate", "x-request-id"} & {name for name, _ in upstream.requests[0].headers}


WRONG_BODIES = {
    "list": b"[]",
    "null": b"null",
    "number": b"1",
    "string": b'"x"',
    "truncated": b'{"model":"m","mess',
    "deep": b'{"model":"m","messages":' + b"[" * 100_000 + b"]" * 100_000 + b"}",
    "deep and cut": b"[" * 100_000,
    "deep objects": b'{"a":' * 50_000 + b"1" + b"}" * 50_000,
    "long integer": b'{"max_tokens":' + b"9" * 5000 + b"," + CHAT_FIELDS + b"}",
    "field twice": b'{"temperature":0,"temperature":1,' + CHAT_FIELDS + b"}",
    "trailing garbage": b"{" + CHAT_FIELDS + b"} x",
    "single quotes": b"{'model':'m'}",
    "no model": b'{"messages":[{"role":"user","content":"hi"}]}',
    "no messages": b'{"model":"m"}',
    "messages as object": b'{"model":"m","messages":{"role":"user"}}',
    "message as text": b'{"model":"m","messages":["marker-7f3a"]}',
    "tools as text": b'{"tools":"marker-7f3a",' + CHAT_FIELDS + b"}",
    "n as true": b'{"n":true,' + CHAT_FIELDS + b"}",
    "n of zero": b'{"n":0,' + CHAT_FIELDS + b"}",
    "stream as text": b'{"stream":"marker-7f3a",' + CHAT_FIELDS + b"}",
    "model as number": b'{"model":7,"messages":[{"role":"user","content":"marker-7f3a"}]}',
    "role as list": b'{"model":"m","messages":[{"role":["marker-7f3a"],"content":"marker-7f3a"}]}',
    "content as number": b'{"model":"m","messages":[{"role":"user","content":42}]}',
}


@pytest.mark.parametrize("name", WRONG_BODIES)
async def test_wrong_bodies_are_400s_that_quote_nothing(recorded: Any, name: str) -> None:
    """What is no request is a 400 in the envelope, whose words hold nothing of what was sent."""
    front, upstream = recorded
    error = _check_envelope(await front.post(WRONG_BODIES[name]))
    assert "invalid_request_error" == error["type"]
    assert MARKER not in str(error)
    assert [] == upstream.requests
    assert "rejected" == (await front.row())["status"]


async def test_an_unknown_model_is_a_404_that_quotes_nothing(gateway_over: Any) -> None:
    """A model that no route answers is a 404 for the field ``model``."""
    front, _ = await gateway_over(None, policy={"routes": {"one": {"models": ["known"], "targets": ["up"]}}})
    error = _check_envelope(await front.post({"model": MARKER}), status=404, param="model")
    assert "model_not_found" == error["code"]
    assert MARKER not in str(error)


SHARED = {
    "frequency_penalty": 0.1,
    "logit_bias": {"5": -1},
    "max_tokens": 7,
    "n": 2,
    "presence_penalty": -0.1,
    "seed": 9,
    "stop": ["a", "b"],
    "temperature": 0.3,
    "top_p": 0.4,
    "user": "u",
    "unknown_field_of_next_year": {"a": [1, None, "é"]},
}
PARAMETERS = {
    ENDPOINTS[0]: {
        **SHARED,
        "audio": {"voice": "alloy", "format": "wav"},
        "logprobs": True,
        "top_logprobs": 3,
        "max_completion_tokens": 8,
        "metadata": {"k": "v"},
        "modalities": ["text", "audio"],
        "parallel_tool_calls": False,
        "prediction": {"type": "content", "content": "p"},
        "prompt_cache_key": "key",
        "reasoning_effort": "low",
        "response_format": {"type": "json_schema", "json_schema": {"name": "s", "strict": True, "schema": {}}},
        "safety_identifier": "s",
        "service_tier": "auto",
        "store": False,
        "tool_choice": "required",
        "tools": [{"type": "function", "function": {"name": "f", "strict": True, "parameters": {}}}],
        "verbosity": "low",
        "web_search_options": {},
    },
    ENDPOINTS[1]: {**SHARED, "best_of": 2, "echo": True, "logprobs": 2, "suffix": "end"},
}


@pytest.mark.parametrize(("path", "name"), [*itertools.chain(*([(p, n) for n in PARAMETERS[p]] for p in ENDPOINTS))])
async def test_every_documented_parameter_arrives(recorded: Any, path: str, name: str) -> None:
    """Each documented parameter, and one of next year, arrives at an OpenAI-shaped upstream as it was sent."""
    front, upstream = recorded
    await front.post({name: PARAMETERS[path][name]}, path=path)
    (request,) = upstream.requests
    assert path.removeprefix("/v1") == request.path.removeprefix("/v1")
    assert PARAMETERS[path][name] == request.json[name]
    assert {"model", "messages" if path == ENDPOINTS[0] else "prompt", name} == request.json.keys()
