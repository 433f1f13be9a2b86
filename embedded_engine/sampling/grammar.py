"""One choice's place in a grammar: which tokens may come next.

llguidance computes a bit for each token of the vocabulary, in some 50 microseconds, when a row is drawn and not before.
Where the grammar leaves one text only (the name of a required key), it also says which tokens make that text up as the
model's tokenizer would: those are forced, and a step can compute them all at once.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from embedded_engine.errors import InvalidRequest
from embedded_engine.sampling.constraints import Tokens

__all__ = ["MatcherGrammar"]

_WORD_BITS = 32


class MatcherGrammar:
    """See `constraints.Grammar`.

    Args:
        matcher: An `llguidance.LLMatcher` of its own, at the beginning.
        vocabulary_tokens: How many tokens the model has.
        ends: Its end-of-generation tokens.
        param: The field that asked for the grammar.
    """

    def __init__(self, matcher: Any, *, vocabulary_tokens: int, ends: frozenset[int], param: str) -> None:
        self._matcher = matcher
        self._vocabulary_tokens = vocabulary_tokens
        self._ends = ends
        self._param = param
        self._bits: NDArray[np.int32] | None = None
        self._forced: tuple[int, ...] | None = None

    def permits(self, token: int) -> bool:
        """See `Grammar.permits`."""
        return bool(self._mask()[token // _WORD_BITS] >> (token % _WORD_BITS) & 1)

    def allowed(self) -> Tokens:
        """See `Grammar.allowed`.

        Raises:
            InvalidRequest: The grammar has become too much for llguidance's bounds.
        """
        bits = np.unpackbits(self._mask().view(np.uint8), count=self._vocabulary_tokens, bitorder="little")
        tokens = np.flatnonzero(bits.view(np.bool_))
        if not len(tokens):
            raise self._failed("no token can come next")
        return tokens

    def forced(self) -> tuple[int, ...]:
        """See `Grammar.forced`; the same tokens one by one as all at once."""
        if self._forced is None:
            tokens = self._matcher.compute_ff_tokens()
            ended = next((place for place, token in enumerate(tokens) if token in self._ends), len(tokens))
            self._forced = tuple(tokens[:ended])
        return self._forced

    def advance(self, token: int) -> None:
        """See `Grammar.advance`; an end token does not move it.

        Raises:
            InvalidRequest: The grammar has become too much for llguidance's bounds.
        """
        if token in self._ends:
            return
        forced = self.forced()
        if not self._matcher.consume_token(token):
            raise self._failed(self._matcher.get_error())
        self._bits = None
        self._forced = forced[1:] or None if forced[:1] == (token,) else None

    def _mask(self) -> NDArray[np.int32]:
        if self._bits is None:
            bits = np.zeros(-(-self._vocabulary_tokens // _WORD_BITS), np.int32)
            self._matcher.unsafe_compute_mask_ptr(bits.ctypes.data, bits.nbytes)
            if self._matcher.is_error():
                raise self._failed(self._matcher.get_error())
            self._bits = bits
        return self._bits

    def _failed(self, reason: str) -> InvalidRequest:
        first_line = reason.strip().partition("\n")[0]
        return InvalidRequest(f"{self._param} cannot be kept any further: {first_line}", param=self._param)
