"""The request headers that an operator adds, and the credentials: out of the environment, checked, known as secrets."""

import re
from collections.abc import Callable, Mapping
from typing import Literal

from backends._keys import KeyNames, key_names
from gateway.errors import ConfigurationError

HeaderValue = str | Mapping[Literal["env"], str]
"""A header's value in YAML: the text itself, or ``{env: NAME}`` for a secret."""

_NAME = re.compile(r"[a-z0-9!#$%&'*+.^_`|~-]+", re.ASCII)
_VALUE = re.compile(r"[\x21-\x7e]([\t\x20-\x7e]*[\x21-\x7e])?", re.ASCII)
_VARIABLE = re.compile(r"[A-Z_][A-Z0-9_]{0,127}|[a-z]{1,32}(_[a-z0-9]{1,32}){1,8}", re.ASCII)
"""Narrower than what a shell allows: `gsk_` and 52 letters of both cases would be a name there, and is a key."""

_A_VARIABLE = "should be the name of an environment variable like `GROQ_API_KEY`, never the key itself"
_OURS = frozenset(
    {
        "accept",
        "accept-encoding",
        "connection",
        "content-encoding",
        "content-length",
        "content-type",
        "cookie",
        "expect",
        "host",
        "keep-alive",
        "te",
        "trailer",
        "transfer-encoding",
        "upgrade",
    }
)
"""Framing, negotiation and hops: a wrong one breaks every request in a way that is hard to see."""


def check_headers(headers: Mapping[str, HeaderValue], *, api_key_env: KeyNames) -> None:
    """Refuses headers that are none, that are ours to write, and keys where the name of a variable belongs.

    Raises:
        ValueError: with the header's name.
    """
    for name, value in headers.items():
        if not _NAME.fullmatch(name.lower()):
            raise ValueError(f"`headers`: {name!r} is no header name")
        if name.lower() in _OURS:
            raise ValueError(f"`headers`: `{name}` is written by the gateway itself")
        if isinstance(value, str) and not _VALUE.fullmatch(value):
            raise ValueError(f"`headers`: the value of `{name}` holds characters that no header may have")
        if not isinstance(value, str) and not _VARIABLE.fullmatch(value["env"]):
            raise ValueError(f"`headers`: `env` of `{name}` {_A_VARIABLE}")
    if not all(_VARIABLE.fullmatch(name) for name in key_names(api_key_env)):
        raise ValueError(f"`api_key_env` {_A_VARIABLE}")


def variables(headers: Mapping[str, HeaderValue], *, api_key_env: KeyNames) -> tuple[str, ...]:
    """The environment variables that ``resolve_headers`` reads, once each."""
    named = [value["env"] for value in headers.values() if not isinstance(value, str)]
    return tuple(dict.fromkeys((*named, *key_names(api_key_env))))


def resolve_headers(
    headers: Mapping[str, HeaderValue],
    *,
    api_key_env: KeyNames,
    secret: Callable[[str], str | None],
    credential: Callable[[str], Mapping[str, str]] | None = None,
) -> tuple[dict[str, str], frozenset[str]]:
    """The headers as they are sent, and the secrets in them. Of several keys none is among the headers.

    ``credential`` makes headers of a key; ``Authorization: Bearer`` where it is left out.

    Raises:
        ConfigurationError: a variable is not set, or holds what no header may have. Its value is not told.
    """
    resolved: dict[str, str] = {}
    secrets: set[str] = set()
    for name, value in headers.items():
        if isinstance(value, str):
            resolved[name.lower()] = value
        else:
            resolved[name.lower()] = _from_environment(value["env"], secret)
            secrets.add(resolved[name.lower()])
    keys = resolve_keys(api_key_env, secret=secret)
    secrets.update(key for _, key in keys)
    if len(keys) == 1:
        key = keys[0][1]
        resolved |= {"authorization": bearer(key)} if credential is None else credential(key)
    return resolved, frozenset(secrets)


def resolve_keys(api_key_env: KeyNames, *, secret: Callable[[str], str | None]) -> tuple[tuple[str, str], ...]:
    """The variables' names, and the keys in them.

    Raises:
        ConfigurationError: as for ``resolve_headers``.
    """
    return tuple((name, _from_environment(name, secret)) for name in key_names(api_key_env))


def bearer(key: str) -> str:
    """The value of ``authorization``."""
    return f"Bearer {key}"


def _from_environment(name: str, secret: Callable[[str], str | None]) -> str:
    value = (secret(name) or "").strip()  # a key out of a file often has a newline at its end
    if not value:
        raise ConfigurationError(
            f"the environment variable {name} is not set", where="api_key_env", hint="it holds the upstream's key"
        )
    if not _VALUE.fullmatch(value):
        raise ConfigurationError(f"the environment variable {name} holds characters that no header may have")
    return value
