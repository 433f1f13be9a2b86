"""What the engine wants to know of a model's tokens, read once at load."""

import re
from itertools import pairwise

from embedded_engine.kernels.port import Kernels
from embedded_engine.likelihoods import Likelihood, TokenLogprob
from embedded_engine.sampling.logprobs import RowLogprob

__all__ = ["Vocabulary"]


class Vocabulary:
    """The tokens of one model.

    Attributes:
        pieces: By token, the bytes it adds to a text; a control token adds nothing.
        control: The texts of the control tokens, by token.
        ends: The tokens by which the model ends its turn.
        longest_piece_bytes: No token stands for more bytes than this, so that a text's length bounds its tokens from
            below.
        adds_space: Whether the tokenizer puts a space before every text.
    """

    def __init__(self, kernels: Kernels) -> None:
        tokens = range(kernels.facts.vocabulary_tokens)
        self.control: dict[int | None, str] = {
            token: kernels.piece(token, special=True).decode("utf-8", "replace")
            for token in tokens
            if kernels.is_control(token)
        }
        self.pieces = [b"" if token in self.control else kernels.piece(token) for token in tokens]
        self.ends = frozenset(token for token in tokens if kernels.is_end(token))
        self.longest_piece_bytes = max(map(len, self.pieces))
        self._tokenize = kernels.tokenize
        probe = kernels.tokenize("a", add_special=False, parse_special=False)
        self.adds_space = self.text(probe) == b" a"
        texts = sorted(filter(None, self.control.values()), key=len, reverse=True)
        # A lookahead finds control texts that overlap; without any, the pattern finds nothing.
        self._control_text = re.compile(f"(?=({'|'.join(map(re.escape, texts))}))" if texts else r"(?!)")

    def spell(self, row: RowLogprob) -> TokenLogprob:
        """A row's log-probabilities with the tokens' texts."""
        chosen = self._likelihood(row.token, row.logprob)
        return TokenLogprob(chosen, tuple(self._likelihood(token, logprob) for token, logprob in row.top))

    def text(self, tokens: list[int]) -> bytes:
        """The bytes that `tokens` stand for."""
        return b"".join(self.pieces[token] for token in tokens)

    def tokenize_inside(self, text: str, *, parse_special: bool = False) -> list[int]:
        """The tokens of a text that others stand before: without the space that some tokenizers put before every one.

        Args:
            text: Any text.
            parse_special: Read control-token text as control tokens; else it is text like any other.
        """
        if not self.adds_space or not text:
            return self._tokenize(text, add_special=False, parse_special=parse_special)
        lead = self._tokenize("\n", add_special=False, parse_special=False)
        return self._tokenize("\n" + text, add_special=False, parse_special=parse_special)[len(lead) :]

    def break_control_text(self, text: str, mark: str) -> str:
        """`text` with `mark` inside every passage that reads like a control token, after its first character."""
        starts = [match.start() + 1 for match in self._control_text.finditer(text)]
        cuts = [0, *starts, len(text)]
        return mark.join(text[start:end] for start, end in pairwise(cuts))

    def _likelihood(self, token: int, logprob: float | None) -> Likelihood:
        if token in self.control:
            return Likelihood(token, self.control[token], None, logprob)
        piece = self.pieces[token]
        return Likelihood(token, piece.decode("utf-8", "replace"), piece, logprob)
