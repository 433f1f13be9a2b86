"""Drafts from a second, smaller model of the same vocabulary: worth its rows where the target is large.

It samples each drafted token from its own q, behind the request's own sampling pipeline, and block verification keeps
the target's distribution. The tokens are then those of another draw than without it: with a draft model the same seed
gives the same answer again, but not the one that it gives without. Greedy answers are the same.

It never stands in the way: a prompt that does not fit its context, no free sequence, or a failure of its kernels means
that a choice is decoded without it from there on, one count more and one line in the log.
"""

import logging
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from embedded_engine.kernels.port import DecodeError, Kernels, Logits, Row
from embedded_engine.sampling.chooser import Chooser, Drawn
from embedded_engine.speculation.block_verification import verify_block
from embedded_engine.speculation.costs import StepCosts
from embedded_engine.vocabulary import Vocabulary

__all__ = ["DRAFT_MODEL", "NO_BLOCK", "Block", "BlockDrafter", "DraftModel", "same_vocabulary", "walk_block"]

DRAFT_MODEL = "model"

_FIRST_ACCEPTANCE, _ACCEPTANCE_RATE = 0.7, 0.1

_DRAFTING, _ACCEPTING, _CHOOSING = 1, 2, 3
"""What a chooser's noise is for: three independent numbers for each place."""

_logger = logging.getLogger(__name__)


class Block(NamedTuple):
    """Drafted tokens, and the distribution that each was drawn from, shape (vocabulary,)."""

    tokens: tuple[int, ...]
    laws: tuple[NDArray[np.float64], ...]


NO_BLOCK = Block((), ())


def same_vocabulary(one: Vocabulary, other: Vocabulary) -> bool:
    """Whether every number means the same token to both."""
    return one.pieces == other.pieces and one.control == other.control and one.ends == other.ends


class DraftModel:
    """The second model.

    Args:
        kernels: Loaded, with an open context.
        sequences: So many choices are followed at once.
        context_tokens: Each of them up to so many tokens.
        batch_rows: Rows of one decode.
        row_s: Seconds of one row of it.

    Attributes:
        failures: How often a choice had to do without it.
    """

    def __init__(self, kernels: Kernels, *, sequences: int, context_tokens: int, batch_rows: int, row_s: float) -> None:
        self.failures = 0
        self.kernels = kernels
        self.context_tokens = context_tokens
        self.batch_rows = batch_rows
        self.row_s = row_s
        self._free = list(range(sequences))

    def follow(self, prompt_tokens: int) -> "BlockDrafter | None":
        """Begin to follow a choice; None where it cannot be followed."""
        if prompt_tokens >= self.context_tokens:
            self.report_failure(f"a prompt of {prompt_tokens} tokens exceeds its context of {self.context_tokens}")
            return None
        if not self._free:
            self.report_failure("all its sequences are taken")
            return None
        return BlockDrafter(self, self._free.pop())

    def release(self, sequence: int) -> None:
        """Nobody follows with this sequence any more."""
        self.kernels.remove(sequence)
        self._free.append(sequence)

    def report_failure(self, reason: str) -> None:
        """A choice is decoded without it from here on."""
        self.failures += 1
        _logger.warning("a choice is decoded without the draft model: %s", reason)


