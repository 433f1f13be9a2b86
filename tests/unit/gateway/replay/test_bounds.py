import pytest

from gateway.errors import ConfigurationError
from gateway.replay.bounds import read_bound

KNOWN = ("ttft_p95_s", "hit_ratio", "cost_usd")


@pytest.mark.parametrize(
    ("text", "value", "holds"),
    [
        ("ttft_p95_s<=4.4", 4.4, True),
        ("ttft_p95_s<=4.4", 4.41, False),
        (" hit_ratio >= .34 ", 0.34, True),
        ("hit_ratio>0.34", 0.34, False),
        ("ttft_p95_s<1e3", 999.0, True),
        ("cost_usd<=1", None, False),
    ],
)
def test_a_bound_holds_or_does_not(text: str, value: float | None, holds: bool) -> None:
    """What is unknown is within no bound."""
    bound = read_bound(text, KNOWN)
    assert holds is bound.holds({bound.key: value})


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("ttft_p95<=4", "there is no figure `ttft_p95` (did you mean `ttft_p95_s`?"),
        ("ttft_p95_s", "this is no bound (one is `ttft_p95_s<=4.4`)"),
        ("ttft_p95_s==4", "this is no bound"),
        ("ttft_p95_s<=four", "`four` is no number"),
        ("ttft_p95_s<=nan", "`nan` is no number"),
    ],
)
def test_what_is_no_bound_is_refused_in_words(text: str, words: str) -> None:
    """Before anything is replayed."""
    with pytest.raises(ConfigurationError) as refused:
        read_bound(text, KNOWN)
    assert words in str(refused.value)
