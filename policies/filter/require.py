"""Out: a candidate whose card does not say what the route requires."""

from dataclasses import dataclass
from typing import ClassVar

from gateway.card import Card, Equivalence
from gateway.errors import ClientError
from gateway.types import Candidate, Context


@dataclass(frozen=True, kw_only=True)
class Require:
    """Out: a candidate whose provider's card does not say what is required; what nobody knows is not enough.

    Cards stand in the policy file (``card``, of a backend or one of its models); the embedded engine writes its own
    when it is ready.

    Example::

        filter:
          - healthy
          - {use: require, precision: [bf16, fp16], equivalence: verified}

    Attributes:
        precision: One of these, as the card has it; empty for any.
        engine: One of these; empty for any.
        speculation: One of these, ``none`` for no speculation; empty for any.
        equivalence: How well it is known that answers are those of the same weights without acceleration:
            ``claimed``, ``measured`` or ``verified``, or better; left out for any.
    """

    precision: tuple[str, ...] = ()
    engine: tuple[str, ...] = ()
    speculation: tuple[str, ...] = ()
    equivalence: Equivalence | None = None
    refusal: ClassVar[type[ClientError] | None] = None

    def __post_init__(self) -> None:
        if not self.precision and not self.engine and not self.speculation and self.equivalence is None:
            raise ValueError("it requires nothing: give `precision`, `engine`, `speculation` or `equivalence`")

    def exclude(self, ctx: Context, candidate: Candidate) -> str | None:  # noqa: ARG002  # the port's signature
        """Why nothing should go there, or ``None``."""
        return self.unmet(candidate.card)

    def unmet(self, card: Card | None) -> str | None:
        """What a card lacks, in words, or ``None``."""
        known = card or _UNKNOWN
        for name, wanted in (
            ("precision", self.precision),
            ("engine", self.engine),
            ("speculation", self.speculation),
        ):
            has = getattr(known, name)
            if wanted and has not in wanted:
                return f"its {name} is {has or 'unknown'}, and {' or '.join(wanted)} is required"
        if self.equivalence is not None and not known.reaches(self.equivalence):
            return f"its equivalence is {known.equivalence or 'unknown'}, and {self.equivalence} is required"
        return None


_UNKNOWN = Card()