class BlockDrafter:
    """Follows one choice, whose text it has read up to its last token but for what was drafted and rejected."""

    def __init__(self, model: DraftModel, sequence: int) -> None:
        self._model = model
        self._sequence = sequence
        self._read: list[int] = []
        self._over = False
        self._acceptance = _FIRST_ACCEPTANCE

    def length(self, costs: StepCosts, *, row_s: float, most: int) -> int:
        """How many tokens to draft: k* = argmax (1 + sum_{j<=k} a^j) / (C(1 + k) + k D).

        Args:
            costs: C.
            row_s: What each row of the target costs beyond C.
            most: At most so many.
        """
        best, best_rate, tokens = 0, 1 / (costs.of(1) + row_s), 1.0
        for k in range(1, most + 1):
            tokens += self._acceptance**k
            rate = tokens / (costs.of(1 + k) + (1 + k) * row_s + k * self._model.row_s)
            if rate > best_rate:
                best, best_rate = k, rate
        return best

    def learn(self, drafted: int, accepted: int) -> None:
        """So many of the drafted tokens stood."""
        for right in [1.0] * accepted + [0.0] * (accepted < drafted):
            self._acceptance += _ACCEPTANCE_RATE * (right - self._acceptance)

    def draft(self, text: Sequence[int], chooser: Chooser, count: int) -> Block:
        """Up to `count` tokens that may follow `text`; none once it has failed.

        Args:
            text: The prompt and what was emitted.
            chooser: The choice's, at the end of `text`; it is left as it is.
            count: How many, fixed before any of them is drawn.
        """
        count = min(count, self._model.context_tokens - len(text) - 1)
        if self._over or count < 1:
            return NO_BLOCK
        ahead, tokens, laws = chooser.fork(), list[int](), list[NDArray[np.float64]]()
        try:
            logits = self._catch_up(text)
            for i in range(count):
                law = ahead.law(logits)
                token = _invert(law, chooser.noise(_DRAFTING, i))
                ahead.advance(token)
                tokens.append(token)
                laws.append(law)
                if i + 1 < count:
                    logits = self._append([token])
        except DecodeError as error:
            self._give_up(error)
            return NO_BLOCK
        return Block(tuple(tokens), tuple(laws))

    def close(self) -> None:
        """The choice is over."""
        if not self._over:
            self._over = True
            self._model.release(self._sequence)

    def _catch_up(self, text: Sequence[int]) -> Logits:
        """Read what is new of `text`, and forget what is not of it."""
        same = 0
        for ours, theirs in zip(self._read, text[:-1], strict=False):
            if ours != theirs:
                break
            same += 1
        if same < len(self._read):
            self._model.kernels.remove(self._sequence, same)
            del self._read[same:]
        return self._append(text[same:])

    def _append(self, tokens: Sequence[int]) -> Logits:
        kernels, rows = self._model.kernels, self._model.batch_rows
        for start in range(0, len(tokens), rows):
            part = tokens[start : start + rows]
            last = start + len(part) == len(tokens)
            batch = [
                Row(self._sequence, token, len(self._read) + i, wants_logits=last and i == len(part) - 1)
                for i, token in enumerate(part)
            ]
            kernels.decode(batch)
            self._read += part
        return kernels.logits(len(part) - 1)

    def _give_up(self, error: DecodeError) -> None:
        self._model.report_failure(str(error))
        self.close()


def walk_block(chooser: Chooser, logits: Sequence[Logits], block: Block) -> Iterator[Drawn]:
    """What a step emits whose draft was sampled: the accepted tokens, and one more.

    The target's distributions are looked at with the drafted tokens counted, by a fork of the chooser; the chooser
    itself is advanced by each token before it is yielded. Whoever stops asking has seen nothing too much.

    Args:
        chooser: The choice's.
        logits: The target's rows: row 0 is that of the choice's own next token, row j that of draft j.
        block: What was drafted; `chooser` must be as it was when it was.
    """
    ahead, targets = chooser.fork(), []
    for seen, token in zip(logits, (*block.tokens, None), strict=True):
        targets.append(ahead.law(seen))
        if token is not None:
            ahead.advance(token)
    verdict = verify_block(
        block.tokens,
        targets,
        block.laws,
        accept=[chooser.noise(_ACCEPTING, i) for i in range(len(block.tokens))],
        choose=chooser.noise(_CHOOSING),
    )
    for row, token in enumerate((*block.tokens[: verdict.accepted], verdict.token)):
        chooser.advance(token)
        yield Drawn(token, None, logits[row])


def _invert(law: NDArray[np.float64], u: float) -> int:
    cumulative = np.cumsum(law)
    return min(int(np.searchsorted(cumulative, u * cumulative[-1], side="right")), int(np.flatnonzero(law)[-1]))
