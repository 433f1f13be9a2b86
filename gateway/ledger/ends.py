"""How a request ended, where it ended badly."""

from gateway.errors import ClientGone, HeadraceError
from gateway.types import Outcome, Status


def outcome_of(error: HeadraceError, *, started: bool = False) -> Outcome:
    """What the client got; ``started`` tells that it had a status line before."""
    whole = not started or error.status in {Status.CLIENT_GONE, Status.BUG}
    return Outcome(
        status=error.status if whole else Status.TRUNCATED,
        http_status=200 if started else error.http_status,
        error=type(error).__name__,
        detail=error.message,
    )


CLIENT_GONE = outcome_of(ClientGone("the client hung up"))
