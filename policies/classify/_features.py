"""Features of a request as numbers of 32 bits: quantities in steps, words and pairs of words of the prompt.

A feature's number is made by hashing, and is the same in every process, so that what was learned for it can be stored
and shared. No word can be read back from one.
"""

import re
from collections.abc import Iterator
from itertools import pairwise
from math import log
from zlib import crc32

from gateway.types import ChatRequest
from policies.classify._quantities import Quantities

_HEAD_WORDS = 50
_TAIL_WORDS = 30
_ENDS_WORDS = 8
_WHOLE_CHARS = 60
_LIKE_CHARS = 12
_FEW_TURNS = 3
_COMMON_HEAD = 3
_ALIKE = 4

_WORD = re.compile(r"[^\W_]+|[^\w\s]")
_PLAIN_ENDS = frozenset('.!?`")*:,')
_BITS = 0xFFFFFFFF
_P1, _P2 = 0x9E3779B1, 0x85EBCA6B

# Kinds of features: each is a seed of its own, so that equal values of two kinds are two features.
(
    _PROMPT, _TURNS, _CONTEXT, _LAST, _MEAN, _LAST_MEAN, _LAST_PROMPT, _MEAN_PROMPT, _TURNS_MEAN, _RECENT, _BEFORE,
    _BEFORE_LAST, _LONGEST, _SHORTEST, _FIRST, _END, _LINES, _CODE, _CLOSING, _FOREIGN, _ASKED, _UNIT, _WORDS_0,
    _WORDS_2, _WORDS_3, _WORDS_5, _LAST_WORD, _LAST_WORDS, _WORD_MEAN, _WHOLE, _WHOLE_LAST, _WHOLE_MEAN, _HEAD_20,
    _HEAD_40, _TAIL_20, _TAIL_WORD, _OVERLAP, _LIKE, _RATIO, _AGAIN, _SYSTEM, _SETTINGS, _LIMIT, _DRIFT, _DRIFT_LAST,
    _DRIFT_BOTH, _OPENING, _ENDING,
) = (crc32(bytes([kind])) for kind in range(48))  # fmt: skip


def features(request: ChatRequest, seen: Quantities) -> list[int]:
    """All features of the request but those of how its conversation went so far."""
    found = list(_of_quantities(seen))
    found += _of_settings(request, seen)
    found += _of_words(seen)
    if seen.turns:
        found += _of_earlier_prompt(seen)
    return found


def drift_features(turns: int, mean: float, last: float) -> list[int]:
    """Of how much longer than forecast the answers of this conversation were, as mean and at last, in log space."""
    coarse = int(mean * 3 + 9) * 32 + int(last * 3 + 9)
    return [
        _mix(_DRIFT, min(turns, 4) * 64 + int(mean * 6 + 18)),
        _mix(_DRIFT_LAST, int(last * 4 + 12)),
        _mix(_DRIFT_BOTH, coarse),
    ]


def _mix(kind: int, value: int) -> int:
    mixed = (kind ^ value) * _P1 & _BITS
    return (mixed ^ mixed >> 15) * _P2 & _BITS


def _steps(tokens: float, per_e: float) -> int:
    return int(log(tokens + 1.0) * per_e)


def _of_quantities(seen: Quantities) -> Iterator[int]:
    prompt = _steps(seen.prompt_chars, 2)
    turns = seen.turns if seen.turns <= _FEW_TURNS else _FEW_TURNS + min(seen.turns.bit_length() - 2, 7)
    yield _mix(_PROMPT, prompt)
    yield _mix(_TURNS, turns)
    yield _mix(_CONTEXT, _steps(seen.context_tokens, 2))
    answers = seen.answers
    if not answers:
        yield _mix(_FIRST, 99)
        yield _mix(_FIRST, prompt)
    else:
        last, mean = _steps(answers[0], 2.5), _steps(sum(answers) / len(answers), 3)
        recent = answers[:3]
        yield _mix(_LAST, last)
        yield _mix(_MEAN, mean)
        yield _mix(_LAST_MEAN, last * 64 + mean)
        yield _mix(_LAST_PROMPT, last * 64 + prompt)
        yield _mix(_MEAN_PROMPT, mean * 64 + prompt)
        yield _mix(_TURNS_MEAN, turns * 64 + mean)
        yield _mix(_RECENT, _steps(sum(recent) / len(recent), 3))
        yield _mix(_LONGEST, _steps(max(answers), 2))
        yield _mix(_SHORTEST, _steps(min(answers), 2))
        if len(answers) > 1:
            before = _steps(answers[1], 2)
            yield _mix(_BEFORE, before)
            yield _mix(_BEFORE_LAST, before * 64 + _steps(answers[0], 2))
        end = seen.tail[-1:]
        yield _mix(_END, (ord(end) if end in _PLAIN_ENDS and end else 1) * 8 + min(_steps(answers[0], 1), 7))
        if "```" in seen.tail:
            yield _mix(_CODE, 64 + prompt)
    if seen.asked_tokens:
        yield _mix(_ASKED, _steps(seen.asked_tokens, 2))
        yield _mix(_UNIT, crc32(seen.asked_unit.encode()))


