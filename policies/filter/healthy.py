"""Out: a candidate that is down, or that rests after failures."""

from dataclasses import dataclass
from typing import ClassVar

from gateway.errors import ClientError
from gateway.types import Candidate, Context


@dataclass(frozen=True, kw_only=True)
class Healthy:
    """Out: a candidate that is down, or that rests after failures.

    The reason is the candidate's own (``cooling after upstream_rate_limited``, ``starting``). Where nobody is left, the
    client is told when to come back: it is not at fault.

    Example::

        filter:
          - healthy
    """

    refusal: ClassVar[type[ClientError] | None] = None

    def exclude(self, ctx: Context, candidate: Candidate) -> str | None:  # noqa: ARG002  # the port's signature
        """Why nothing should go there now, or ``None``."""
        return candidate.down
