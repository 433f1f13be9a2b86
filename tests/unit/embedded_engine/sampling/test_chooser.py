import math
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from embedded_engine.errors import BadNumerics
from embedded_engine.sampling.chooser import Chooser
from embedded_engine.sampling.constraints import Tokens
from embedded_engine.sampling.parameters import Sampling
from embedded_engine.sampling.randomness import uniform

Reference = Callable[..., dict[int, float]]

_SIZE = 12
_END = 11

_samplings = st.builds(
    Sampling,
    seed=st.integers(0, 1000),
    temperature=st.sampled_from([0.0, 0.3, 0.7, 1.0, 1.7]),
    top_k=st.sampled_from([0, 1, 3, 7, 40]),
    top_p=st.sampled_from([0.05, 0.35, 0.8, 0.95, 1.0]),
    min_p=st.sampled_from([0.0, 0.02, 0.3]),
    repetition_penalty=st.sampled_from([1.0, 1.3, 0.8]),
    presence_penalty=st.sampled_from([0.0, 0.6, -1.0]),
    frequency_penalty=st.sampled_from([0.0, 0.4, -0.3]),
    logit_bias=st.sampled_from([(), ((2, -100.0),), ((0, 3.5), (5, -1.0))]),
)
_logits = st.lists(st.integers(-20, 20).map(lambda quarters: quarters / 4), min_size=_SIZE, max_size=_SIZE)
_tokens = st.lists(st.integers(0, _SIZE - 2), max_size=6)


@dataclass
class _Allows:
    """A grammar that always allows the same tokens."""

    tokens: Sequence[int]
    forces: tuple[int, ...] = ()
    fed: list[int] = field(default_factory=list)

    def permits(self, token: int) -> bool:
        return token in self.tokens

    def allowed(self) -> Tokens:
        return np.array(self.tokens, np.intp)

    def forced(self) -> tuple[int, ...]:
        return self.forces

    def advance(self, token: int) -> None:
        self.fed.append(token)


@dataclass
class _Thinks:
    """A budget that thinks for a number of tokens."""

    tokens: int
    swapped: tuple[int, int] | None = None
    forces: tuple[int, ...] = ()

    @property
    def thinking(self) -> bool:
        return self.tokens > 0

    def forced(self) -> tuple[int, ...]:
        return self.forces

    def advance(self, token: int) -> None:
        del token
        self.tokens -= 1


def _row(values: Sequence[float]) -> np.ndarray:
    row = np.array(values, np.float32)
    row.setflags(write=False)
    return row


def _chooser(sampling: Sampling, prompt: Sequence[int] = (), emitted: Sequence[int] = (), **extras: object) -> Chooser:
    chooser = Chooser(sampling, choice=0, prompt=prompt, ends=frozenset({_END}), **extras)  # type: ignore[arg-type] # tests
    for token in emitted:
        chooser.advance(token)
    return chooser


