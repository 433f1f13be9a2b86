"""What guards have in common that ask a service over HTTP: its address, its keys, its bounds."""

import re
from collections.abc import Mapping
from typing import Any, Literal

import msgspec

from gateway.guard import CannotSay
from gateway.judgement import HttpInquiry, Reply
from policies._service_address import check_address

HeaderValue = str | Mapping[Literal["env"], str]
"""A header's value in YAML: the text itself, or ``{env: NAME}`` for a secret."""

_OK = 200
_NAME = re.compile(r"[a-z0-9-]{1,64}\Z")
_VALUE = re.compile(r"[\x21-\x7e]([\t\x20-\x7e]*[\x21-\x7e])?\Z")
_VARIABLE = re.compile(r"[A-Z_][A-Z0-9_]{0,127}\Z")
_OURS = frozenset({"host", "content-length", "content-type", "transfer-encoding", "connection"})
_FIELDS = msgspec.json.Decoder(dict[str, Any])
_BY_POLICY_FILE_S = 30.0
"""The kernel puts in the time that the policy file gives."""


def check_service(
    url: str, headers: Mapping[str, HeaderValue], *, api_key_env: str, plain_http: bool, max_reply_bytes: int
) -> None:
    """Refuses what is no address of a service, or what others on the way could read.

    Raises:
        ValueError: saying what.
    """
    check_address(url, plain_http=plain_http, example="https://guard.example.com/v1/check")
    if max_reply_bytes <= 0:
        raise ValueError("`max_reply_bytes` must be more than zero")
    named = [value["env"] for value in headers.values() if not isinstance(value, str)]
    if not all(_VARIABLE.match(name) for name in (*named, *((api_key_env,) if api_key_env else ()))):
        raise ValueError("a key is given by the name of an environment variable like `GUARD_KEY`, never by itself")
    for name, value in headers.items():
        if not _NAME.match(name) or name in _OURS:
            raise ValueError(f"`headers`: {name!r} is no header that can be given here, in lower case")
        if isinstance(value, str) and not _VALUE.match(value):
            raise ValueError(f"`headers`: the value of `{name}` holds characters that no header may have")


def inquiry(
    url: str, question: Any, *, headers: Mapping[str, HeaderValue], api_key_env: str, max_reply_bytes: int
) -> HttpInquiry:
    """The question, as JSON."""
    return HttpInquiry(
        url=url,
        body=msgspec.json.encode(question),
        timeout_s=_BY_POLICY_FILE_S,
        max_reply_bytes=max_reply_bytes,
        api_key_env=api_key_env,
        headers=tuple((name, value) for name, value in headers.items() if isinstance(value, str)),
        secret_headers=tuple((name, value["env"]) for name, value in headers.items() if not isinstance(value, str)),
    )


def answered(reply: Reply) -> dict[str, Any]:
    """The reply's JSON object.

    Raises:
        CannotSay: it has another status than 200, or is none.
    """
    if reply.code != _OK:
        raise CannotSay(f"it answers with status {reply.code}")
    try:
        return _FIELDS.decode(reply.body)
    except (msgspec.DecodeError, RecursionError):
        raise CannotSay("its reply is no JSON object") from None
