"""How much of bodies with files in them is held at once: they are long, and stay until their request is over."""

from gateway.errors import Overloaded
from gateway.exchange import Exchange, RawHeaders

_RETRY_AFTER_S = 1.0


class HeldBodies:
    """Room for bodies, by the names of their requests. Whoever finds none comes back later.

    Args:
        most_bytes: of all that are held together; one alone may always come.
        longest_bytes: of one, which is what is set aside for who does not say how long it is.
    """

    def __init__(self, *, most_bytes: int, longest_bytes: int) -> None:
        self._most_bytes = most_bytes
        self._longest_bytes = longest_bytes
        self._held: dict[str, int] = {}
        self._held_bytes = 0

    @property
    def held(self) -> int:
        """How many bodies there are."""
        return len(self._held)

    async def body(self, name: str, exchange: Exchange) -> bytes:
        """The body of a request, for which room is set aside until it leaves.

        Raises:
            Overloaded: there is not enough.
            HeadraceError: as ``Exchange.body`` does.
        """
        wanted = self._said_bytes(exchange.headers)
        if self._held and self._held_bytes + wanted > self._most_bytes:
            raise Overloaded("too many files are on their way at once", retry_after_s=_RETRY_AFTER_S)
        self._held[name] = wanted
        self._held_bytes += wanted
        body = await exchange.body()
        self._held_bytes += len(body) - wanted
        self._held[name] = len(body)
        return body

    def leave(self, name: str) -> None:
        """The request is over; one that never entered may leave, too."""
        self._held_bytes -= self._held.pop(name, 0)

    def _said_bytes(self, headers: RawHeaders) -> int:
        """What the headers say; one that is compressed, or sent in chunks, may become as long as any."""
        known = dict(headers)
        length = known.get(b"content-length") or b""
        if not length.isdigit() or b"content-encoding" in known:
            return self._longest_bytes
        return min(int(length), self._longest_bytes)
