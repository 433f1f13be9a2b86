"""Writes the hot-document trace: documents that many ask about, chats beside them, and a flash crowd on a new one.

    python tests/benchmarks/hot_document.py hot_document.jsonl

Two of five requests ask about one of forty documents of 8,000 to 40,000 tokens, the favourites far more often than the
others (Zipf, exponent 1.3). The rest are chats, which all begin with the same system prompt and grow by one to four
blocks with every turn. From 500 s on, for two minutes, half as many again come, and nearly half of all ask about a
document of 30,000 tokens that nobody has seen before. A router that follows prefixes alone sends them all to one
replica; one that looks at load alone reads the document eight times.

Rows are as in Mooncake's traces. All numbers are drawn from one seed: the file is the same every time.
"""

import argparse
import json
import random
from collections.abc import Iterator
from itertools import count, islice
from pathlib import Path
from typing import Any

BLOCK_TOKENS = 512
LENGTH_S, CROWD_S = 1200.0, (500.0, 620.0)
RATE_PER_S, CROWD_RATE_PER_S = 3.2, 5.0
DOCUMENTS, DOCUMENT_BLOCKS, ZIPF = 40, (16, 80), 1.3
CROWD_DOCUMENT_BLOCKS, CROWD_SHARE, DOCUMENT_SHARE = 60, 0.45, 0.4
GOING_ON_SHARE, CHATS_OPEN, LONGEST_CHAT_BLOCKS = 0.5, 400, 60


def requests(seed: int = 1) -> Iterator[dict[str, Any]]:
    """The requests in the order of their arrival."""
    rng = random.Random(seed)  # noqa: S311  # the same every time
    fresh = count(1)
    documents = [_blocks(fresh, rng.randint(*DOCUMENT_BLOCKS)) for _ in range(DOCUMENTS)]
    crowd_document = _blocks(fresh, CROWD_DOCUMENT_BLOCKS)
    favour = [1 / place**ZIPF for place in range(1, DOCUMENTS + 1)]
    chats: list[list[int]] = []
    now_s = 0.0
    while now_s < LENGTH_S:
        crowded = CROWD_S[0] < now_s < CROWD_S[1]
        now_s += rng.expovariate(CROWD_RATE_PER_S if crowded else RATE_PER_S)
        if crowded and rng.random() < CROWD_SHARE:
            yield _row(now_s, [*crowd_document, next(fresh)], rng, rng.randint(30, 400))
        elif rng.random() < DOCUMENT_SHARE:
            (document,) = rng.choices(documents, favour)
            yield _row(now_s, [*document, next(fresh)], rng, rng.randint(30, 600))
        else:
            answer_tokens = min(round(rng.lognormvariate(5.3, 0.9)) + 1, 2000)
            yield _row(now_s, _turn(chats, fresh, rng), rng, answer_tokens)


def _blocks(fresh: Iterator[int], number: int) -> list[int]:
    return [next(fresh) for _ in range(number)]


def _turn(chats: list[list[int]], fresh: Iterator[int], rng: random.Random) -> list[int]:
    """The blocks of a chat that goes on, or of a new one. Block 0 is the system prompt that all begin with."""
    if chats and rng.random() < GOING_ON_SHARE:
        place = rng.randrange(len(chats))
        blocks = [*chats[place][:-1], *_blocks(fresh, rng.randint(1, 4))]  # the last one was not full
        chats[place] = blocks
        if len(blocks) > LONGEST_CHAT_BLOCKS:
            del chats[place]
        return blocks
    blocks = [0, *_blocks(fresh, rng.randint(1, 12))]
    chats.append(blocks)
    del chats[:-CHATS_OPEN]
    return blocks


def _row(now_s: float, blocks: list[int], rng: random.Random, output_tokens: int) -> dict[str, Any]:
    return {
        "timestamp": round(now_s * 1000),
        "input_length": (len(blocks) - 1) * BLOCK_TOKENS + rng.randint(20, BLOCK_TOKENS),
        "output_length": output_tokens,
        "hash_ids": blocks,
    }


def write(path: Path, *, seed: int = 1, rows: int | None = None) -> None:
    """Writes the trace into ``path``: all of it, or its first ``rows``."""
    with path.open("w", encoding="utf-8") as file:
        file.writelines(f"{json.dumps(row)}\n" for row in islice(requests(seed), rows))


def main() -> None:
    """The command."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("path", type=Path)
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    write(arguments.path, seed=arguments.seed)


if __name__ == "__main__":
    main()
