"""A route as it runs: which model names it answers, where it may go, and the policies that decide."""

import re
from dataclasses import dataclass
from functools import lru_cache

from gateway.ports import Admitter, Classifier, Filter, Ranker, Scorer
from gateway.worth import Worth


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """A place to go: a backend, and the model's name there; ``None`` leaves the choice to the request.

    One that drains finishes what it has and gets nothing new.
    """

    backend: str
    model: str | None
    drain: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Patience:
    """How long an answer may take, in seconds: to its first token, between two pieces, and as a whole."""

    first_token_s: float
    idle_s: float
    total_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Route:
    """A compiled route. Filters and scorers keep the names under which the policy file has them."""

    name: str
    models: tuple[str, ...]
    targets: tuple[Target, ...]
    classifier: Classifier
    admitter: Admitter
    filters: tuple[tuple[str, Filter], ...]
    scorers: tuple[tuple[str, Scorer], ...]
    ranker: Ranker
    worth: Worth
    patience: Patience
    attempts: int

    def answers(self, model: str) -> bool:
        """Whether a request for ``model`` belongs to this route."""
        return any(_pattern(pattern).fullmatch(model) for pattern in self.models)


@lru_cache(maxsize=1024)
def _pattern(pattern: str) -> re.Pattern[str]:
    """``*`` stands for any text; everything else for itself, brackets and dots included."""
    head, *rest = (re.escape(part) for part in pattern.split("*"))
    if not rest:
        return re.compile(head)
    # What is found leftmost between two stars is never looked for again: a client's long name costs linear time.
    middle = "".join(f"(?>.*?{part})" for part in rest[:-1])
    return re.compile(f"{head}{middle}.*{rest[-1]}", re.DOTALL)
