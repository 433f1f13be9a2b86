"""Log-probabilities as OpenAI's two formats tell them."""

from collections.abc import Sequence
from typing import Any

from embedded_engine.likelihoods import Likelihood, TokenLogprob


def chat_logprobs(entries: Sequence[TokenLogprob]) -> dict[str, Any]:
    """A chat's ``logprobs``: of each token its text, its bytes, and the likeliest beside it."""
    content = [{**_likelihood(it.chosen), "top_logprobs": [_likelihood(top) for top in it.top]} for it in entries]
    return {"content": content, "refusal": None}


def completion_logprobs(entries: Sequence[TokenLogprob], offset: int) -> tuple[dict[str, Any], int]:
    """A completion's ``logprobs``, and where the next token will stand.

    ``offset`` is where the first one stands, in characters of the whole text.
    """
    offsets: list[int] = []
    for entry in entries:
        offsets.append(offset)
        offset += len(entry.chosen.text) if entry.chosen.piece is not None else 0
    told = {
        "tokens": [entry.chosen.text for entry in entries],
        "token_logprobs": [entry.chosen.logprob for entry in entries],
        "top_logprobs": [_alternatives(entry) for entry in entries],
        "text_offset": offsets,
    }
    return told, offset


def _alternatives(entry: TokenLogprob) -> dict[str, float | None] | None:
    """The likeliest with the token itself among them; of a text's first token nothing is known."""
    if entry.chosen.logprob is None:
        return None
    return {likely.text: likely.logprob for likely in (*entry.top, entry.chosen)}


def _likelihood(likelihood: Likelihood) -> dict[str, Any]:
    piece = likelihood.piece
    return {
        "token": likelihood.text,
        "logprob": likelihood.logprob,
        "bytes": None if piece is None else list(piece),
    }
