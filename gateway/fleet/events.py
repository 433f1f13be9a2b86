"""What the replicas of a gateway tell each other, so that each sees the load and the caches that the others make.

Three kinds tell of an attempt (sent off, first token, over) and two of the replica itself (alive, leaving). They are
small, carry no text of anybody, and make sense in any order and any number: a first token of an attempt that nobody
heard of is nothing, and an attempt that is told twice counts once.

Whoever carries them (a stream, a pub/sub channel) owes this:

* every event of a replica reaches the others in its order, within 50 ms, and never the replica itself;
* ``Alive`` at least every ``HEARTBEAT_S``, and ``Left`` at the end;
* to one that joins, ``Fleet.under_way()`` of each replica that is there: what it missed, with its age.
"""

from msgspec import Struct

HEARTBEAT_S = 2.0
"""How often a replica that has nothing else to say must say ``Alive``."""

LEASE_S = 10.0
"""After so long a silence a replica is taken for dead, and its attempts in flight count no more."""

DIGEST_BYTES = 16


class Dispatched(Struct, frozen=True, array_like=True, tag="d"):
    """An attempt was sent off.

    ``flight`` is the replica's own number for it. ``model`` is empty where the backend does not list it. ``digests`` is
    the prompt's chain, 16 bytes a chunk, one after the other; empty where the backend keeps no prefixes.
    ``believed_chunks`` of them were taken to be warm there. ``age_s`` is how long ago it was, as the event is told:
    zero unless it is told to one that joins.
    """

    replica: str
    flight: int
    backend: str
    model: str
    prompt_tokens: int
    fresh_tokens: int
    output_tokens: int
    streams: bool
    digests: bytes = b""
    believed_chunks: int = 0
    age_s: float = 0.0


class FirstToken(Struct, frozen=True, array_like=True, tag="f"):
    """The first token of an attempt is here: its prompt has been read."""

    replica: str
    flight: int
    age_s: float = 0.0


class Landed(Struct, frozen=True, array_like=True, tag="l"):
    """An attempt is over.

    ``decode_s`` is the time from its first token to its last, for ``output_tokens``; zero where that was not seen.
    ``found_chunks`` is how much of the prompt the engine said it had, -1 where it said nothing. ``read`` tells whether
    the prompt was read, so that it is warm there now. ``judgement`` is 1 for a success, -1 for a failure of the
    backend, 0 for an end that says nothing of it.
    """

    replica: str
    flight: int
    output_tokens: int = 0
    decode_s: float = 0.0
    found_chunks: int = -1
    read: bool = False
    judgement: int = 0


class Alive(Struct, frozen=True, array_like=True, tag="a"):
    """The replica is there and has nothing to tell."""

    replica: str


class Left(Struct, frozen=True, array_like=True, tag="x"):
    """The replica stops; whatever it had in flight counts no more."""

    replica: str


FleetEvent = Dispatched | FirstToken | Landed | Alive | Left
