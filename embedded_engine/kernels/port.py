"""What the engine asks of a library that computes a model, and nothing more.

An implementation owns one model and some *lanes*: memories of key-value cells, each shared by the sequences that live
in it. A row attends to its own sequence, and yet costs time for every cell of its lane, since the libraries compute the
others too and mask them; a lane costs a pass over the weights each time it has rows. So a few short sequences are best
kept in one lane, and long ones apart.

It is used from one thread, `tokenize`, `piece`, `is_end` and `is_control` excepted, which only read the model.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

__all__ = ["ContextShape", "DecodeError", "Kernels", "Logits", "ModelFacts", "Row", "SavedCells"]

Logits = NDArray[np.float32]
"""One row of unnormalised log-probabilities, shape (vocabulary_tokens,)."""

SavedCells = NDArray[np.uint8]
"""A sequence's cells, in the library's own format."""


class DecodeError(Exception):
    """The library could not decode a batch; what the batch's sequences hold after it is unknown."""


class Row(NamedTuple):
    """One token to decode.

    It is appended to `sequence` at `position`, and attends to all that stands before it there.
    """

    sequence: int
    token: int
    position: int
    wants_logits: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelFacts:
    """What the model file says of itself.

    Attributes:
        description: The library's own words.
        quantisation: For example "Q8_0"; "unknown" where the file does not say.
        context_tokens: The length it was trained for.
        vocabulary_tokens: Size of the vocabulary.
        chat_template: The file's Jinja template; None where there is none.
        bos_token: Begins a text; None where the model has none.
        eos_token: Ends a text; None likewise.
        adds_bos: Whether the model expects `bos_token` before every prompt.
        forgets_tails: Whether the end of a sequence can be removed. A recurrent model, or one that is partly so, holds
            a state in the place of cells, and can only forget a whole sequence.
    """

    description: str
    quantisation: str
    context_tokens: int
    vocabulary_tokens: int
    chat_template: str | None
    bos_token: int | None
    eos_token: int | None
    adds_bos: bool
    forgets_tails: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class ContextShape:
    """How large the lanes are made.

    Attributes:
        lanes: How many.
        kv_tokens: Cells of each lane, shared by its sequences.
        sequences: Of each lane; number q lives in lane q // `sequences`.
        threads: Threads that compute.
        batch_rows: At most so many rows in one `decode`.
        micro_batch_rows: The library computes at most so many of them at once.
    """

    lanes: int = 1
    kv_tokens: int
    sequences: int
    threads: int
    batch_rows: int
    micro_batch_rows: int


class Kernels(Protocol):
    """One loaded model."""

    @property
    def name(self) -> str:
        """What `EngineSettings.kernels` calls this implementation."""

    @property
    def facts(self) -> ModelFacts:
        """What the file says of itself."""

    def open_context(self, shape: ContextShape) -> None:
        """Make the lanes, or make them anew: all sequences are empty afterwards.

        Raises:
            LoadFailed: There is not enough memory, or the library refuses.
        """

    def close(self) -> None:
        """Free the lanes and the model."""

    def tokenize(self, text: str, *, add_special: bool, parse_special: bool) -> list[int]:
        """The tokens of `text`.

        Args:
            text: Any text; lone surrogates are not text.
            add_special: Add what the model expects around a prompt, such as the BOS token.
            parse_special: Read control-token text as control tokens; else it is text like any other.
        """

    def piece(self, token: int, *, special: bool = False) -> bytes:
        """The bytes that `token` adds to a text; for a control token nothing, or with `special` its name."""

    def is_end(self, token: int) -> bool:
        """Whether the model says with `token` that its turn is over."""

    def is_control(self, token: int) -> bool:
        """Whether `token` steers the model and is no text; the unknown token counts as one."""

    def decode(self, rows: Sequence[Row]) -> None:
        """Compute all rows, in one call of the library for each lane that has some.

        Args:
            rows: At most `batch_rows`; those of one sequence in the order of their positions, without gaps.

        Raises:
            DecodeError: The library failed.
        """

    def logits(self, row: int) -> Logits:
        """The logits of row number `row` of the last `decode`, which must have wanted them.

        A view into the library's memory: valid until the next `decode`, never to be written to.
        """

    def remove(self, sequence: int, start: int = 0) -> None:
        """Forget a sequence's cells from position `start` on; those that another sequence shares stay for it."""

    def share(self, source: int, target: int, tokens: int) -> None:
        """Let the empty sequence `target` share the first `tokens` cells of `source`, which lives in the same lane.

        No cell is copied or used up.
        """

    def save(self, sequence: int) -> SavedCells:
        """All cells of a sequence, for `restore` of the same kernels with the same model and shape of cells."""

    def restore(self, sequence: int, saved: SavedCells) -> bool:
        """Fill the empty `sequence`, of any lane, with what `save` gave; False, and empty, where there is no room."""

    def compact(self, lane: int) -> None:
        """Close the holes between a lane's used cells, where the library pays for them in time or in errors.

        `decode` and `restore` do it by themselves: this is for whoever measures how long these take.
        """

    def hidden_states(self, tokens: Sequence[int], start: int) -> NDArray[np.float32]:
        """What the last layer says at each token of a text that is read apart from all sequences.

        Args:
            tokens: At most `batch_rows`, at the positions from `start` on, which are under `kv_tokens`.
            start: 0 begins a new text.

        Returns:
            Shape (len(tokens), width of the model), after the model's last norm.

        Raises:
            DecodeError: The library failed.
        """
