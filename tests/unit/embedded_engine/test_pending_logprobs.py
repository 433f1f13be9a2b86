from embedded_engine.likelihoods import Likelihood, TokenLogprob
from embedded_engine.pending_logprobs import PendingLogprobs


def _entry(token: int) -> TokenLogprob:
    return TokenLogprob(Likelihood(token, "?", b"?", -1.0))


def _tokens(entries: tuple[TokenLogprob, ...]) -> list[int]:
    return [entry.chosen.token for entry in entries]


def test_an_entry_waits_for_its_first_character() -> None:
    """The halves of a character wait together, and text that is held back holds its tokens back."""
    pending = PendingLogprobs()
    pending.add(_entry(1), at=0)  # a character
    pending.add(_entry(2), at=1)  # half a character
    pending.add(_entry(3), at=1)  # its other half, and one more
    pending.add(_entry(4), at=3)
    assert [1] == _tokens(pending.take(1))
    assert [] == _tokens(pending.take(1))
    assert [2, 3] == _tokens(pending.take(2))
    assert [4] == _tokens(pending.take_all())
    assert [] == _tokens(pending.take_all())
