"""What no endpoint of inference takes, of any format: a clear 4xx in the client's own envelope, and it lives on."""

import json
from collections.abc import Mapping
from typing import Any

import pytest

from gateway.endpoints import OPERATIONS

SAID = [{"role": "user", "content": "hi"}]
MARKER = "marker-7f3a"
SMALLEST: Mapping[str, dict[str, Any]] = {
    "/v1/chat/completions": {"model": "m", "messages": SAID},
    "/v1/completions": {"model": "m", "prompt": "hi"},
    "/v1/embeddings": {"model": "m", "input": "hi"},
    "/v1/messages": {"model": "m", "max_tokens": 9, "messages": SAID},
    "/v1/messages/count_tokens": {"model": "m", "messages": SAID},
    "/v1/responses": {"model": "m", "input": "hi"},
    "/v1/moderations": {"model": "m", "input": "hi"},
    "/v1/audio/transcriptions": {"model": "m"},
    "/v1/audio/translations": {"model": "m"},
    "/v1/audio/speech": {"model": "m", "input": "hi", "voice": "v"},
    "/v1/images/generations": {"model": "m", "prompt": "hi"},
    "/v1/images/edits": {"model": "m", "prompt": "hi"},
    "/v1/images/variations": {"model": "m"},
    "/v1/rerank": {"model": "m", "query": "hi", "documents": ["a"]},
    "/v2/rerank": {"model": "m", "query": "hi", "documents": ["a"]},
    "/rerank": {"model": "m", "query": "hi", "documents": ["a"]},
    "/api/chat": {"model": "m", "messages": SAID},
    "/api/generate": {"model": "m", "prompt": "hi"},
    "/api/embed": {"model": "m", "input": "hi"},
    "/api/embeddings": {"model": "m", "prompt": "hi"},
}
every_endpoint = pytest.mark.parametrize("path", SMALLEST)
NUMBERS: Mapping[str, tuple[str, ...]] = {
    "/v1/chat/completions": ("temperature", "top_p", "max_tokens", "n", "seed", "presence_penalty", "top_logprobs"),
    "/v1/completions": ("temperature", "max_tokens", "n", "best_of", "logprobs"),
    "/v1/embeddings": ("dimensions",),
    "/v1/messages": ("temperature", "top_p", "top_k", "max_tokens"),
    "/v1/responses": ("temperature", "top_p", "max_output_tokens", "top_logprobs", "max_tool_calls"),
}
NO_NUMBERS = ("NaN", "Infinity", "-Infinity", "1e999", '"nan"', "-7", "9" * 5000, "true")


def _refused(response: Any, path: str, *, status: int = 400) -> dict[str, Any]:
    """The error in the envelope of the path's own API."""
    assert (status, "application/json") == (response.status_code, response.headers["content-type"]), response.text
    assert response.headers["x-request-id"].startswith("req_")
    body = response.json()
    assert MARKER not in json.dumps(body)
    if path.startswith("/api/"):
        assert ["error"] == list(body)
        return {"message": body["error"], "param": None}
    if path.startswith("/v1/messages"):
        assert ("error", {"type", "error"}) == (body["type"], set(body))
        assert {"type", "message"} <= body["error"].keys()
        return dict(body["error"])
    assert ["error"] == list(body)
    assert {"message", "type", "param", "code"} == body["error"].keys()
    return dict(body["error"])


def test_every_endpoint_is_here() -> None:
    """One that is added is held to the same."""
    assert set(OPERATIONS) == set(SMALLEST)


@every_endpoint
async def test_its_smallest_body_is_read(running: Any, path: str) -> None:
    """So that what follows is refused for what is wrong with it, and for nothing else."""
    assert 400 != (await running.http.post(path, json=SMALLEST[path])).status_code


WRONG = (
    b"",
    b"[]",
    b"null",
    b"1",
    b'"x"',
    b'{"model":"m","mess',
    b'{"model":"m"} x',
    b"{'model':'m'}",
    b'{"model":"m","z":' + b"[" * 100_000 + b"]" * 100_000 + b"}",
    b'{"a":' * 50_000,
    b'{"model":7}',
    b'{"model":""}',
    b'{"model":"\xff"}',
    '{"model":"m"}'.encode("utf-16"),
)


@every_endpoint
async def test_what_is_no_request_is_a_400(running: Any, path: str) -> None:
    """Whatever it is instead; nobody is asked, and the next request is read."""
    for body in WRONG:
        _refused(await running.http.post(path, content=body, headers={"content-type": "application/json"}), path)
    assert 0 == running.backend("made-up").open_calls
    assert 400 != (await running.http.post(path, json=SMALLEST[path])).status_code


@every_endpoint
async def test_half_a_surrogate_pair_is_a_400_wherever_it_stands(running: Any, path: str) -> None:
    """In any value and in a name; the answer to it is valid JSON."""
    places = [*({field: "@"} for field in SMALLEST[path]), {"@": 1}]
    for half in (r"\ud800", r"\udc00", r"x\uDBFFy", r"\udc00\ud800"):
        for fields in places:
            body = json.dumps({**SMALLEST[path], **fields}).replace('"@"', f'"{half}"')
            _refused(await running.http.post(path, content=body), path)


