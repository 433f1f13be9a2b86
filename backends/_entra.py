"""Tokens of Microsoft Entra ID: for a registered application with a secret, or for the machine's own identity."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import msgspec

from backends._headers import bearer, resolve_keys
from backends._renewed import Loan, Renewed
from backends._upstream import Ask
from gateway.errors import UpstreamError, UpstreamFailed, UpstreamInvalid, UpstreamUnauthorised, UpstreamUnreachable
from gateway.ports import Surroundings

_REFUSE_TYPING_ERRORS: Mapping[str, Any] = {"extra": "forbid"}
_TIMEOUT_S = 10.0
_LEAST_LIFE_S = 60.0
_SUCCESS = 200
_FAILS_FROM = 500
_BUSY = 429


@dataclass(frozen=True, slots=True, kw_only=True)
class Entra:
    """How tokens are got, as it stands in YAML.

    With ``client_secret_env`` they are those of an application: ``tenant_id`` and ``client_id`` name it, and the
    environment variable holds its secret. Without, they are those of the managed identity of the machine, of which
    ``client_id`` says which one where it has several. ``authority`` and ``identity_endpoint`` are other addresses than
    the public cloud's.
    """

    __pydantic_config__: ClassVar[Mapping[str, Any]] = _REFUSE_TYPING_ERRORS

    tenant_id: str = ""
    client_id: str = ""
    client_secret_env: str = ""
    scope: str = "https://cognitiveservices.azure.com/.default"
    authority: str = "https://login.microsoftonline.com"
    identity_endpoint: str = "http://169.254.169.254"

    def __post_init__(self) -> None:
        if bool(self.tenant_id) != bool(self.client_secret_env):
            raise ValueError("`entra`: `tenant_id` and `client_secret_env` go together; a managed identity has neither")
        if self.client_secret_env and not self.client_id:
            raise ValueError("`entra`: an application has a `client_id`")


class _Granted(msgspec.Struct):
    access_token: str
    expires_in: float | str


_DECODE = msgspec.json.Decoder(_Granted).decode
_DECODE_REFUSAL = msgspec.json.Decoder(dict[str, Any]).decode


class EntraAccount:
    """The token of one backend, renewed before it ends."""

    def __init__(self, entra: Entra, world: Surroundings) -> None:
        self._entra = entra
        name = entra.client_secret_env
        self._secret = resolve_keys(name, secret=world.secret)[0][1] if name else ""
        self._token = Renewed(self._granted, clock=world.clock, what="the token of Entra ID")

    async def headers(self, _: Ask) -> Mapping[str, str]:
        """The headers that carry the token.

        Raises:
            UpstreamError: none could be had.
        """
        return {"authorization": bearer(await self._token.value())}

    async def close(self) -> None:
        """Asks for no more tokens; idempotent."""
        await self._token.close()

    async def _granted(self) -> Loan[str]:
        """A token from where this account's come from."""
        import httpx  # noqa: PLC0415  # a second's import, where it is wanted

        own = not self._secret
        try:
            # the machine's own service is never behind a proxy
            async with httpx.AsyncClient(timeout=_TIMEOUT_S, trust_env=not own) as client:
                answer = await client.send(client.build_request(**(self._of_machine() if own else self._of_app())))
        except httpx.HTTPError as error:
            raise UpstreamUnreachable("no token: Entra ID could not be reached") from error
        if answer.status_code != _SUCCESS:
            raise _refusal(answer.status_code, answer.content)
        try:
            granted = _DECODE(answer.content)
            return Loan(granted.access_token, max(float(granted.expires_in), _LEAST_LIFE_S))
        except (msgspec.DecodeError, ValueError) as error:
            raise UpstreamInvalid("no token: what Entra ID answered is none") from error

    def _of_app(self) -> dict[str, Any]:
        entra = self._entra
        form = {
            "grant_type": "client_credentials",
            "client_id": entra.client_id,
            "client_secret": self._secret,
            "scope": entra.scope,
        }
        return {"method": "POST", "url": f"{entra.authority}/{entra.tenant_id}/oauth2/v2.0/token", "data": form}

    def _of_machine(self) -> dict[str, Any]:
        entra = self._entra
        query = {"api-version": "2018-02-01", "resource": entra.scope.removesuffix("/.default")}
        if entra.client_id:
            query["client_id"] = entra.client_id
        url = f"{entra.identity_endpoint}/metadata/identity/oauth2/token"
        return {"method": "GET", "url": url, "params": query, "headers": {"metadata": "true"}}


def _refusal(status: int, body: bytes) -> UpstreamError:
    """Why there is no token; only the code is told, since the words name the account."""
    if status == _BUSY or status >= _FAILS_FROM:
        return UpstreamFailed(f"no token: Entra ID answered {status}", upstream_status=status)
    try:
        code = str(_DECODE_REFUSAL(body).get("error", ""))[:64]
    except msgspec.DecodeError:
        code = ""
    words = f"Entra ID refused our account ({code or status})"
    return UpstreamUnauthorised(words, upstream_status=status, upstream_code=code or None)
