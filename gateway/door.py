"""The door: who knocks, and with which key. Runs on headers alone, before a body is read or inflated."""

import hashlib
from itertools import chain
from random import getrandbits
from time import time_ns

from msgspec import Struct

from gateway.clock import SystemClock
from gateway.errors import HeadersTooLarge, HeadraceError, Unauthenticated
from gateway.exchange import Exchange, RawHeaders, RepeatedHeaders
from gateway.ports import Clock
from gateway.request_hints import Hints, read_hints
from gateway.rules.tenancy import OPEN_HOUSE, Identity, Keys
from gateway.trace_context import Parent, Sampling, begin_trace, read_parent
from gateway.types import Arrival, Operation
from gateway.wire.format_headers import format_headers

_KEY_HEADERS = frozenset((b"authorization", b"x-api-key", b"api-key"))


_EVERYBODY = Identity(tenant=OPEN_HOUSE)
_NOBODY = Identity(tenant="")


_RANDOM_BITS = 48 + 128 + 64
_NEVER_ZERO = 1 << 64 | 1
"""A bit of the trace's id and one of the span's that are always set: no id may be zero."""


class Introduction(Struct, frozen=True, gc=False):
    """What the headers of a request say, which is the same whenever they come again: no secret, nothing that ends.

    ``key_sha256`` is the digest of the key, ``refusal`` why there is none; ``door`` who has read it, since doors differ
    in what they ask for.
    """

    door: object
    key_sha256: str
    refusal: HeadraceError | None
    hints: Hints
    parent: Parent | None
    format_headers: tuple[tuple[str, str], ...]


class Knock(Struct, frozen=True):
    """An arrival, whose it is, and the reason to refuse it."""

    arrival: Arrival
    identity: Identity
    refusal: HeadraceError | None


class Door:
    """Turns an exchange into a ``Knock``; ``sampling`` says which requests are traced."""

    def __init__(
        self,
        keys: Keys,
        *,
        max_header_bytes: int,
        clock: Clock | None = None,
        sampling: Sampling | None = None,
    ) -> None:
        self._keys = keys
        self._max_header_bytes = max_header_bytes
        self._clock = clock or SystemClock()
        self._sampling = sampling or Sampling()
        self._mark = object()

    @property
    def locked(self) -> bool:
        """Whether a key is needed."""
        return bool(self._keys)

    def identity(self, headers: RawHeaders) -> Identity:
        """Whose the headers' key is.

        The key is hashed and the digest looked up: what a lookup's time could tell is about a hash that the caller
        cannot steer, never about a key.

        Raises:
            HeadersTooLarge: the header block is over the limit.
            Unauthenticated: no key, an unknown or an expired one, or several that differ.
        """
        return self.known(self.digest(headers))

    def digest(self, headers: RawHeaders) -> str:
        """The SHA-256 of the headers' key, in hex; empty where no key is asked for.

        Raises:
            HeadersTooLarge: the header block is over the limit.
            Unauthenticated: no key, or several that differ.
        """
        if self._keys:
            return self.shown(headers)
        self._check_length(headers)
        return ""

    def shown(self, headers: RawHeaders) -> str:
        """The SHA-256 of the headers' key, in hex, whether one is asked for or not.

        Raises:
            HeadersTooLarge: the header block is over the limit.
            Unauthenticated: no key, or several that differ.
        """
        self._check_length(headers)
        offered = {_key(name, value) for name, value in headers if name in _KEY_HEADERS}
        offered.discard(b"")  # an empty key is none, whatever its digest opens
        if not offered:
            raise Unauthenticated("an API key is needed: `Authorization: Bearer …` or `x-api-key: …`")
        if len(offered) > 1:
            raise Unauthenticated("the request carries API keys that differ")
        return hashlib.sha256(offered.pop()).hexdigest()

    def _check_length(self, headers: RawHeaders) -> None:
        if sum(map(len, chain.from_iterable(headers))) > self._max_header_bytes:
            raise HeadersTooLarge(f"the headers are longer than {self._max_header_bytes} bytes")

    def known(self, digest: str) -> Identity:
        """Whose the key of that digest is now.

        Raises:
            Unauthenticated: nobody's, or it has expired.
        """
        if not self._keys:
            return _EVERYBODY
        identity = self._keys.get(digest)
        if identity is None:
            raise Unauthenticated("the API key is not known here")
        if identity.expires_unix_s is not None and self._clock.unix_s() >= identity.expires_unix_s:
            raise Unauthenticated("the API key has expired")
        return identity

    def arrive(self, exchange: Exchange, digest: str | None = None) -> Knock:
        """Who is there. Who is refused at the door is recorded all the same.

        ``digest`` is that of a key which was shown before, where the exchange has none in its headers.
        """
        said = self._introduced(exchange, digest)
        hints, refusal, identity = said.hints, said.refusal, _NOBODY
        if refusal is None:
            try:
                identity = self.known(said.key_sha256)
            except Unauthenticated as error:
                refusal = error
        request_id, trace_id, span_id = _new_names()
        arrival = Arrival(
            id=request_id,
            operation=exchange.operation,
            tenant=identity.tenant,
            received_s=self._clock.now_s(),
            received_unix_s=self._clock.unix_s(),
            trace=begin_trace(said.parent, trace_id, span_id, self._sampling),
            session=hints.session,
            deadline_s=hints.deadline_s,
            precedence=identity.precedence,
            task=hints.task,
            format_headers=said.format_headers,
        )
        return Knock(arrival, identity, refusal or hints.fault)

    def _introduced(self, exchange: Exchange, digest: str | None) -> Introduction:
        """What the headers say, read once for all requests that have them in common."""
        headers = exchange.headers
        if digest is not None or type(headers) is not RepeatedHeaders:
            return self._read(exchange.operation, headers, digest)
        said = headers.notes.said
        if not isinstance(said, Introduction) or said.door is not self._mark:
            said = self._read(exchange.operation, headers, digest)
            if said.refusal is None and said.hints.fault is None:  # an error is told once, and is another the next time
                headers.notes.said = said
        return said

    def _read(self, operation: Operation, headers: RawHeaders, digest: str | None) -> Introduction:
        refusal: HeadraceError | None = None
        if digest is None:
            try:
                digest = self.digest(headers)
            except (HeadersTooLarge, Unauthenticated) as error:
                digest, refusal = "", error
        return Introduction(
            door=self._mark,
            key_sha256=digest,
            refusal=refusal,
            hints=read_hints(headers),
            parent=read_parent(headers),
            format_headers=format_headers(operation, headers),
        )


def new_request_id() -> str:
    """A name for a request, unlikely enough to be given twice. It begins with the time in milliseconds.

    Names in the order of time let the ledger's index grow at its end, which is half of what random ones cost it.
    """
    return _new_names()[0]


def _new_names() -> tuple[str, str, str]:
    """Names for a request, a trace and a span, out of one draw: names, not secrets."""
    drawn = time_ns() // 1_000_000 << _RANDOM_BITS | getrandbits(_RANDOM_BITS) | _NEVER_ZERO
    digits = drawn.to_bytes(36, "big").hex()
    return f"req_{digits[:24]}", digits[24:56], digits[56:]


def _key(name: bytes, value: bytes) -> bytes:
    """The key in a header's value."""
    if name != b"authorization":
        return value.strip()
    scheme, _, key = value.partition(b" ")
    # Another scheme than Bearer counts as a key, scheme and all: it cannot be overlooked beside a good one.
    return key.strip() if scheme.lower() == b"bearer" else value
