"""Lots that come out the same for the same names, on every replica and in every replay."""

from hashlib import blake2b
from random import Random

from gateway.request_hints import session_hint
from gateway.types import ChatRequest

_DIGEST_BYTES = 8


def lot(*names: str) -> float:
    """A number from 0 to below 1, spread evenly over names."""
    return _number(names) / 2.0 ** (8 * _DIGEST_BYTES)


def draw(successes: float, failures: float, *names: str) -> float:
    """A number from the beta distribution with these counts."""
    return Random(_number(names)).betavariate(successes, failures)  # noqa: S311  # it must come out the same again


def stays_with(request: ChatRequest) -> str:
    """What goes the same way as a whole: a task, else a conversation, else the request alone; within its tenant."""
    arrival = request.arrival
    if arrival.task is not None:
        return task_key(arrival.tenant, arrival.task.id)
    session = session_hint(request)
    return f"{arrival.tenant}\x1fsession\x1f{session}" if session else task_key(arrival.tenant, arrival.id)


def task_key(tenant: str, task: str) -> str:
    """The name of a task among those of all tenants; a request that names none is one of its own."""
    return f"{tenant}\x1ftask\x1f{task}"


def _number(names: tuple[str, ...]) -> int:
    text = "\0".join(names).encode("utf-8", "surrogatepass")
    return int.from_bytes(blake2b(text, digest_size=_DIGEST_BYTES).digest(), "big")