@settings(max_examples=300, deadline=None)
@given(_logits, _samplings, _tokens, _tokens, st.none() | st.sets(st.integers(0, _SIZE - 1), min_size=1))
def test_a_token_is_drawn_from_the_reference_distribution(
    reference: Reference,
    logits: list[float],
    sampling: Sampling,
    prompt: list[int],
    emitted: list[int],
    allowed: set[int] | None,
) -> None:
    """Every probability within 1e-6, and the token where the position's number falls into its share."""
    grammar = _Allows(sorted(allowed)) if allowed is not None else None
    chooser = _chooser(sampling, prompt, emitted, grammar=grammar)
    expected = reference(logits, sampling, prompt=prompt, emitted=emitted, allowed=allowed)
    drawn = chooser.draw(_row(logits))
    assert all(abs(expected.get(token, 0) - drawn.probability(token)) < 1e-6 for token in range(_SIZE))
    ranked = 0 < sampling.top_k < len(allowed or range(_SIZE)) or sampling.top_p < 1
    order = list(expected) if ranked else sorted(expected)
    cumulative = np.cumsum([expected[token] for token in order])
    u = uniform(sampling.seed, 0, len(emitted))
    assume(np.min(np.abs(cumulative - u)) > 1e-5)
    assert order[int(np.searchsorted(cumulative, u, side="right"))] == drawn.token


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"top_p": 0.9},
        {"top_p": 0.99, "temperature": 1.5},
        {"top_k": 50},
        {"top_k": 3000},
        {"top_k": 40, "top_p": 0.8},
        {"min_p": 0.05},
        {"min_p": 0.01, "top_p": 0.95, "repetition_penalty": 1.2},
    ],
)
def test_a_row_of_a_real_size_gives_the_reference_distribution(
    reference: Reference, real_rows: np.ndarray, changes: dict[str, float]
) -> None:
    """The short cuts for 50,000 tokens change nothing."""
    sampling = Sampling(seed=1, **changes)  # type: ignore[arg-type] # top_k is a whole number
    for row in real_rows[:2]:
        expected = reference(row.tolist(), sampling, prompt=[3, 9000], emitted=[5])
        drawn = _chooser(sampling, [3, 9000], [5]).draw(row)
        likely = sorted(expected, key=expected.__getitem__)[-300:]
        assert max(abs(expected[token] - drawn.probability(token)) for token in likely) < 1e-6
        assert drawn.token in expected
        unlikely = next(
            token for token in range(len(row) - 1, 0, -1) if token not in expected or len(expected) == len(row)
        )
        assert abs(expected.get(unlikely, 0) - drawn.probability(unlikely)) < 1e-6


@pytest.mark.parametrize("changes", [{}, {"top_k": 6}, {"top_p": 0.9}, {"min_p": 0.06}, {"temperature": 0.8}])
def test_draws_follow_the_distribution(reference: Reference, changes: dict[str, float]) -> None:
    """Chi-square over 8,000 positions of a fixed seed; each of the five would fail a sound chooser once in 10,000."""
    logits = np.log(np.array([0.4, 0.2, 0.1, 0.1, 0.08, 0.06, 0.04, 0.02], np.float32))
    sampling = Sampling(seed=11, **changes)  # type: ignore[arg-type] # top_k is a whole number
    chooser, counts, draws = _chooser(sampling), Counter[int](), 8_000
    for _ in range(draws):
        counts[token := chooser.draw(logits).token] += 1
        chooser.advance(token)
    expected = reference(logits.tolist(), sampling)
    assert set(expected) == set(counts)
    statistic = sum((counts[token] - draws * share) ** 2 / (draws * share) for token, share in expected.items())
    critical = {4: 23.51, 5: 25.74, 6: 27.86, 7: 29.88}
    assert statistic < critical[len(expected) - 1]


def test_seeds_stay_what_they_were(real_rows: np.ndarray) -> None:
    """Who wrote a seed down gets the same tokens from every release, whatever the parameters."""
    drawn = []
    for changes in [{}, {"top_p": 0.9}, {"top_k": 50}, {"min_p": 0.02}, {"temperature": 1.4, "presence_penalty": 1.0}]:
        chooser = _chooser(Sampling(seed=42, **changes))  # type: ignore[arg-type] # top_k is a whole number
        tokens = []
        for row in real_rows:
            tokens.append(chooser.draw(row).token)
            chooser.advance(tokens[-1])
        drawn.append(tokens)
    assert [
        [8, 2, 19, 10, 4, 8, 20, 6],
        [8, 2, 2, 10, 9, 1, 7, 6],
        [8, 2, 0, 10, 9, 1, 0, 6],
        [8, 2, 9, 10, 4, 8, 20, 6],
        [8, 2, 33124, 0, 4, 13195, 17277, 6],
    ] == drawn