def _of_settings(request: ChatRequest, seen: Quantities) -> Iterator[int]:
    """An application is known by its instructions and settings, and asks for answers of its own kind."""
    if seen.system:
        yield _mix(_SYSTEM, crc32(seen.system.encode(errors="replace")))
    needs = crc32(",".join(sorted(request.needs)).encode(errors="replace")) if request.needs else 0
    yield _mix(_SETTINGS, needs + request.stream)
    if request.max_tokens is not None:
        yield _mix(_LIMIT, _steps(max(request.max_tokens, 0), 2))


def _of_words(seen: Quantities) -> Iterator[int]:
    prompt = seen.prompt
    yield _mix(_LINES, min(prompt.count("\n"), 12))
    closing = prompt.rstrip()[-1:]
    yield _mix(_CLOSING, ord(closing) if closing and not closing.isalnum() else 0)
    if "```" in prompt:
        yield _mix(_CODE, 1)
    if not prompt.isascii():
        yield _mix(_FOREIGN, 1)
    words = _WORD.findall(prompt)
    if len(words) > _HEAD_WORDS + _TAIL_WORDS:
        words = words[:_HEAD_WORDS] + words[-_TAIL_WORDS:]
    if not words:
        return
    codes = [crc32(word.encode(errors="replace")) for word in words]
    yield from set(codes)
    yield from {_mix(_OPENING, code) for code in codes[:_ENDS_WORDS]}
    yield from {_mix(_ENDING, code) for code in codes[-_ENDS_WORDS:]}
    yield from {(one * _P1 ^ other * _P2) & _BITS for one, other in pairwise(codes)}
    head = 0
    later = seen.turns > 0
    for place, code in enumerate(codes[:5], start=1):
        head = (head * _P1 ^ code) & _BITS
        if place in _HEADS:
            yield _mix(_HEADS[place], head + (later and place <= _COMMON_HEAD))
    yield _mix(_LAST_WORD, codes[-1])
    if len(codes) > 1:
        yield _mix(_LAST_WORDS, codes[-2] * _P2 ^ codes[-1] & _BITS)
    if seen.answers:
        yield _mix(_WORD_MEAN, codes[0] ^ _steps(sum(seen.answers) / len(seen.answers), 2) * _P1 & _BITS)
    yield from _of_spelling(seen)


_HEADS = {1: _WORDS_0, 2: _WORDS_2, 3: _WORDS_3, 5: _WORDS_5}


def _of_spelling(seen: Quantities) -> Iterator[int]:
    """The prompt's first and last characters, and a short prompt as a whole: "continue" says more than its words."""
    prompt = seen.prompt.encode(errors="replace")
    yield _mix(_HEAD_20, crc32(prompt[:20]))
    yield _mix(_HEAD_40, crc32(prompt[:40]))
    if seen.prompt_chars >= _WHOLE_CHARS:
        yield _mix(_TAIL_20, crc32(prompt[-20:]))
        return
    whole = crc32(prompt.strip(b" .!?\n"))
    yield _mix(_WHOLE, whole)
    if seen.answers:
        yield _mix(_WHOLE_LAST, whole ^ _steps(seen.answers[0], 1.5) * _P1 & _BITS)
        yield _mix(_WHOLE_MEAN, whole ^ _steps(sum(seen.answers) / len(seen.answers), 1.5) * _P1 & _BITS)


def _of_earlier_prompt(seen: Quantities) -> Iterator[int]:
    """How the last answer ended, and how this prompt is like the one before: the same task is answered alike."""
    last = _steps(seen.answers[0], 2.5) if seen.answers else 0
    for word in set(seen.tail.lower().split()[-8:]):
        yield _mix(_TAIL_WORD, crc32(word.encode(errors="replace")))
    before = seen.before
    if not before:
        return
    words, earlier = set(seen.prompt.split()), set(before.split())
    overlap = int(5 * len(words & earlier) / max(len(words), 1))
    yield _mix(_OVERLAP, overlap * 64 + last)
    yield _mix(_LIKE, (seen.prompt[:_LIKE_CHARS] == before[:_LIKE_CHARS]) * 64 + last)
    yield _mix(_RATIO, int(2 * log((len(seen.prompt) + 5) / (len(before) + 5)) + 20) * 64 + last)
    if overlap >= _ALIKE:
        yield _mix(_AGAIN, _steps(seen.answers[0] if seen.answers else 0.0, 6))
