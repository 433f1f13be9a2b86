import asyncio
from typing import Any
from urllib.parse import parse_qs

import pytest

from backends._entra import Entra, EntraAccount
from backends._upstream import Ask
from gateway.errors import (
    ConfigurationError,
    UpstreamError,
    UpstreamFailed,
    UpstreamInvalid,
    UpstreamUnauthorised,
    UpstreamUnreachable,
)

ASK = Ask(path="/x", body=b"{}", headers={}, streamed=False)
GRANTED = b'{"token_type":"Bearer","expires_in":3599,"access_token":"token-1"}'


def _answers(body: bytes, status: int = 200) -> Any:
    async def respond(_: Any, conversation: Any) -> None:
        await conversation.answer(body, status=status)

    return respond


async def test_an_application_shows_its_secret(serve: Any, surroundings: Any) -> None:
    """By the flow of client credentials, once for many requests."""
    async with serve(_answers(GRANTED)) as there:
        authority = there.url.removesuffix("/v1")
        entra = Entra(tenant_id="ten", client_id="app", client_secret_env="SECRET", authority=authority)
        account = EntraAccount(entra, surroundings(SECRET="s3cret"))
        headers = await asyncio.gather(*(account.headers(ASK) for _ in range(4)))
        await account.close()
    assert [{"authorization": "Bearer token-1"}] * 4 == headers
    (request,) = there.requests
    assert ("POST", "/ten/oauth2/v2.0/token") == (request.method, request.path)
    assert {
        "grant_type": ["client_credentials"],
        "client_id": ["app"],
        "client_secret": ["s3cret"],
        "scope": ["https://cognitiveservices.azure.com/.default"],
    } == parse_qs(request.body.decode())


async def test_a_machine_asks_its_own_service(serve: Any, surroundings: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """For the resource that the scope is of, never by way of a proxy; its numbers are texts."""
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:1")
    async with serve(_answers(GRANTED.replace(b"3599", b'"3599"'))) as there:
        entra = Entra(client_id="one", identity_endpoint=there.url.removesuffix("/v1"))
        account = EntraAccount(entra, surroundings())
        assert {"authorization": "Bearer token-1"} == await account.headers(ASK)
    (request,) = there.requests
    path, _, query = request.path.partition("?")
    assert ("GET", "/metadata/identity/oauth2/token") == (request.method, path)
    assert {
        "api-version": ["2018-02-01"],
        "resource": ["https://cognitiveservices.azure.com"],
        "client_id": ["one"],
    } == parse_qs(query)
    assert "true" == dict(request.headers)["metadata"]


@pytest.mark.parametrize(
    ("status", "body", "expected"),
    [
        (401, b'{"error":"invalid_client","error_description":"AADSTS7000215: secret of app x"}', UpstreamUnauthorised),
        (400, b"no", UpstreamUnauthorised),
        (429, b"{}", UpstreamFailed),
        (503, b"{}", UpstreamFailed),
        (200, b"{}", UpstreamInvalid),
        (200, b'{"access_token":"t","expires_in":"soon"}', UpstreamInvalid),
    ],
)
async def test_why_there_is_no_token(
    serve: Any, surroundings: Any, status: int, body: bytes, expected: type[UpstreamError]
) -> None:
    """By its code alone: the words name the account."""
    async with serve(_answers(body, status)) as there:
        account = EntraAccount(Entra(identity_endpoint=there.url), surroundings())
        with pytest.raises(expected) as caught:
            await account.headers(ASK)
    assert expected is type(caught.value)
    assert "AADSTS" not in str(caught.value)


async def test_nobody_there_is_unreachable(serve: Any, surroundings: Any) -> None:
    """Another backend may serve."""
    async with serve(_answers(GRANTED)) as there:
        pass
    with pytest.raises(UpstreamUnreachable):
        await EntraAccount(Entra(identity_endpoint=there.url), surroundings()).headers(ASK)


def test_a_secret_that_is_not_set_is_told_at_the_start(surroundings: Any) -> None:
    """Not with the first request."""
    with pytest.raises(ConfigurationError, match="NOT_SET"):
        EntraAccount(Entra(tenant_id="t", client_id="c", client_secret_env="NOT_SET"), surroundings())


@pytest.mark.parametrize("fields", [{"tenant_id": "t"}, {"tenant_id": "t", "client_secret_env": "S"}])
def test_half_an_application_is_refused(fields: dict[str, str]) -> None:
    """A managed identity was not meant."""
    with pytest.raises(ValueError, match="entra"):
        Entra(**fields)
