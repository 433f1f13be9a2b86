import math

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from embedded_engine.likelihoods import LOWEST_LOGPROB
from embedded_engine.sampling.chooser import Chooser
from embedded_engine.sampling.logprobs import row_logprob
from embedded_engine.sampling.parameters import Sampling


@given(st.lists(st.integers(-80, 80), min_size=1, max_size=40), st.data(), st.sampled_from([0, 1, 5, 20]))
def test_they_are_the_log_softmax_of_the_models_own_row(halves: list[int], data: st.DataObject, count: int) -> None:
    """Each within 1e-5 of 64-bit arithmetic; the alternatives are the likeliest, equal ones by number."""
    logits = [value / 2 for value in halves]
    token = data.draw(st.integers(0, len(logits) - 1))
    total = max(logits) + math.log(sum(math.exp(value - max(logits)) for value in logits))
    result = row_logprob(np.array(logits, np.float32), token, count)
    assert token == result.token
    assert abs(logits[token] - total - result.logprob) < 1e-5
    best = sorted(range(len(logits)), key=lambda other: (-logits[other], other))[:count]
    assert best == [other for other, _ in result.top]
    assert all(abs(logits[other] - total - logprob) < 1e-5 for other, logprob in result.top)


def test_minus_infinity_becomes_the_floor() -> None:
    """JSON has no infinity."""
    result = row_logprob(np.array([0, -np.inf], np.float32), 1, 2)
    assert (LOWEST_LOGPROB, ((0, 0.0), (1, LOWEST_LOGPROB))) == (result.logprob, result.top)


def test_a_certain_token_has_zero_and_not_more() -> None:
    """Rounding never makes a probability over 1."""
    assert 0.0 == row_logprob(np.array([50, 0, 0], np.float32), 0, 0).logprob


def test_bias_temperature_and_truncation_do_not_show_in_them() -> None:
    """A token that a bias forbids keeps its value among the alternatives, one that it forces its small one."""
    row = np.array([4, 3, 2, 1, 0], np.float32)
    plain = row_logprob(row, 4, 5)
    sampling = Sampling(seed=1, temperature=0.3, top_p=0.3, logit_bias=((0, -100.0), (4, 100.0)))
    drawn = Chooser(sampling, choice=0, prompt=[1]).draw(row)
    assert (4, plain) == (drawn.token, drawn.logprobs(5))
