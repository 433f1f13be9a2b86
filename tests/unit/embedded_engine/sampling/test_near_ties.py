import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from embedded_engine.sampling.chooser import Chooser
from embedded_engine.sampling.parameters import Sampling

_SIZE = 9
_logits = st.lists(st.integers(-40, 40), min_size=_SIZE, max_size=_SIZE).map(lambda n: np.array(n, np.float32) / 8)
_noise = st.lists(st.sampled_from([-1.0, 1.0]), min_size=_SIZE, max_size=_SIZE)


def _chooser(seed: int, temperature: float) -> Chooser:
    sampling = Sampling(seed=seed, temperature=temperature, presence_penalty=0.5, logit_bias=((3, 1.0),))
    chooser = Chooser(sampling, choice=0, prompt=(1, 2))
    chooser.advance(4)
    return chooser


@settings(max_examples=300)
@given(_logits, _noise, st.integers(0, 500), st.sampled_from([0.0, 0.6, 1.3]), st.sampled_from([0.02, 0.2]))
def test_what_is_not_nearly_tied_survives_every_error_of_that_size(
    logits: np.ndarray, noise: list[float], seed: int, temperature: float, error: float
) -> None:
    """All logits off by the whole error, each in any direction: the same token."""
    chooser = _chooser(seed, temperature)
    drawn = chooser.draw(logits)
    assume(not chooser.nearly_tied(drawn, logits, error))
    off = (logits + np.float32(0.999 * error) * np.array(noise, np.float32)).astype(np.float32)
    assert drawn.token == chooser.draw(off).token


@pytest.mark.parametrize("temperature", [0.0, 0.7])
def test_most_tokens_are_not_nearly_tied(temperature: float) -> None:
    """At an error as small as that of sound kernels: else strict requests would be slow for nothing."""
    dice = np.random.default_rng(4)
    tied = 0
    for seed in range(400):
        chooser, logits = _chooser(seed, temperature), dice.normal(0, 2, _SIZE).astype(np.float32)
        tied += chooser.nearly_tied(chooser.draw(logits), logits, 0.002)
    assert tied < 20


def test_a_tie_is_one() -> None:
    """Two equal logits, greedy."""
    chooser = _chooser(1, 0.0)
    logits = np.zeros(_SIZE, np.float32)
    logits[3] = -2
    assert chooser.nearly_tied(chooser.draw(logits), logits, 1e-4)
    assert not chooser.nearly_tied(chooser.draw(logits), logits, 0.0)


def test_the_edge_of_what_is_kept_counts_as_tied() -> None:
    """Top-p may keep one token more or less."""
    chooser = Chooser(Sampling(seed=1, top_p=0.9), choice=0, prompt=())
    logits = np.arange(_SIZE, dtype=np.float32)
    assert chooser.nearly_tied(chooser.draw(logits), logits, 1e-6)
