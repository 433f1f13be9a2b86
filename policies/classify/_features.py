"""Features of a request as numbers of 32 bits: quantities in steps, words and pairs of words of the prompt.

A feature's number is made by hashing, and is the same in every process, so that what was learned for it can be stored.
No word can be read back from one. This runs for every request, so it works on bytes and keeps function calls few.
"""

from collections.abc import Sequence
from itertools import pairwise
from math import log
from zlib import crc32

from gateway.types import ChatRequest
from policies.classify._quantities import Quantities

_ENDS_WORDS = 8
_WHOLE_CHARS = 60
_LIKE_CHARS = 12
_FEW_TURNS = 3
_ALIKE = 4

_PLAIN_ENDS = frozenset('.!?`")*:,')
_BITS = 0xFFFFFFFF

_OPENING, _ENDING = 0x5BD1E995, 0x9E3779B1
"""Bits that are turned over in a word's number where it stands at one of the ends."""

# Kinds of features. The hash of a tuple of numbers is not salted, as that of a text is.
(
    _PROMPT, _TURNS, _CONTEXT, _LAST, _MEAN, _LAST_MEAN, _LAST_PROMPT, _MEAN_PROMPT, _TURNS_MEAN, _RECENT, _BEFORE,
    _BEFORE_LAST, _LONGEST, _SHORTEST, _FIRST, _END, _LINES, _CODE, _CLOSING, _FOREIGN, _ASKED, _UNIT, _WORDS_1,
    _WORDS_2, _WORDS_3, _WORDS_5, _LAST_WORD, _LAST_WORDS, _WORD_MEAN, _WHOLE, _WHOLE_LAST, _WHOLE_MEAN, _HEAD_20,
    _HEAD_40, _TAIL_20, _TAIL_WORD, _OVERLAP, _LIKE, _RATIO, _AGAIN, _SYSTEM, _SETTINGS, _LIMIT, _DRIFT, _DRIFT_LAST,
    _DRIFT_BOTH,
) = range(46)  # fmt: skip


def features(request: ChatRequest, seen: Quantities) -> list[int]:
    """All features of the request but those of how its conversation went so far."""
    prompt = seen.prompt
    prompt_step = _steps(seen.prompt_chars, 2)
    found = _of_settings(request, seen)
    found += (
        hash((_PROMPT, prompt_step)) & _BITS,
        hash((_CONTEXT, _steps(seen.context_tokens, 2))) & _BITS,
        hash((_LINES, min(prompt.count(b"\n"), 12))) & _BITS,
    )
    mean = 0
    if seen.answers:
        mean = _steps(sum(seen.answers) / len(seen.answers), 2)
        found += _of_answers(seen, prompt_step)
        found += _of_earlier_turn(seen)
    else:
        found += (hash((_FIRST, -1)) & _BITS, hash((_FIRST, prompt_step)) & _BITS)
    if seen.asked_tokens:
        found += (
            hash((_ASKED, _steps(seen.asked_tokens, 2))) & _BITS,
            hash((_UNIT, crc32(seen.asked_unit))) & _BITS,
        )
    if prompt.find(b"```") >= 0:  # `in` would take it for a number first, and raise
        found.append(hash((_CODE, -1)) & _BITS)
    if not prompt.isascii():
        found.append(hash((_FOREIGN, 1)) & _BITS)
    found += _of_words(seen.words, mean)
    found += _of_spelling(prompt, seen)
    return found


def drift_features(turns: int, mean: float, last: float) -> tuple[int, int, int]:
    """Of how much longer than forecast the answers of this conversation were, as mean and at last, in log space."""
    return (
        hash((_DRIFT, min(turns, 4) * 64 + int(mean * 6 + 18))) & _BITS,
        hash((_DRIFT_LAST, int(last * 4 + 12))) & _BITS,
        hash((_DRIFT_BOTH, int(mean * 3 + 9) * 32 + int(last * 3 + 9))) & _BITS,
    )


def _steps(tokens: float, per_e: float) -> int:
    return int(log(tokens + 1.0) * per_e)


def _of_settings(request: ChatRequest, seen: Quantities) -> list[int]:
    """An application is known by its instructions and settings, and asks for answers of its own kind."""
    needs = crc32(",".join(sorted(request.needs)).encode(errors="replace")) if request.needs else 0
    found = [hash((_SETTINGS, needs + request.stream)) & _BITS]
    if seen.system:
        found.append(hash((_SYSTEM, crc32(seen.system.encode(errors="replace")))) & _BITS)
    if request.max_tokens is not None:
        found.append(hash((_LIMIT, _steps(max(request.max_tokens, 0), 2))) & _BITS)
    return found


