"""The figures of a replay, each with the interval that it would be found in if the trace had come out otherwise.

Intervals are of a block bootstrap: whole windows of the trace are drawn anew, with replacement, and the figure is
reckoned from what was drawn; the 2.5 and 97.5 percentiles of 400 draws bound it. Two replays of one trace are compared
on the same draws.
"""

import random
from bisect import bisect_right
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import accumulate, pairwise
from operator import mul
from types import MappingProxyType

from gateway.replay.sketch import Sketch, value_of
from gateway.replay.tally import Window

_DRAWS = 400
_LOW, _HIGH = 0.025, 0.975

Weights = Sequence[int]
"""How often each window was drawn."""


class Sample:
    """Windows of one replay, prepared for being drawn often.

    ``usd_per_s`` is what all engines cost together, beside the price of their answers. A window's ``span_s`` lasts
    until the next one begins.
    """

    def __init__(self, windows: Sequence[Window], *, usd_per_s: float = 0.0) -> None:
        self._windows = windows
        self.usd_per_s = usd_per_s
        self.priced = usd_per_s > 0 or all(window.unpriced == 0 for window in windows)
        edges_s = [*(window.first_s for window in windows), windows[-1].last_s]
        self._sums: dict[str, list[float]] = {"span_s": [max(b - a, 0.0) for a, b in pairwise(edges_s)]}
        self._cumulated: dict[str, tuple[list[int], list[list[int]]]] = {}

    def __len__(self) -> int:
        return len(self._windows)

    def total(self, name: str, weights: Weights) -> float:
        """The sum over the drawn windows of ``name``: a field of ``Window``, or a sketch's ``.count`` or ``.total``."""
        if name not in self._sums:
            self._sums[name] = [_number(window, name) for window in self._windows]
        return float(sum(map(mul, self._sums[name], weights)))

    def quantile(self, sketch: str, share: float, weights: Weights) -> float:
        """The quantile of all numbers of the drawn windows."""
        bins, cumulated = self._bins(sketch)
        wanted = share * (self.total(f"{sketch}.count", weights) - 1)
        at = bisect_right(range(len(bins)), wanted, key=lambda bin_: sum(map(mul, cumulated[bin_], weights)))
        return value_of(bins[at]) if at < len(bins) else 0.0

    def spread(self, field: str, weights: Weights) -> float:
        """The most loaded engine against the mean of all; 1 where nothing was done."""
        per_window = [getattr(window, field) for window in self._windows]
        loads = [sum(map(mul, engine, weights)) for engine in zip(*per_window, strict=True)]
        return float(max(loads) * len(loads) / sum(loads)) if any(loads) else 1.0

    def _bins(self, sketch: str) -> tuple[list[int], list[list[int]]]:
        """The bins in use, and for each how many numbers of each window are in it or below."""
        if sketch not in self._cumulated:
            sketches: list[Sketch] = [getattr(window, sketch) for window in self._windows]
            bins = sorted(set().union(*(one.bins for one in sketches)))
            below = [list(accumulate(one.bins.get(bin_, 0) for bin_ in bins)) for one in sketches]
            self._cumulated[sketch] = bins, [list(column) for column in zip(*below, strict=True)]
        return self._cumulated[sketch]


def _number(window: Window, name: str) -> float:
    field, _, attribute = name.partition(".")
    value = getattr(window, field)
    return float(getattr(value, attribute) if attribute else value)


def _mean(sketch: str) -> "Formula":
    return lambda sample, weights: _over(
        sample.total(f"{sketch}.total", weights), sample.total(f"{sketch}.count", weights)
    )


def _quantile(sketch: str, share: float) -> "Formula":
    return lambda sample, weights: sample.quantile(sketch, share, weights)


def _ratio(upper: str, lower: str) -> "Formula":
    return lambda sample, weights: _over(sample.total(upper, weights), sample.total(lower, weights))


def _cost_usd(sample: Sample, weights: Weights) -> float:
    return sample.total("cost_usd", weights) + sample.usd_per_s * sample.total("span_s", weights)