def test_a_draw_changes_nothing() -> None:
    """Asked twice it says the same; only an emitted token moves the state."""
    row = _row([0.1 * token for token in range(_END)])
    chooser = _chooser(Sampling(seed=5, frequency_penalty=1.0))
    first, second = chooser.draw(row), chooser.draw(row)
    assert (first.token, first.probability(3)) == (second.token, second.probability(3))
    drawn = set()
    for _ in range(30):
        drawn.add(token := chooser.draw(row).token)
        chooser.advance(token)
    assert len(drawn) > 5


def test_temperature_zero_takes_the_likeliest_and_the_first_of_equals() -> None:
    """With certainty, and without a generator."""
    drawn = _chooser(Sampling(seed=1, temperature=0)).draw(_row([0, 5, 5, 1]))
    assert (1, 1.0, 0.0) == (drawn.token, drawn.probability(1), drawn.probability(2))


@pytest.mark.parametrize("temperature", [1e-45, 2e-6])
def test_a_tiny_temperature_is_greedy_and_raises_no_warning(temperature: float) -> None:
    """A quotient of 32-bit numbers would overflow."""
    assert 1 == _chooser(Sampling(seed=1, temperature=temperature)).draw(_row([0, 5, -np.inf])).token


@pytest.mark.parametrize("bad", [np.nan, np.inf])
@pytest.mark.parametrize(
    "changes", [{"temperature": 0.0}, {}, {"top_k": 2}, {"top_p": 0.5}, {"repetition_penalty": 1.1}]
)
def test_logits_that_are_not_numbers_are_refused(bad: float, changes: dict[str, float]) -> None:
    """They fail the request, not the engine; in the answer and in its log-probabilities."""
    row = _row([1, bad, 3] + [0] * (_SIZE - 3))
    with pytest.raises(BadNumerics):
        _chooser(Sampling(seed=1, **changes)).draw(row)  # type: ignore[arg-type] # top_k is a whole number
    forced = _chooser(Sampling(seed=1), grammar=_Allows([1], forces=(1,))).draw(row)
    with pytest.raises(BadNumerics):
        forced.logprobs(2)


def test_a_ruled_out_vocabulary_is_refused() -> None:
    """There is nothing to draw, with or without a grammar."""
    row = _row([-np.inf] * 3 + [0.0])
    with pytest.raises(BadNumerics):
        _chooser(Sampling(seed=1)).draw(row[:3])
    with pytest.raises(BadNumerics, match="grammar"):
        _chooser(Sampling(seed=1), grammar=_Allows([0, 1])).draw(row)


def test_repetition_counts_the_prompt_and_the_other_penalties_do_not() -> None:
    """As in transformers and as OpenAI documents it; end tokens count nowhere."""
    row = _row([1.0, 1.0, -1.0, 1.0, 0.0])
    repeated = _chooser(Sampling(seed=1, repetition_penalty=2.0), [0, 0, 2], [3, 3, _END]).draw(row)
    weights = {token: math.exp(value) for token, value in enumerate([0.5, 1.0, -2.0, 0.5, 0.0])}
    for token, weight in weights.items():
        assert math.isclose(weight / sum(weights.values()), repeated.probability(token), abs_tol=1e-6)
    counted = _chooser(Sampling(seed=1, presence_penalty=1.0, frequency_penalty=0.25), [0, 0], [3, 3]).draw(row)
    assert math.isclose(math.exp(-1.5), counted.probability(3) / counted.probability(0), rel_tol=1e-5)


def test_many_distinct_tokens_are_all_counted() -> None:
    """More than the counts first have room for."""
    chooser = _chooser(Sampling(seed=1, presence_penalty=2.0), (), range(100))
    drawn = chooser.draw(np.zeros(200, np.float32))
    assert math.isclose(math.exp(2), drawn.probability(150) / drawn.probability(99), rel_tol=1e-5)


def test_an_end_waits_for_min_tokens_and_never_comes_where_it_is_ignored() -> None:
    """The likeliest token is the end all along."""
    row = _row([0.0] * (_SIZE - 1) + [9.0])
    chooser = _chooser(Sampling(seed=1, temperature=0, min_tokens=2), (), [1])
    assert 0 == chooser.draw(row).token
    chooser.advance(0)
    assert _END == chooser.draw(row).token
    assert 0 == _chooser(Sampling(seed=1, ignore_eos=True, temperature=0), (), [1] * 50).draw(row).token


