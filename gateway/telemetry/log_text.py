"""Makes text fit for a log line: without secrets, and without characters that could forge a line or hide in one."""

import json
import re
from collections.abc import Iterable
from urllib.parse import quote, quote_plus

HIDDEN = "[hidden]"
MIN_SECRET_CHARACTERS = 4

# Whatever stands before the @ of a URL, values of query fields that carry keys, and credentials after their scheme:
# the keys of clients are not known here, so that they are recognised by where they stand.
_USERINFO = re.compile(r"(?<=://)[^/?#\s@]+@")
_QUERY_KEY = re.compile(r"(?i)([?&](?:[a-z_-]*key|[a-z_-]*token|sig|signature|password)=)[^&#\s'\"]+")
_BEARER = re.compile(r"(?i)\b(bearer(?: +|%20))[\w.~+/=-]{8,}")
_BASIC = re.compile(r"(?i)(authorization['\"]?\s*[:=,]\s*b?['\"]?basic +)[\w+/=-]+")
_KEY_HEADER = re.compile(r"(?i)((?:x-)?api[-_]key['\"]?\s*[:=,]\s*b?['\"]?)(?!\[hidden\])[^\s'\",;&)\]}]{4,}")
# Control characters (C0, DEL, C1), line and paragraph separators, direction overrides, and lone surrogates, which
# cannot be encoded.
_UNPRINTABLE = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069\ud800-\udfff]")
_SHORT_ESCAPES = {"\n": "\\n", "\r": "\\r", "\t": "\\t"}


class Redactor:
    """Hides secrets in text: those it was told, however they are written, and those that are seen for what they are.

    ``secrets`` are ours alone (provider keys, passwords). Those of under four characters are not hidden: they would
    take half of every sentence with them.
    """

    def __init__(self, secrets: Iterable[str]) -> None:
        spellings = {spelling for secret in secrets for spelling in _spellings(secret)}
        longest_first = sorted(spellings, key=len, reverse=True)
        self._known = re.compile("|".join(map(re.escape, longest_first))) if longest_first else None

    def __call__(self, text: str) -> str:
        """``text`` with every secret replaced by ``[hidden]``."""
        if self._known is not None:
            text = self._known.sub(HIDDEN, text)
        text = _USERINFO.sub(f"{HIDDEN}@", text)
        for credential in (_QUERY_KEY, _BEARER, _BASIC, _KEY_HEADER):
            text = credential.sub(rf"\g<1>{HIDDEN}", text)
        return text


def on_one_line(text: str) -> str:
    r"""``text`` with control characters written out (``\n``, ``\x1b``, ``\u2028``): it cannot start a second line."""
    return _UNPRINTABLE.sub(_escape, text)


def _escape(match: re.Match[str]) -> str:
    character = match[0]
    code = ord(character)
    return _SHORT_ESCAPES.get(character) or (f"\\x{code:02x}" if code <= 0xFF else f"\\u{code:04x}")  # noqa: PLR2004


def _spellings(secret: str) -> set[str]:
    """The ways a secret comes up in messages and tracebacks: plain, in a URL, in a repr, in JSON."""
    secret = secret.strip()
    if len(secret) < MIN_SECRET_CHARACTERS:
        return set()
    in_a_repr, in_json = repr(secret)[1:-1], json.dumps(secret)[1:-1]
    return {secret, quote(secret), quote(secret, safe=""), quote_plus(secret), in_a_repr, in_json}
