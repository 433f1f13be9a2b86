"""How long work takes at the load that there is, learned from finished requests."""

from gateway.forecast import Forecast
from gateway.types import Attempt, LedgerEntry, Status

_READ_SHARE = 20
"""So many tokens are read in the time in which one is written."""

_FADING = 0.98
"""Of the weight of all answers that were seen, at every new one: about the last fifty count."""

_FIRST_GUESS_S = 0.02
_GUESS_TOKENS = 100.0
"""Seconds a token, before the first answer has shown how long they take; and the tokens that this guess weighs."""

_ROUND_TRIP_TOKENS = 256
_FIRST_READ_S = 0.001
"""What the way there and back takes, as tokens to read; and how long one does, before a first token was seen."""


class Pace:
    """Seconds a token: all seconds of the last requests over all of their tokens, as short ones are all overhead."""

    __slots__ = ("_first_s", "_first_tokens", "_seconds", "_tokens")

    def __init__(self) -> None:
        self._tokens = _GUESS_TOKENS
        self._seconds = _GUESS_TOKENS * _FIRST_GUESS_S
        self._first_tokens = float(_ROUND_TRIP_TOKENS)
        self._first_s = _ROUND_TRIP_TOKENS * _FIRST_READ_S

    @property
    def seconds_per_token(self) -> float:
        """Of a token that is written; one that is read counts a twentieth of it."""
        return self._seconds / self._tokens

    def read_s(self, prompt_tokens: int) -> float:
        """From the dispatch to the first token."""
        return (prompt_tokens + _ROUND_TRIP_TOKENS) * self._first_s / self._first_tokens

    def learn(self, entry: LedgerEntry, used_tokens: int) -> None:
        """A request is over; only what went well says how long it takes."""
        attempt = entry.serving
        if entry.outcome.status is not Status.OK or not used_tokens or attempt is None:
            return
        self._tokens = self._tokens * _FADING + used_tokens
        self._seconds = self._seconds * _FADING + entry.ended_s - attempt.started_s
        if attempt.first_token_s is not None and attempt.usage is not None:
            self._first_tokens = self._first_tokens * _FADING + attempt.usage.prompt_tokens + _ROUND_TRIP_TOKENS
            self._first_s = self._first_s * _FADING + attempt.first_token_s - attempt.started_s


def expected_tokens(forecast: Forecast) -> int:
    """What a request is expected to take, in tokens that are written."""
    return forecast.prompt_tokens // _READ_SHARE + forecast.output_tokens_p50


def used_tokens(attempts: tuple[Attempt, ...]) -> int:
    """What it took, over all its attempts."""
    return sum(one.usage.prompt_tokens // _READ_SHARE + one.usage.output_tokens for one in attempts if one.usage)