def _over(upper: float, lower: float) -> float:
    return upper / lower if lower else 0.0


Formula = Callable[[Sample, Weights], float]

RESAMPLED: Mapping[str, Formula] = MappingProxyType(
    {
        "ttft_mean_s": _mean("ttft_s"),
        "ttft_p50_s": _quantile("ttft_s", 0.5),
        "ttft_p95_s": _quantile("ttft_s", 0.95),
        "ttft_p99_s": _quantile("ttft_s", 0.99),
        "e2e_mean_s": _mean("e2e_s"),
        "e2e_p95_s": _quantile("e2e_s", 0.95),
        "tpot_mean_s": _mean("tpot_s"),
        "tpot_p95_s": _quantile("tpot_s", 0.95),
        "hit_ratio": _ratio("cached_tokens", "prompt_tokens"),
        "good_ratio": _ratio("good", "ttft_s.count"),
        "goodput_per_s": _ratio("good", "span_s"),
        "output_tokens_per_s": _ratio("output_tokens", "span_s"),
    }
)

PLAIN: Mapping[str, Formula] = MappingProxyType(
    {
        "imbalance": lambda sample, weights: sample.spread("prefill_s", weights),
        "imbalance_tokens": lambda sample, weights: sample.spread("served_tokens", weights),
    }
)
"""Without an interval: a resample, in which chance loads engines unevenly, would always look worse than the trace."""

COSTS: Mapping[str, Formula] = MappingProxyType(
    {
        "cost_usd": _cost_usd,
        "cost_per_success_usd": lambda sample, weights: _over(
            _cost_usd(sample, weights), sample.total("good", weights)
        ),
    }
)
"""Only where every answer has a price."""

FIGURES = (*RESAMPLED, *PLAIN, *COSTS)


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """A value and, where there is one, the interval that holds it 19 times in 20. ``value`` is ``None`` if unknown."""

    value: float | None
    low: float | None = None
    high: float | None = None


def figures(sample: Sample, *, seed: int) -> dict[str, Figure]:
    """Each of ``FIGURES`` for one replay."""
    return _figures(lambda of: partial(of, sample), _draws(len(sample), seed), priced=sample.priced)


def differences(ours: Sample, theirs: Sample, *, seed: int) -> dict[str, Figure]:
    """Each of ``FIGURES``: ours less theirs, drawn together. Both must come from the same trace and conditions."""
    if len(ours) != len(theirs):
        raise ValueError(f"{len(ours)} windows cannot be compared with {len(theirs)}")

    def paired(of: Formula) -> Callable[[Weights], float]:
        return lambda weights: of(ours, weights) - of(theirs, weights)

    return _figures(paired, _draws(len(ours), seed), priced=ours.priced and theirs.priced)


def _figures(
    of: Callable[[Formula], Callable[[Weights], float]], draws: Sequence[Weights], *, priced: bool
) -> dict[str, Figure]:
    once = [1] * len(draws[0])
    found = {name: _figure(of(formula), draws) for name, formula in RESAMPLED.items()}
    found |= {name: Figure(value=of(formula)(once)) for name, formula in PLAIN.items()}
    for name, formula in COSTS.items():
        found[name] = _figure(of(formula), draws) if priced else Figure(value=None)
    return found


def _figure(of: Callable[[Weights], float], draws: Sequence[Weights]) -> Figure:
    value = of([1] * len(draws[0]))
    drawn = sorted(map(of, draws))
    return Figure(value=value, low=drawn[int(_LOW * len(drawn))], high=drawn[int(_HIGH * len(drawn))])


def _draws(windows: int, seed: int) -> list[Weights]:
    rng = random.Random(seed)  # noqa: S311  # the same every time
    draws: list[Weights] = []
    for _ in range(_DRAWS):
        weights = [0] * windows
        for drawn in rng.choices(range(windows), k=windows):
            weights[drawn] += 1
        draws.append(weights)
    return draws
