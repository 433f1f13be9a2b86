"""What is said of tokens' probabilities, in the engine's messages."""

from msgspec import Struct

__all__ = ["LOWEST_LOGPROB", "Likelihood", "TokenLogprob"]

LOWEST_LOGPROB = -9999.0
"""Stands for minus infinity, which JSON cannot say; the value that OpenAI's API uses."""


class Likelihood(Struct, frozen=True, array_like=True):
    """One token that could have come.

    Attributes:
        token: Its number.
        text: What it reads like: U+FFFD where it holds a part of a character, a control token's name.
        piece: The bytes that it adds to a text; None for a control token, which adds none.
        logprob: Its natural log-probability in the model's own distribution, at least `LOWEST_LOGPROB`; None for the
            first token of a prompt, before which there is nothing.
    """

    token: int
    text: str
    piece: bytes | None
    logprob: float | None


class TokenLogprob(Struct, frozen=True, array_like=True):
    """One token that came.

    Attributes:
        chosen: The token itself.
        top: The likeliest tokens in its place, likeliest first; it need not be among them.
    """

    chosen: Likelihood
    top: tuple[Likelihood, ...] = ()