def _of_answers(seen: Quantities, prompt_step: int) -> list[int]:
    """The lengths of the answers so far, alone and by twos."""
    answers = seen.answers
    last_log, recent = log(answers[0] + 1.0), answers[:3]
    last, mean = int(last_log * 2.5), _steps(sum(answers) / len(answers), 3)
    few = seen.turns <= _FEW_TURNS
    turns = seen.turns if few else _FEW_TURNS + min(seen.turns.bit_length() - 2, 7)
    end = seen.tail[-1:]
    closed = ord(end) if end and end in _PLAIN_ENDS else 1
    found = [
        hash((_TURNS, turns)) & _BITS,
        hash((_LAST, last)) & _BITS,
        hash((_MEAN, mean)) & _BITS,
        hash((_LAST_MEAN, last * 64 + mean)) & _BITS,
        hash((_LAST_PROMPT, last * 64 + prompt_step)) & _BITS,
        hash((_MEAN_PROMPT, mean * 64 + prompt_step)) & _BITS,
        hash((_TURNS_MEAN, turns * 64 + mean)) & _BITS,
        hash((_RECENT, _steps(sum(recent) / len(recent), 3))) & _BITS,
        hash((_LONGEST, _steps(max(answers), 2))) & _BITS,
        hash((_SHORTEST, _steps(min(answers), 2))) & _BITS,
        hash((_END, closed * 8 + min(int(last_log), 7))) & _BITS,
    ]
    if len(answers) > 1:
        before = _steps(answers[1], 2)
        found += (hash((_BEFORE, before)) & _BITS, hash((_BEFORE_LAST, before * 64 + int(last_log * 2))) & _BITS)
    if "```" in seen.tail:
        found.append(hash((_CODE, 64 + prompt_step)) & _BITS)
    return found


def _of_words(words: Sequence[bytes], mean: int) -> set[int]:
    """Words and pairs of words, the first and last ones once more by their place, and how the prompt begins and ends.

    ``mean`` is the mean answer so far in steps, 0 where there is none.
    """
    if not words:
        return set()
    codes = list(map(crc32, words))
    found = {*codes}
    found.update([(code * 5 + after) & _BITS for code, after in pairwise(codes)])
    found.update([code ^ _OPENING for code in codes[:_ENDS_WORDS]])
    found.update([code ^ _ENDING for code in codes[-_ENDS_WORDS:]])
    later = mean > 0
    first = codes[0]
    found |= {
        hash((_WORDS_1, first, later)) & _BITS,
        hash((_WORDS_2, later, *codes[:2])) & _BITS,
        hash((_WORDS_3, later, *codes[:3])) & _BITS,
        hash((_WORDS_5, *codes[:5])) & _BITS,
        hash((_LAST_WORD, codes[-1])) & _BITS,
        hash((_LAST_WORDS, *codes[-2:])) & _BITS,
    }
    if later:
        found.add(hash((_WORD_MEAN, first, mean)) & _BITS)
    return found


def _of_spelling(prompt: bytes, seen: Quantities) -> list[int]:
    """The prompt's first and last characters, and a short prompt as a whole: "continue" says more than its words."""
    closing = prompt.rstrip()[-1:]
    found = [
        hash((_CLOSING, 0 if closing.isalnum() else crc32(closing))) & _BITS,
        crc32(prompt[:20], _HEAD_20),
        crc32(prompt[:40], _HEAD_40),
    ]
    if seen.prompt_chars >= _WHOLE_CHARS:
        found.append(crc32(prompt[-20:], _TAIL_20))
        return found
    whole = crc32(prompt.strip(b" .!?\n"), _WHOLE)
    found.append(whole)
    if seen.answers:
        last, mean = _steps(seen.answers[0], 1.5), _steps(sum(seen.answers) / len(seen.answers), 1.5)
        found += (hash((_WHOLE_LAST, whole, last)) & _BITS, hash((_WHOLE_MEAN, whole, mean)) & _BITS)
    return found


def _of_earlier_turn(seen: Quantities) -> list[int]:
    """How the last answer ended, and how this prompt is like the one before: the same task is answered alike."""
    ending = seen.tail.lower().encode(errors="replace").split()[-8:]
    found = [crc32(word, _TAIL_WORD) for word in set(ending)]
    before = seen.before
    if not before:
        return found
    last = _steps(seen.answers[0], 2.5)
    words = set(seen.prompt.split())
    overlap = 5 * len(words & set(before.split())) // max(len(words), 1)
    found += (
        hash((_OVERLAP, overlap * 64 + last)) & _BITS,
        hash((_LIKE, (seen.prompt[:_LIKE_CHARS] == before[:_LIKE_CHARS]) * 64 + last)) & _BITS,
        hash((_RATIO, int(2 * log((len(seen.prompt) + 5) / (len(before) + 5)) + 20) * 64 + last)) & _BITS,
    )
    if overlap >= _ALIKE:
        found.append(hash((_AGAIN, _steps(seen.answers[0], 6))) & _BITS)
    return found
