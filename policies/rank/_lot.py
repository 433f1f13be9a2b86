"""The order of equals: drawn, so that the policy file's decides nothing, and the same for the same request."""

from hashlib import blake2b

from gateway.types import Bill


def lot(request_id: str, bill: Bill) -> bytes:
    """A candidate's place among its equals: eight bytes to sort by, from the request's id and the candidate's name."""
    names = f"{request_id}\0{bill.candidate.backend}\0{bill.candidate.model}"
    return blake2b(names.encode("utf-8", "surrogatepass"), digest_size=8).digest()
