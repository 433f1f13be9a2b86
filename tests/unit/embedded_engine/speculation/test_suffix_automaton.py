from hypothesis import given
from hypothesis import strategies as st

from embedded_engine.speculation.suffix_automaton import SuffixAutomaton


def _earlier_ends(text: list[int], length: int) -> list[int]:
    return [end for end in range(length, len(text)) if text[end - length : end] == text[-length:]]


@given(st.lists(st.integers(0, 2), min_size=1, max_size=24))
def test_the_match_is_the_longest_end_that_occurred_before(text: list[int]) -> None:
    """With its last place and its count, after every token; compared with looking everywhere."""
    automaton = SuffixAutomaton()
    for size, token in enumerate(text, start=1):
        automaton.append(token)
        so_far = text[:size]
        length = next((n for n in range(size - 1, 0, -1) if _earlier_ends(so_far, n)), 0)
        assert length == automaton.match.length
        if length:
            ends = _earlier_ends(so_far, length)
            assert (max(ends), len(ends)) == (automaton.match.end, automaton.match.times)


def test_shares_are_of_what_followed() -> None:
    """After "1", twice 2 and once 3."""
    automaton = SuffixAutomaton()
    for token in (1, 2, 9, 1, 2, 8, 1, 3, 7, 1):
        automaton.append(token)
    state = automaton.match.state
    assert 3 == automaton.match.times
    for token, times in ((2, 2), (3, 1)):
        share, after = automaton.share(state, token)
        assert times / 4 == share  # the fourth 1 has been counted by now, and nothing has followed it yet
        assert after > 0
    assert (0.0, 0) == automaton.share(state, 5)


def test_a_text_of_one_token_costs_no_more_than_another() -> None:
    """The states of n tokens are at most 2n, and a run of one token has n."""
    automaton = SuffixAutomaton()
    for _ in range(500):
        automaton.append(7)
    assert 499 == automaton.match.length
    assert len(automaton._link) <= 1000