@every_endpoint
async def test_a_field_that_is_there_twice_is_a_400(running: Any, path: str) -> None:
    """Two readers of it may take different ones."""
    body = json.dumps(SMALLEST[path])
    for name, value in SMALLEST[path].items():
        twice = f"{{{json.dumps(name)}:{json.dumps(value)},{body[1:]}"
        _refused(await running.http.post(path, content=twice), path)


@pytest.mark.parametrize(("path", "field"), [(path, name) for path, names in NUMBERS.items() for name in names])
async def test_what_is_no_number_of_the_kind_is_refused_by_name(running: Any, path: str, field: str) -> None:
    """Not-a-number, infinity, less than nothing, more than any machine holds: streamed and whole."""
    body = json.dumps({**SMALLEST[path], field: "@"})
    for value in NO_NUMBERS:
        if value == "-7" and field == "seed":  # which any whole number is
            continue
        for stream in ("", ',"stream":true' if path != "/v1/embeddings" else ""):
            asked = body.replace('"@"', value)[:-1] + stream + "}"
            assert field == _refused(await running.http.post(path, content=asked), path)["param"], (value, stream)


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"input": ""}, "input"),
        ({"input": []}, "input"),
        ({"input": [""]}, "input"),
        ({"input": ["a", ""]}, "input"),
        ({"input": [[]]}, "input"),
        ({"input": [[1], []]}, "input"),
        ({"input": [1, "a"]}, "input"),
        ({"input": [-1]}, "input"),
        ({"input": [2**40]}, "input"),
        ({"input": ["a"] * 2049}, "input"),
        ({"input": None}, "input"),
        ({"dimensions": 0}, "dimensions"),
        ({"dimensions": -1}, "dimensions"),
        ({"encoding_format": "hex"}, "encoding_format"),
        ({"stream": True}, "stream"),
    ],
)
async def test_what_has_no_embedding_is_refused_by_name(running: Any, fields: dict[str, Any], param: str) -> None:
    """Nothing, nothing among something, what is no token, and vectors of no length."""
    path = "/v1/embeddings"
    response = await running.http.post(path, json={**SMALLEST[path], **fields})
    assert param == _refused(response, path)["param"]


DEEP = '{"1":[1e999]}'
DEEP_FIELDS = {
    **dict.fromkeys(("context", "documents", "foo", "format", "logit_bias", "metadata", "n", "options"), DEEP),
    "messages": f'[{{"role":"user","content":"hi","foo":{DEEP}}}]',
    "response_format": f'{{"type":"json_schema","json_schema":{{"name":"a","schema":{DEEP}}}}}',
    "text": f'{{"format":{{"type":"json_schema","name":"a","schema":{DEEP}}}}}',
    "tools": f"""[{{"type":"function","name":"f","function":{{"name":"f","parameters":{DEEP}}},
        "parameters":{DEEP},"input_schema":{DEEP}}}]""",
}


@every_endpoint
async def test_a_number_that_no_float_holds_breaks_nothing_however_deep_it_stands(running: Any, path: str) -> None:
    """It goes on as it came where nobody looks into its field, and is the client's fault where somebody has to."""
    for name, value in DEEP_FIELDS.items():
        fields = {known: said for known, said in SMALLEST[path].items() if known != name}
        asked = f'{json.dumps(fields)[:-1]},"{name}":{value}}}'
        response = await running.http.post(path, content=asked, headers={"content-type": "application/json"})
        assert response.status_code in {200, 400}, (name, response.text)
        if response.status_code == 400:
            _refused(response, path)


@every_endpoint
async def test_another_method_is_a_405_that_says_which(running: Any, path: str) -> None:
    """In the envelope, and in the header that is there for it."""
    for method in ("GET", "PUT", "PATCH", "DELETE", "OPTIONS"):
        response = await running.http.request(method, path)
        _refused(response, path, status=405)
        assert "POST" in response.headers["allow"].split(", ")


@every_endpoint
async def test_an_unknown_model_is_a_404(start_gateway: Any, path: str) -> None:
    """Which does not repeat the name."""
    running = await start_gateway({"routes": {"one": {"models": ["known"], "targets": ["made-up"]}}})
    _refused(await running.http.post(path, json={**SMALLEST[path], "model": MARKER}), path, status=404)


@every_endpoint
async def test_a_coding_that_is_not_read_is_the_clients_fault(running: Any, path: str) -> None:
    """Codings that nobody reads here, and bodies that are said to be gzip and are none."""
    for coding, status in {"br": 415, "compress": 415, "gzip": 400, "deflate": 400}.items():
        headers = {"content-encoding": coding, "content-type": "application/json"}
        response = await running.http.post(path, content=json.dumps(SMALLEST[path]), headers=headers)
        _refused(response, path, status=status)
