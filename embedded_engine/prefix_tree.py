"""Finds what a prompt has in common with sequences that were computed before.

A radix tree over blocks of tokens: an edge is a block, and every node knows the sequences that pass through it. The
last, partial block is compared token by token.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

__all__ = ["BLOCK_TOKENS", "PrefixTree", "Stored"]

BLOCK_TOKENS = 16

_MOST_CANDIDATES = 16
"""So many sequences are compared token by token; the last that were stored come first."""


@dataclass(slots=True, eq=False)
class Stored:
    """A sequence in the tree.

    Attributes:
        tokens: Its tokens.
        sequence: Where the cells are now; None when they are saved.
    """

    tokens: tuple[int, ...]
    sequence: int | None = None


@dataclass(slots=True, eq=False)
class _Node:
    children: dict[tuple[int, ...], "_Node"] = field(default_factory=dict)
    stored: dict[Stored, None] = field(default_factory=dict)


class PrefixTree:
    """One scope's sequences."""

    def __init__(self) -> None:
        self._root = _Node()

    def __len__(self) -> int:
        return len(self._root.stored)

    def add(self, stored: Stored) -> None:
        """Put a sequence into the tree."""
        node = self._root
        node.stored[stored] = None
        for block in _blocks(stored.tokens):
            node = node.children.setdefault(block, _Node())
            node.stored[stored] = None

    def remove(self, stored: Stored) -> None:
        """Take it out, and with it the nodes that nobody else passes through."""
        node = self._root
        del node.stored[stored]
        for block in _blocks(stored.tokens):
            child = node.children[block]
            del child.stored[stored]
            if not child.stored:
                del node.children[block]
                return
            node = child

    def find(self, tokens: Sequence[int]) -> tuple[Stored | None, int]:
        """The sequence that has most of the beginning of `tokens`, and how many tokens that is.

        Of equals one that is alive now, else the last that was stored.
        """
        node, depth = self._root, 0
        for block in _blocks(tokens):
            child = node.children.get(block)
            if child is None:
                break
            node, depth = child, depth + BLOCK_TOKENS
        best: tuple[int, bool] = (0, False)
        found = None
        for stored in list(reversed(node.stored))[:_MOST_CANDIDATES]:
            rank = (_common(stored.tokens, tokens, depth), stored.sequence is not None)
            if rank > best:
                best, found = rank, stored
        return found, best[0]

    def covered_by(self, stored: Stored) -> list[Stored]:
        """The saved sequences that are a beginning of `stored`, itself excluded."""
        node, covered = self._root, []
        passing = set(node.stored)
        for block in _blocks(stored.tokens):
            node = node.children[block]
            covered += [one for one in passing if one not in node.stored]
            passing = set(node.stored)
        candidates = [*covered, *passing]
        size = len(stored.tokens)
        return [
            one
            for one in candidates
            if one is not stored
            and one.sequence is None
            and len(one.tokens) <= size
            and one.tokens == stored.tokens[: len(one.tokens)]
        ]


def _blocks(tokens: Sequence[int]) -> list[tuple[int, ...]]:
    whole = len(tokens) - len(tokens) % BLOCK_TOKENS
    return [tuple(tokens[start : start + BLOCK_TOKENS]) for start in range(0, whole, BLOCK_TOKENS)]


def _common(first: Sequence[int], second: Sequence[int], start: int) -> int:
    """How many tokens two sequences begin with alike, `start` of which are known to be."""
    length = start
    most = min(len(first), len(second))
    while length < most and first[length] == second[length]:
        length += 1
    return length
