"""Remembers what was computed, so that a prompt that begins like an earlier one is not read again.

Cells of a running sequence are shared with whoever begins like it and comes into the same lane. When a sequence is
over its cells are saved to the machine's memory: idle cells would cost every running row time. Restoring a thousand
tokens takes milliseconds, reading them seconds.

A scope never finds what another one computed: what is in a cache can be told from how long an answer takes.
"""

from collections.abc import Sequence
from typing import NamedTuple

from embedded_engine.memory import CellMemory
from embedded_engine.prefix_tree import BLOCK_TOKENS, PrefixTree, Stored
from embedded_engine.saved_states import SavedStates
from embedded_engine.settings import EngineSettings

__all__ = ["Prefix", "PrefixCache", "open_cache"]

_LEAST_NEW_SHARE = 0.125
"""A sequence is saved when so much of it is not saved yet; the rest would be read again soon enough."""


class Prefix(NamedTuple):
    """What a sequence of tokens begins with: so many of the tokens of `stored`."""

    stored: Stored
    tokens: int


class PrefixCache:
    """All scopes of one model."""

    def __init__(self, memory: CellMemory, saved: SavedStates[Stored]) -> None:
        self._memory = memory
        self._saved = saved
        self._trees: dict[str, PrefixTree] = {}
        self._scope_of: dict[Stored, str] = {}
        self._alive: dict[int, Stored] = {}
        self._token_bytes = 0.0

    @property
    def tokens(self) -> int:
        """Tokens that are saved; those that several sequences begin with count for each."""
        return sum(len(stored.tokens) for stored in self._scope_of if stored.sequence is None)

    def find(self, scope: str, tokens: Sequence[int]) -> Prefix | None:
        """The longest beginning of `tokens` that is known, if it is worth the trouble."""
        tree = self._trees.get(scope)
        stored, common = tree.find(tokens) if tree is not None else (None, 0)
        return Prefix(stored, common) if stored is not None and common >= BLOCK_TOKENS else None

    def load(self, prefix: Prefix, sequence: int) -> int:
        """Fill the empty `sequence` with a prefix that was just found; how many tokens it has now."""
        stored = prefix.stored
        if stored.sequence is None:
            cells = self._saved.get(stored)
            if cells is None:
                self._forget(stored)
                return 0
            length = len(stored.tokens)
        elif self._memory.lane_of(stored.sequence) == self._memory.lane_of(sequence):
            self._memory.share(stored.sequence, sequence, prefix.tokens)
            return prefix.tokens
        else:
            cells, length = self._memory.save(stored.sequence), self._memory.length(stored.sequence)
        loaded = self._memory.restore(sequence, cells, length=length, keep=prefix.tokens)
        return prefix.tokens if loaded else 0

    def hold(self, scope: str, tokens: Sequence[int], sequence: int) -> None:
        """A running sequence has these tokens, and keeps them until it is released."""
        stored = Stored(tuple(tokens), sequence)
        self._alive[sequence] = stored
        self._add(scope, stored)

    def moved(self, sequence: int, target: int) -> None:
        """What `sequence` held, `target` holds now."""
        if (stored := self._alive.pop(sequence, None)) is not None:
            stored.sequence = target
            self._alive[target] = stored

    def let_go(self, sequence: int) -> None:
        """A sequence is about to be released, or cut below what it holds."""
        if (stored := self._alive.pop(sequence, None)) is not None:
            self._forget(stored)

    def keep(self, scope: str, tokens: Sequence[int], sequence: int) -> None:
        """Save a sequence that has exactly these tokens, and is about to be released, unless that is not worth it."""
        self.let_go(sequence)
        found = self.find(scope, tokens)
        known = found.tokens if found is not None and found.stored.sequence is None else 0
        if len(tokens) - known < max(BLOCK_TOKENS, _LEAST_NEW_SHARE * len(tokens)):
            return
        if len(tokens) * self._token_bytes > self._saved.most_bytes:
            return
        cells = self._memory.save(sequence)
        self._token_bytes = cells.nbytes / len(tokens)
        stored = Stored(tuple(tokens))
        self._add(scope, stored)
        for covered in self._trees[scope].covered_by(stored):
            self._forget(covered)
        for gone in self._saved.put(stored, cells):
            self._forget(gone)

    def close(self) -> None:
        """Forget all."""
        self._saved.close()
        self._trees.clear()

    def _add(self, scope: str, stored: Stored) -> None:
        self._trees.setdefault(scope, PrefixTree()).add(stored)
        self._scope_of[stored] = scope

    def _forget(self, stored: Stored) -> None:
        self._saved.drop(stored)
        scope = self._scope_of.pop(stored)
        tree = self._trees[scope]
        tree.remove(stored)
        if not len(tree):
            del self._trees[scope]


def open_cache(memory: CellMemory, settings: EngineSettings) -> PrefixCache:
    """An empty cache, as large as the settings say."""
    saved = SavedStates[Stored](
        memory_bytes=settings.prefix_cache_bytes,
        file_bytes=settings.prefix_spill_bytes,
        directory=settings.prefix_spill_directory or None,
    )
    return PrefixCache(memory, saved)
