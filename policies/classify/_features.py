"""Features of a request as numbers of 32 bits: quantities in steps, words and pairs of words of the prompt.

A feature's number is the same in every process, so that what was learned for it can be stored. No word can be read back
from one. This runs for every request, so it works on bytes, and keeps function calls few.
"""

from functools import lru_cache
from itertools import repeat
from math import log
from zlib import crc32

from gateway.types import ChatRequest
from policies.classify._quantities import WORD_BYTES, Quantities

_WHOLE_CHARS = 60
_LIKE_CHARS = 12
_FEW_TURNS = 3
_ALIKE = 4
_ALIKE_WORDS = 16
_ALIKE_CHARS = 100
_TAIL_WORDS = 8
_NEEDS = 256

_PLAIN_ENDS = frozenset('.!?`")*:,')

_NO_MARKS = bytes(WORD_BYTES | {ord(" ")})

_APART = 40_503
"""Between the numbers of two kinds. Those of most kinds are fewer than 2,048, and in a table of any size they begin at
places far from one another."""

(
    _PROMPT, _TURNS, _CONTEXT, _LAST, _MEAN, _LAST_MEAN, _LAST_PROMPT, _MEAN_PROMPT, _TURNS_MEAN, _RECENT, _BEFORE,
    _BEFORE_LAST, _LONGEST, _SHORTEST, _FIRST, _END, _LINES, _CODE, _CLOSING, _FOREIGN, _ASKED, _UNIT, _WORDS_1,
    _WORDS_3, _LAST_WORDS, _WORD_MEAN, _WHOLE, _WHOLE_MEAN, _HEAD_20, _HEAD_40, _TAIL_20, _TAIL_WORD, _OVERLAP, _LIKE,
    _RATIO, _AGAIN, _SYSTEM, _SETTINGS, _LIMIT, _DRIFT, _DRIFT_LAST, _DRIFT_BOTH, _FIRST_MARKS, _LAST_MARKS,
) = range(0, 44 * _APART, _APART)  # fmt: skip


def features(request: ChatRequest, seen: Quantities) -> list[int]:
    """All features of the request but its words and how its conversation went so far."""
    prompt = seen.prompt
    marks, closing = prompt.translate(None, _NO_MARKS), prompt.rstrip()[-1:]
    prompt_step = int(log(seen.prompt_chars + 1) * 2)
    found = [
        _PROMPT + prompt_step,
        _CONTEXT + int(log(seen.context_tokens + 1) * 2),
        _LINES + min(seen.lines, 12),
        crc32(b"" if closing.isalnum() else closing, _CLOSING),
        crc32(marks[:3], _FIRST_MARKS),
        crc32(marks[-3:], _LAST_MARKS),
        crc32(prompt[:20], _HEAD_20),
        crc32(prompt[:40], _HEAD_40),
        _of_needs(request.needs) ^ request.stream,
    ]
    if seen.system:
        found.append(crc32(seen.system, _SYSTEM))
    if request.max_tokens is not None:
        found.append(_LIMIT + int(log(max(request.max_tokens, 0) + 1) * 2))
    if seen.asked_tokens:
        found += (_ASKED + int(log(seen.asked_tokens + 1) * 2), crc32(seen.asked_unit, _UNIT))
    if prompt.find(b"```") >= 0:  # `in` would take it for a number first, and raise
        found.append(_CODE + 64)
    if not prompt.isascii():
        found.append(_FOREIGN)
    found += _of_beginning(seen)
    if seen.answers:
        found += _of_answers(seen, prompt_step)
        found += _of_earlier_turn(seen)
    else:
        found += (_FIRST + 64, _FIRST + prompt_step)
    return found


def drift_features(turns: int, mean: float, last: float) -> tuple[int, int, int]:
    """Of how much longer than forecast the answers of this conversation were, as mean and at last, in log space."""
    return (
        _DRIFT + min(turns, 4) * 64 + int(mean * 6 + 18),
        _DRIFT_LAST + int(last * 4 + 12),
        _DRIFT_BOTH + int(mean * 3 + 9) * 32 + int(last * 3 + 9),
    )


