"""How a route steers by success, as it runs: what is learned of it, what exploring may cost, who is tried out."""

from dataclasses import dataclass
from hashlib import blake2s
from typing import Literal

from gateway.limits.limit import Limit


@dataclass(frozen=True, slots=True, kw_only=True)
class Explore:
    """``share`` of the tasks, 0 to 1, try what may be better, for as long as ``budget`` pays for it."""

    share: float
    budget: Limit


@dataclass(frozen=True, slots=True, kw_only=True)
class Canary:
    """A target that ``share`` of the tasks try, 0 to 1, until it is shown to be worse with so much ``confidence``.

    ``run`` tells trials of the same target apart.
    """

    backend: str
    model: str | None
    share: float
    confidence: float
    when_better: Literal["report", "promote"]
    run: int

    @property
    def name(self) -> str:
        """As people write it."""
        return self.backend if self.model is None else f"{self.backend}/{self.model}"

    def key(self, route: str) -> str:
        """The name of this trial among all: whoever changes what is tried, or how, begins anew."""
        text = "\0".join((route, self.name, repr(self.share), repr(self.confidence), str(self.run)))
        return blake2s(text.encode(), digest_size=8).hexdigest()


@dataclass(frozen=True, slots=True, kw_only=True)
class Steer:
    """What a route learns of success: a verdict counts half after ``half_life_s``.

    ``confidence`` is that of each bound: 0.95 means that a chance is below its lower bound once in twenty times.
    """

    half_life_s: float
    confidence: float
    explore: Explore | None = None
    canary: Canary | None = None
