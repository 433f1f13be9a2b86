"""How many tokens to draft: as many as bring the most tokens a second, over all requests of the step together.

With a_ij the chance that request i's draft is right up to its j-th token, a step of R requests and b drafted tokens
emits R + sum a tokens in expectation and takes C(R + b). So all a of all requests are sorted, and the best b is

    b* = argmax_b (R + sum_{i<=b} a_(i)) / C(R + b).

Within a request the chances only fall, so that the b best are always beginnings of drafts. The more requests run, the
more a drafted token costs, and drafts shrink; where none pays, b* is 0. It is 0 also where the best would bring less
than a twenty-fifth: that is as much as the estimates may be off.
"""

from collections.abc import Sequence

from embedded_engine.speculation.costs import StepCosts

__all__ = ["best_lengths"]

_LEAST_GAIN = 1.04


def best_lengths(
    chances: Sequence[Sequence[float]], costs: StepCosts, *, other_rows: int = 0, room_rows: int, row_s: float = 0.0
) -> list[int]:
    """How long each request's draft should be.

    Args:
        chances: By request, a_1, a_2, ... of its draft, never rising.
        costs: C.
        other_rows: Rows that the step has besides, such as those of a prompt.
        room_rows: At most so many drafted tokens.
        row_s: What each row costs beyond C, in the same seconds: attention to what is in the memory.
    """
    requests = len(chances)

    def cost_s(rows: int) -> float:
        return costs.of(rows) + rows * row_s

    ranked = sorted(((a, -i) for i, row in enumerate(chances) for a in row), reverse=True)[:room_rows]
    tokens, best, best_rate = float(requests), 0, _LEAST_GAIN * requests / cost_s(requests + other_rows)
    for drafted, (chance, _) in enumerate(ranked, start=1):
        tokens += chance
        rate = tokens / cost_s(requests + other_rows + drafted)
        if rate > best_rate:
            best, best_rate = drafted, rate
    lengths = [0] * requests
    for _, request in ranked[:best]:
        lengths[-request] += 1
    return lengths
