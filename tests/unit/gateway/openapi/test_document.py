"""The document: all that is served is in it and nothing else, and it says what answers and errors look like."""

import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import httpx
import pytest
from openapi_spec_validator import validate

from gateway.endpoints import OPERATIONS
from gateway.errors import HeadraceError, UpstreamRefused
from gateway.openapi.document import told_routes
from gateway.openapi.page import Page

POLICY = "backends: {a: {use: fake}}\nroutes: {r: {models: ['*'], targets: [a]}}"
GATEWAY = Path(__file__).resolve().parents[4] / "gateway"
HEADERS_OF_ANSWERS = ("attempt", "limits", "caching", "judging")
_HTTP_ONLY = {408, 414, 426, 431, 499}
"""What is told by the transport, of requests that reach no route; 408 and 431 are told by routes as well."""


@pytest.fixture
async def document(site: Any) -> Mapping[str, Any]:
    """As a gateway serves it."""
    transport = httpx.ASGITransport(app=site.gateway(POLICY).asgi)
    async with httpx.AsyncClient(transport=transport, base_url="http://gate") as client:
        answer = await client.get("/openapi.json")
    assert (200, "application/json") == (answer.status_code, answer.headers["content-type"])
    fields: Mapping[str, Any] = answer.json()
    return fields


@pytest.fixture
async def routes(site: Any) -> list[Any]:
    """The routes that a gateway serves besides inference."""
    return await _routes(site, POLICY)


async def _routes(site: Any, policy: str) -> list[Any]:
    found: list[Any] = (await site.gateway(policy).asgi._annex.wing()).routes
    return found


def _operations(document: Mapping[str, Any]) -> Iterator[tuple[str, str, Mapping[str, Any]]]:
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            yield path, method, operation


def test_it_is_a_valid_document(document: Mapping[str, Any]) -> None:
    """Of OpenAPI 3.1, after a validator that is not ours."""
    assert "3.1.0" == document["openapi"]
    validate(document)


def test_every_route_tells_of_itself(routes: list[Any]) -> None:
    """So that none can be served untold."""
    assert [] == [route.path for route in routes if not isinstance(route, Page)]


def test_what_is_served_and_what_is_told_are_the_same(document: Mapping[str, Any], routes: list[Any]) -> None:
    """Path by path, method by method; HEAD comes with GET."""
    served = {(path, "post") for path in OPERATIONS}
    for route in routes:
        served |= {(route.path.replace(":path", ""), name.lower()) for name in route.methods - {"HEAD"}}
    assert served == {(path, method) for path, method, _ in _operations(document)}


def test_names_of_operations_are_unique(document: Mapping[str, Any]) -> None:
    """Programs are generated from them."""
    names = [operation["operationId"] for _, _, operation in _operations(document)]
    assert sorted(set(names)) == sorted(names)


def _resolved(document: Mapping[str, Any], node: Mapping[str, Any]) -> Mapping[str, Any]:
    if "$ref" not in node:
        return node
    place: Any = document
    for part in node["$ref"].removeprefix("#/").split("/"):
        place = place[part]
    resolved: Mapping[str, Any] = place
    return resolved


def test_every_error_that_a_client_can_meet_has_its_status(document: Mapping[str, Any]) -> None:
    """Of each class of the tree, somewhere; a provider's own refusals are told as 4XX."""
    told = {status for _, _, operation in _operations(document) for status in operation["responses"]}
    kinds, found = [HeadraceError], set()
    while kinds:
        kind = kinds.pop()
        kinds += kind.__subclasses__()
        if kind.__module__ in {"gateway.errors", "gateway.upstream_errors", "gateway.fault"}:
            found.add(kind.http_status)
    assert set() == {str(status) for status in found - _HTTP_ONLY - {405}} - told
    assert "4XX" in told
    assert UpstreamRefused.http_status in found


def test_headers_of_errors_are_told(document: Mapping[str, Any]) -> None:
    """A challenge with each 401, limits and when to come back with each 429, the request's name with all."""
    for path, method, operation in _operations(document):
        for status, response in operation["responses"].items():
            if status.startswith(("4", "5")) and (path, status) != ("/readyz", "503"):
                headers = _resolved(document, response)["headers"]
                assert headers["x-request-id"]["required"], (path, method, status)
                assert ("401" == status) == ("www-authenticate" in headers)
                assert "429" != status or {"retry-after", "x-ratelimit-remaining-tokens"} <= headers.keys()


def test_every_header_that_the_code_writes_on_answers_is_told(document: Mapping[str, Any]) -> None:
    """Found in the source: a new one must be in the document."""
    written: set[str] = set()
    for room in HEADERS_OF_ANSWERS:
        for file in (GATEWAY / room).glob("*.py"):
            written |= set(re.findall(r"\(b\"((?:x-)?[a-z-]+)\", ", file.read_text(encoding="utf-8")))
    told: set[str] = set()
    for _, _, operation in _operations(document):
        for response in operation["responses"].values():
            told |= _resolved(document, response).get("headers", {}).keys()
    assert set() == written - told - {"content-type", "cache-control", "x-accel-buffering", "allow"}


def test_probes_alone_are_open(document: Mapping[str, Any]) -> None:
    """Everything else wants a key, in one of three headers."""
    opened = {path for path, _, operation in _operations(document) if operation.get("security") == []}
    assert {"/", "/healthz", "/readyz"} == opened
    assert [{"bearer": []}, {"x-api-key": []}, {"api-key": []}] == document["security"]


async def test_it_tells_nothing_of_the_policy_file(site: Any) -> None:
    """Nor of the environment: it is the same for every gateway of a version."""
    other = POLICY.replace("a: {use", "hush: {use").replace("[a]", "[hush]")
    first, second = [told_routes(await _routes(site, text)) for text in (POLICY, other)]
    assert first == second


async def test_it_is_for_those_who_have_a_key(make_site: Any) -> None:
    """As all routes but the probes are, where tenants have keys."""
    locked = f"{POLICY}\ntenants: {{t: {{keys_sha256: [{'a' * 64}]}}}}"
    transport = httpx.ASGITransport(app=make_site().gateway(locked).asgi)
    async with httpx.AsyncClient(transport=transport, base_url="http://gate") as client:
        assert 401 == (await client.get("/openapi.json")).status_code


def test_request_bodies_are_those_that_are_read(document: Mapping[str, Any]) -> None:
    """Their bounds are the very ones that the decoder has."""
    schemas = document["components"]["schemas"]
    bounds = json.dumps(schemas["Chat"]["properties"]["n"])
    assert '"minimum": 1, "maximum": 128' in bounds
    assert "api_base" in json.dumps(document["paths"]["/v1/chat/completions"]["post"]["requestBody"])