@lru_cache(maxsize=_NEEDS)
def _of_needs(needs: frozenset[str]) -> int:
    return crc32(",".join(sorted(needs)).encode(errors="replace"), _SETTINGS)


def _of_beginning(seen: Quantities) -> list[int]:
    """The first words together and the last two, and a short prompt as a whole: "continue" says more than its words."""
    words, answers, prompt = seen.words, seen.answers, seen.prompt
    if seen.prompt_chars >= _WHOLE_CHARS:
        found = [crc32(prompt[-20:], _TAIL_20)]
    else:
        whole = crc32(prompt.strip(b" .!?\n"), _WHOLE)
        found = [whole]
        if answers:
            found += (
                crc32(b"%d" % int(log(answers[0] + 1) * 1.5), whole),
                crc32(b"%d" % int(log(seen.mean_answer + 1) * 1.5), whole ^ _WHOLE_MEAN),
            )
    if not words:
        return found
    later = bool(answers)
    found += (
        crc32(words[0], _WORDS_1 + later),
        crc32(b" ".join(words[:3]), _WORDS_3 + later),
        crc32(b" ".join(words[-2:]), _LAST_WORDS),
    )
    if answers:
        found.append(crc32(words[0], _WORD_MEAN + int(log(seen.mean_answer + 1) * 2)))
    return found


def _of_answers(seen: Quantities, prompt_step: int) -> list[int]:
    """The lengths of the answers so far, alone and by twos."""
    answers = seen.answers
    last_log = log(answers[0] + 1)
    last, mean = int(last_log * 2.5), int(log(seen.mean_answer + 1) * 3)
    turns = seen.turns if seen.turns <= _FEW_TURNS else _FEW_TURNS + min(seen.turns.bit_length() - 2, 7)
    end = seen.tail[-1:]
    closed = ord(end) if end and end in _PLAIN_ENDS else 1
    recent = answers[:3]
    found = [
        _TURNS + turns,
        _LAST + last,
        _MEAN + mean,
        _LAST_MEAN + last * 64 + mean,
        _LAST_PROMPT + last * 64 + prompt_step,
        _MEAN_PROMPT + mean * 64 + prompt_step,
        _TURNS_MEAN + turns * 64 + mean,
        _RECENT + int(log(sum(recent) / len(recent) + 1) * 3),
        _LONGEST + int(log(max(answers) + 1) * 2),
        _SHORTEST + int(log(min(answers) + 1) * 2),
        _END + closed * 8 + min(int(last_log), 7),
    ]
    if len(answers) > 1:
        before = int(log(answers[1] + 1) * 2)
        found += (_BEFORE + before, _BEFORE_LAST + before * 64 + int(last_log * 2))
    if "```" in seen.tail:
        found.append(_CODE + prompt_step)
    return found


def _of_earlier_turn(seen: Quantities) -> list[int]:
    """How the last answer ended, and how this prompt is like the one before: the same task is answered alike."""
    ending = seen.tail.lower().encode(errors="replace").split()[-_TAIL_WORDS:]
    found = list(map(crc32, ending, repeat(_TAIL_WORD)))
    before = seen.before
    if not before:
        return found
    last = int(log(seen.answers[0] + 1) * 2.5)
    words = set(seen.words[:_ALIKE_WORDS])
    overlap = 5 * len(words.intersection(before[:_ALIKE_CHARS].split())) // max(len(words), 1)
    found += (
        _OVERLAP + overlap * 64 + last,
        _LIKE + (seen.prompt[:_LIKE_CHARS] == before[:_LIKE_CHARS]) * 64 + last,
        _RATIO + int(2 * log((len(seen.prompt) + 5) / (len(before) + 5)) + 20) * 64 + last,
    )
    if overlap >= _ALIKE:
        found.append(_AGAIN + int(log(seen.answers[0] + 1) * 6))
    return found
