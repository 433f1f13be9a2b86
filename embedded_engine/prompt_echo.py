"""Tells a prompt back while it is read, with what the model thought of each of its tokens.

A row of logits says what the model expects after its token, so the entries of a part of the prompt reach one token
further than the part, and the first token has none. Nothing is kept from step to step but a half character: a prompt of
any length needs the memory of one step.
"""

from collections.abc import Callable, Iterator

from embedded_engine.characters import Characters
from embedded_engine.intake import Prepared
from embedded_engine.kernels.port import Logits
from embedded_engine.likelihoods import TokenLogprob
from embedded_engine.messages import Echo
from embedded_engine.sampling.logprobs import RowLogprob, row_logprob
from embedded_engine.vocabulary import Vocabulary

__all__ = ["PromptEcho"]


class PromptEcho:
    """One request's."""

    def __init__(self, request: Prepared, vocabulary: Vocabulary) -> None:
        self._request = request
        self._vocabulary = vocabulary
        self._characters = Characters()
        self._told_tokens = 0

    def read(self, end: int, logits: Callable[[int], Logits]) -> Iterator[Echo]:
        """The prompt's tokens before `end` were decoded.

        Args:
            end: At most the prompt's length. Reading again what was told before tells nothing.
            logits: The row of the token at a position, from the last call's end on; asked only where
                `Prepared.scores_prompt`.

        Raises:
            BadNumerics: The logits hold NaN or plus infinity, or rule every token out.
        """
        prompt, count = self._request.prompt, self._request.logprobs
        told = range(self._told_tokens, min(end + 1, len(prompt)))
        self._told_tokens = max(told.start, told.stop)
        entries: list[TokenLogprob] = []
        if count is not None:
            rows = [
                row_logprob(logits(position - 1), prompt[position], count)
                if position
                else RowLogprob(prompt[0], None, ())
                for position in told
            ]
            entries = [self._vocabulary.spell(row) for row in rows]
        text = self._characters.feed(b"".join(self._vocabulary.pieces[prompt[position]] for position in told))
        if self._request.told_space and told.start == 0:
            text = text.removeprefix(" ")
        if text or entries:
            yield Echo(id=self._request.id, text=text, logprobs=tuple(entries))
