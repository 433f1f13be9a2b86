"""A provider's card: what is known of how it computes a model, and of whether its answers are the original model's."""

from dataclasses import dataclass
from typing import Any, Literal

Equivalence = Literal["claimed", "measured", "verified"]

_NAMES = ("precision", "engine", "speculation", "equivalence", "evidence")
_DEGREES: tuple[Equivalence, ...] = ("claimed", "measured", "verified")


@dataclass(frozen=True, slots=True, kw_only=True)
class Card:
    """Empty text and ``None`` mean that nobody knows.

    ``precision`` is that of the weights (``bf16``, ``fp8``, ``q8_0``), ``engine`` what computes it, ``speculation``
    what drafts tokens, or ``none``. ``equivalence`` is about all that is meant to make it fast and not to change it
    (speculation, batches, kernels): whether answers are those of the same weights without. ``claimed``: somebody says
    so. ``measured``: the difference is known, and ``evidence`` has it. ``verified``: there was none to be found, and
    ``evidence`` says who looked how. What the precision changes is not in it.
    """

    precision: str = ""
    engine: str = ""
    speculation: str = ""
    equivalence: Equivalence | None = None
    evidence: str = ""

    def over(self, other: "Card | None") -> "Card":
        """This card, and what it leaves open from the other; evidence stays with the equivalence that it is of."""
        below = {} if other is None else other.stated()
        if self.equivalence is not None:
            below.pop("evidence", None)
        return Card(**(below | self.stated()))

    @property
    def brief(self) -> "Card":
        """The card without the evidence, which is words for people."""
        return Card(**(self.stated() | {"evidence": ""}))

    def stated(self) -> dict[str, Any]:
        """What is known, by name."""
        values = ((name, getattr(self, name)) for name in _NAMES)
        return {name: value for name, value in values if value}

    def reaches(self, wanted: Equivalence) -> bool:
        """Whether the equivalence is known as well as ``wanted``, or better; what nobody knows never is."""
        return self.equivalence is not None and _DEGREES.index(self.equivalence) >= _DEGREES.index(wanted)
