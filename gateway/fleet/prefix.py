"""Where a prompt is warm: which backend has been sent which chunks of it, as far as its cache can hold them still.

Each backend's cache is pictured as its own list of chunks, the least recently sent first, of a length that is learned
from what the engine says it had (``cached_tokens``). One table over all of them maps a chunk to a bit mask of backends,
so that one walk over a prompt tells how much of it each of them holds.
"""

from collections import OrderedDict
from collections.abc import Sequence

from msgspec import Struct

FIRST_CAPACITY_BLOCKS = 8192
"""What a backend's cache is taken to hold, in chunks of about 512 tokens, before it has said anything."""

MOST_BLOCKS = 150_000
"""Chunks that are remembered over all backends: about 200 bytes of memory each."""

_LEAST_CAPACITY_BLOCKS = 64
_MOST_CAPACITY_BLOCKS = 65_536
_SHRINK, _GROW = 0.3, 0.03
"""What one answer that missed, or found more than, all of its prompt changes of the way to where the capacity must
lie, and of the capacity itself. An unjustified hope costs a reading, an unjustified fear a choice: fear is quicker."""

_NEARLY_FULL = 0.9
_RESTARTED_AFTER = 3
"""So many prompts in a row of which an engine has nothing, though it had read them: it has begun anew."""


class Mark(Struct, frozen=True, gc=False):
    """When a chunk was last sent or read, how many chunks had been added by then, and whether it was read."""

    at_s: float
    added_blocks: int
    read: bool


class BackendCache:
    """The picture of one backend's prompt cache.

    ``bit`` is its place in the masks. ``ttl_s`` is how long a chunk stays after it was last read, where the backend
    goes by time. ``reports`` tells whether the backend says what it had: silence is no evidence.
    """

    __slots__ = ("_misses_in_a_row", "added_blocks", "bit", "blocks", "capacity_blocks", "reports", "ttl_s")

    def __init__(self, bit: int, *, ttl_s: float | None = None) -> None:
        self.bit = bit
        self.ttl_s = ttl_s
        self.capacity_blocks: float = FIRST_CAPACITY_BLOCKS
        self.added_blocks = 0
        self.blocks: OrderedDict[bytes, Mark] = OrderedDict()
        self.reports = False
        self._misses_in_a_row = 0

    def distance_blocks(self, digest: bytes) -> int | None:
        """How many chunks were added since this one was last read; ``None`` where nobody knows that it was."""
        mark = self.blocks.get(digest)
        return self.added_blocks - mark.added_blocks if mark is not None and mark.read else None

    def learn(self, *, believed_blocks: int, found_blocks: int, distance_blocks: int | None) -> bool:
        """The engine had ``found_blocks`` of a prompt of which it was believed to have ``believed_blocks``.

        ``distance_blocks`` is that of the last of them, before the prompt was sent: an engine that has lost it holds
        no more than so many, and a few that were only moved to the front.

        Returns:
            Whether it seems to have restarted, so that nothing is warm there.
        """
        self.reports = self.reports or found_blocks > 0
        if found_blocks > 0:
            self._misses_in_a_row = 0
        if found_blocks > believed_blocks and len(self.blocks) >= _NEARLY_FULL * self.capacity_blocks:
            more = (found_blocks - believed_blocks) / found_blocks
            self.capacity_blocks = min(self.capacity_blocks * (1 + _GROW * more), _MOST_CAPACITY_BLOCKS)
        by_room = self.reports and self.ttl_s is None  # one that goes by time, or is silent, says nothing of its room
        if found_blocks >= believed_blocks or distance_blocks is None or not by_room:
            return False
        if distance_blocks < self.capacity_blocks:
            missing = (believed_blocks - found_blocks) / believed_blocks
            self.capacity_blocks -= _SHRINK * missing * (self.capacity_blocks - distance_blocks)
            self.capacity_blocks = max(self.capacity_blocks, _LEAST_CAPACITY_BLOCKS)
        self._misses_in_a_row += found_blocks == 0
        if self._misses_in_a_row < _RESTARTED_AFTER:
            return False
        self._misses_in_a_row = 0
        return True


