"""What requests for files and batches ask in their queries, and what is said where their database is away."""

from collections.abc import Iterator
from contextlib import contextmanager

from starlette.requests import Request

from gateway.errors import ConfigurationError, InvalidRequest, Overloaded
from gateway.stores.ledger_lost import LedgerLost

_RETRY_S = 2.0


@contextmanager
def reached() -> Iterator[None]:
    """What goes wrong with the database inside is told to the client, without the words that name it.

    Raises:
        Overloaded: it is away.
    """
    try:
        yield
    except (LedgerLost, ConfigurationError):
        raise Overloaded("files and batches cannot be reached now", retry_after_s=_RETRY_S) from None


def number_in(request: Request, name: str, *, usual: int, most: int) -> int:
    """A whole number from 1 to ``most`` in the query.

    Raises:
        InvalidRequest: it is none.
    """
    said = request.query_params.get(name)
    if said is None:
        return usual
    if not (said.isascii() and said.isdigit() and len(said) <= len(str(most)) and 1 <= int(said) <= most):
        raise InvalidRequest(f"{name} must be a whole number from 1 to {most}", param=name)
    return int(said)