def test_min_tokens_gives_way_to_a_grammar_that_is_over() -> None:
    """A grammar is never fed past its end; where it may go on it must."""
    row = _row([0.0] * (_SIZE - 1) + [9.0])
    assert _END == _chooser(Sampling(seed=1, min_tokens=5), grammar=_Allows([_END])).draw(row).token
    for temperature in (0.0, 1.0):
        sampling = Sampling(seed=1, min_tokens=5, temperature=temperature)
        assert 4 == _chooser(sampling, grammar=_Allows([4, _END])).draw(row).token


@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_a_grammar_rules_before_the_truncation(temperature: float) -> None:
    """Top-k and top-p choose among what it allows, be that the unlikeliest of all."""
    row = _row([9.0 - token for token in range(_SIZE)])
    chooser = _chooser(Sampling(seed=1, top_k=1, top_p=0.1, temperature=temperature), grammar=_Allows([8, 10]))
    assert 8 == chooser.draw(row).token


def test_a_forced_token_has_probability_one_and_its_own_logprob() -> None:
    """No bias and no temperature speaks against it; what the model thinks of it is told as it is."""
    row = _row([0.0] * _SIZE)
    drawn = _chooser(Sampling(seed=1, logit_bias=((7, -100.0),)), grammar=_Allows([7], forces=(7, 8))).draw(row)
    assert (7, 1.0, 0.0) == (drawn.token, drawn.probability(7), drawn.probability(8))
    assert math.isclose(-math.log(_SIZE), drawn.logprobs(0).logprob, rel_tol=1e-6)


def test_a_grammar_waits_until_the_thought_is_over() -> None:
    """It neither rules nor hears what is thought; the token that ends the thought belongs to the thought."""
    row = _row([9.0] + [0.0] * (_SIZE - 1))
    grammar = _Allows([5], forces=(5,))
    chooser = _chooser(Sampling(seed=1, temperature=0), grammar=grammar, budget=_Thinks(2))
    for expected in (0, 0, 5):
        assert ((5,) if expected else ()) == chooser.forced()
        assert expected == chooser.draw(row).token
        chooser.advance(expected)
    assert [5] == grammar.fed


def test_a_budget_forces_before_a_grammar() -> None:
    """The end of a thought comes whatever the answer must look like."""
    chooser = _chooser(Sampling(seed=1), grammar=_Allows([5], forces=(5,)), budget=_Thinks(9, forces=(3, 4)))
    assert (3, 4) == chooser.forced()
    assert 3 == chooser.draw(_row([0.0] * _SIZE)).token


def test_a_swapped_token_leaves_its_probability_to_the_other() -> None:
    """The distribution stays one: what is drawn for the first is emitted as the second."""
    values = [2.0, 1.0] + [0.0] * (_SIZE - 2)
    plain = _chooser(Sampling(seed=1)).draw(_row(values))
    seen = set()
    for seed in range(40):
        drawn = _chooser(Sampling(seed=seed), budget=_Thinks(9, swapped=(0, 1))).draw(_row(values))
        assert 0.0 == drawn.probability(0)
        assert math.isclose(plain.probability(0) + plain.probability(1), drawn.probability(1), rel_tol=1e-6)
        assert plain.probability(2) == drawn.probability(2)
        seen.add(drawn.token)
    assert 0 not in seen
    assert 1 in seen


def test_top_p_over_a_flat_row_looks_as_far_as_it_must() -> None:
    """Ninety in a hundred of 50,000 equal tokens, the first of them."""
    chooser, drawn = _chooser(Sampling(seed=1, top_p=0.9)), set()
    for _ in range(100):
        drawn.add(token := chooser.draw(np.zeros(50_000, np.float32)).token)
        chooser.advance(token)
    assert 40_000 < max(drawn) <= 45_000
