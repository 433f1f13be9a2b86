"""Out: a candidate of which nobody knows what it costs."""

from dataclasses import dataclass
from typing import ClassVar

from gateway.errors import ClientError
from gateway.types import Candidate, Context


@dataclass(frozen=True, kw_only=True)
class Priced:
    """Out: a candidate of which nobody knows what it costs: neither the policy file nor its provider's list says.

    A route that says ``unpriced: refuse`` has this filter after its own. A model that costs nothing has a price of 0.

    Example::

        filter:
          - healthy
          - priced
    """

    refusal: ClassVar[type[ClientError] | None] = None

    def exclude(self, ctx: Context, candidate: Candidate) -> str | None:  # noqa: ARG002  # the port's signature
        """Why nothing should go there, or ``None``."""
        return f"no price is known for {candidate.model}" if candidate.price is None else None
