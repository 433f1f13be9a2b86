"""The door: who knocks, and with which key. Runs on headers alone, before a body is read or inflated."""

import hashlib
import random
from itertools import chain
from time import time_ns
from typing import NamedTuple

from gateway.clock import SystemClock
from gateway.errors import HeadersTooLarge, HeadraceError, Unauthenticated
from gateway.exchange import Exchange, RawHeaders
from gateway.ports import Clock
from gateway.request_hints import read_hints
from gateway.rules.tenancy import OPEN_HOUSE, Identity, Keys
from gateway.trace_context import Sampling, new_trace
from gateway.types import Arrival
from gateway.wire.format_headers import format_headers

_KEY_HEADERS = frozenset((b"authorization", b"x-api-key", b"api-key"))


_EVERYBODY = Identity(tenant=OPEN_HOUSE)
_NOBODY = Identity(tenant="")


class Knock(NamedTuple):
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
        refusal: HeadraceError | None = None
        identity = _NOBODY
        try:
            identity = self.identity(exchange.headers) if digest is None else self.known(digest)
        except (HeadersTooLarge, Unauthenticated) as error:
            refusal = error
        hints = read_hints(exchange.headers)
        arrival = Arrival(
            id=new_request_id(),
            operation=exchange.operation,
            tenant=identity.tenant,
            received_s=self._clock.now_s(),
            received_unix_s=self._clock.unix_s(),
            trace=new_trace(exchange.headers, self._sampling),
            session=hints.session,
            deadline_s=hints.deadline_s,
            precedence=identity.precedence,
            task=hints.task,
            format_headers=format_headers(exchange.operation, exchange.headers),
        )
        return Knock(arrival, identity, refusal or hints.fault)


def new_request_id() -> str:
    """A name for a request, unlikely enough to be given twice. It begins with the time in milliseconds.

    Names in the order of time let the ledger's index grow at its end, which is half of what random ones cost it.
    """
    return f"req_{time_ns() // 1_000_000:012x}{random.getrandbits(48):012x}"  # a name, not a secret


def _key(name: bytes, value: bytes) -> bytes:
    """The key in a header's value."""
    if name != b"authorization":
        return value.strip()
    scheme, _, key = value.partition(b" ")
    # Another scheme than Bearer counts as a key, scheme and all: it cannot be overlooked beside a good one.
    return key.strip() if scheme.lower() == b"bearer" else value