class PrefixIndex:
    """All caches, and the table over them. Not for use by several threads.

    Args:
        most_blocks: how many chunks are remembered over all caches; the largest cache gives way first.
    """

    def __init__(self, most_blocks: int = MOST_BLOCKS) -> None:
        if most_blocks < 1:
            raise ValueError(f"`most_blocks` must be at least 1, not {most_blocks}")
        self._most_blocks = most_blocks
        self._masks: dict[bytes, int] = {}
        self._caches: dict[int, BackendCache] = {}
        self._held_blocks = 0

    def __len__(self) -> int:
        return self._held_blocks

    def open(self, *, ttl_s: float | None = None) -> BackendCache:
        """A new cache, empty."""
        taken = 0
        for bit in self._caches:
            taken |= bit
        bit = ~taken & (taken + 1)  # the lowest bit that nobody has
        cache = self._caches[bit] = BackendCache(bit, ttl_s=ttl_s)
        return cache

    def close(self, cache: BackendCache) -> None:
        """The backend has left: what it held is forgotten, and its bit is free."""
        self.clear(cache)
        self._caches.pop(cache.bit, None)

    def clear(self, cache: BackendCache) -> None:
        """The backend has restarted: nothing is warm there."""
        for digest in cache.blocks:
            self._unmark(digest, cache.bit)
        self._held_blocks -= len(cache.blocks)
        cache.blocks.clear()

    def depth(self, digests: Sequence[bytes], cache: BackendCache, now_s: float) -> int:
        """How many of the prompt's chunks, from its start, one cache holds."""
        if cache.ttl_s is not None:
            self._expire(cache, now_s - cache.ttl_s)
        blocks, depth = cache.blocks, 0
        for digest in digests:
            if digest not in blocks:
                break
            depth += 1
        return depth

    def depths(self, digests: Sequence[bytes], caches: Sequence[BackendCache], now_s: float) -> list[int]:
        """How many of the prompt's chunks, from its start, each cache holds; one walk for all of them."""
        alive = 0
        for cache in caches:
            if cache.ttl_s is not None:
                self._expire(cache, now_s - cache.ttl_s)
            alive |= cache.bit
        depths = [0] * len(caches)
        masks, depth = self._masks, 0
        for digest in digests:
            still = alive & masks.get(digest, 0)
            if still != alive:
                lost, alive = alive ^ still, still
                for at, cache in enumerate(caches):
                    if cache.bit & lost:
                        depths[at] = depth
                if not alive:
                    return depths
            depth += 1
        for at, cache in enumerate(caches):
            if cache.bit & alive:
                depths[at] = depth
        return depths

    def sent(self, digests: Sequence[bytes], cache: BackendCache, now_s: float) -> tuple[bytes, ...]:
        """The prompt goes to the backend: its chunks will be warm there when whatever comes after it is read.

        From the tail to the head, so that a head is always younger than what hangs on it and is forgotten last.

        Returns:
            The chunks that were not there before.
        """
        if self._caches.get(cache.bit) is not cache:  # it has left meanwhile
            return ()
        blocks, masks, bit = cache.blocks, self._masks, cache.bit
        move, added = blocks.move_to_end, []
        mark = Mark(now_s, cache.added_blocks, False)  # noqa: FBT003  # by name it takes twice as long
        for digest in reversed(digests):
            if digest in blocks:
                move(digest)
            else:
                blocks[digest] = mark
                masks[digest] = masks.get(digest, 0) | bit
                added.append(digest)
        self._held_blocks += len(added)
        cache.added_blocks += len(added)
        if len(blocks) > cache.capacity_blocks or self._held_blocks > self._most_blocks:
            self._make_room(cache)
        return tuple(added)

    def read(self, digests: Sequence[bytes], cache: BackendCache, now_s: float) -> None:
        """The prompt has been read there: its chunks are warm from now on."""
        blocks = cache.blocks
        if all(map(blocks.__contains__, digests)):  # as it mostly is: ``sent`` has put them there
            mark, move = Mark(now_s, cache.added_blocks, True), blocks.move_to_end  # noqa: FBT003  # likewise
            for digest in reversed(digests):
                blocks[digest] = mark
                move(digest)
            return
        self.sent(digests, cache, now_s)
        mark = Mark(now_s, cache.added_blocks, read=True)
        for digest in digests:
            if digest in blocks:
                blocks[digest] = mark

    def take_back(self, digests: Sequence[bytes], cache: BackendCache) -> None:
        """The prompt was never read there: what ``sent`` had added goes again."""
        for digest in digests:
            if cache.blocks.pop(digest, None) is not None:
                self._unmark(digest, cache.bit)
                self._held_blocks -= 1

    def _make_room(self, cache: BackendCache) -> None:
        while len(cache.blocks) > cache.capacity_blocks:
            self._drop_oldest(cache)
        while self._held_blocks > self._most_blocks:
            self._drop_oldest(max(self._caches.values(), key=lambda one: len(one.blocks)))

    def _expire(self, cache: BackendCache, before_s: float) -> None:
        blocks = cache.blocks
        while blocks and next(iter(blocks.values())).at_s < before_s:
            self._drop_oldest(cache)

    def _drop_oldest(self, cache: BackendCache) -> None:
        digest, _ = cache.blocks.popitem(last=False)
        self._unmark(digest, cache.bit)
        self._held_blocks -= 1

    def _unmark(self, digest: bytes, bit: int) -> None:
        left = self._masks[digest] & ~bit
        if left:
            self._masks[digest] = left
        else:
            del self._masks[digest]
