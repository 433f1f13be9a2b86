"""Bounds on a replay's figures, as a platform team writes them into its checks: ``ttft_p95_s<=4.4``."""

import math
import operator
import re
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from types import MappingProxyType

from gateway.errors import ConfigurationError
from gateway.rules.parameters import did_you_mean

_COMPARISONS: Mapping[str, Callable[[float, float], bool]] = MappingProxyType(
    {"<=": operator.le, ">=": operator.ge, "<": operator.lt, ">": operator.gt}
)
_BOUND = re.compile(r"\s*(\w+)\s*(<=|>=|<|>)\s*(\S+)\s*")


@dataclass(frozen=True, slots=True)
class Bound:
    """``key`` must be ``comparison`` ``limit``."""

    key: str
    comparison: str
    limit: float

    def __str__(self) -> str:
        return f"{self.key} {self.comparison} {self.limit:g}"

    def holds(self, told: Mapping[str, object]) -> bool:
        """Whether what the replay tells is within the bound."""
        value = told[self.key]
        return isinstance(value, int | float) and _COMPARISONS[self.comparison](value, self.limit)


def read_bound(text: str, known: Collection[str]) -> Bound:
    """A bound on one of the figures in ``known``.

    Raises:
        ConfigurationError: it is no bound, or of nothing that is known.
    """
    where = f"--bound {text!r}"
    parts = _BOUND.fullmatch(text)
    if parts is None:
        raise ConfigurationError("this is no bound", where=where, hint="one is `ttft_p95_s<=4.4`")
    key, comparison, limit = parts.groups()
    if key not in known:
        raise ConfigurationError(f"there is no figure `{key}`", where=where, hint=did_you_mean(key, known))
    try:
        number = float(limit)
    except ValueError:
        number = math.nan
    if not math.isfinite(number):
        raise ConfigurationError(f"`{limit}` is no number", where=where)
    return Bound(key, comparison, number)
