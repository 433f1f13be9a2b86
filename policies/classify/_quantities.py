"""What of a request tells how long its answer will be: a handful of quantities.

Nothing here reads more than the ends of the last prompt and the last turns of the conversation, so that a prompt of a
megabyte costs what a short one does.
"""

from collections.abc import Sequence

from msgspec import Struct

from gateway.conversation import Message
from gateway.types import ChatRequest

CHARS_PER_TOKEN = 4.0
"""Of English; enough to tell short from long, not to bill."""

HEAD_CHARS = 200
TAIL_CHARS = 100

_HEAD_WORDS = 28
_TAIL_WORDS = 12
_TURNS = 16
_PROMPTS = 2
_MESSAGES = 64
SYSTEM_ROLES = frozenset({"system", "developer"})

WORD_BYTES = frozenset(b"abcdefghijklmnopqrstuvwxyz0123456789" + bytes(range(0x80, 0x100)))
_SPACED = bytes(byte if byte in WORD_BYTES else ord(" ") for byte in bytes(range(256)).lower())
"""What parts words becomes a space. What is no ASCII belongs to words: a run of Chinese characters is one, and pairs of
words tell where it stands."""

_NUMBERS = {
    b"one": 1, b"two": 2, b"three": 3, b"four": 4, b"five": 5, b"six": 6, b"seven": 7, b"eight": 8, b"nine": 9,
    b"ten": 10, b"eleven": 11, b"twelve": 12, b"single": 1, b"dozen": 12,
}  # fmt: skip
_UNIT_TOKENS = {
    b"word": 1.35, b"sentence": 25.0, b"paragraph": 110.0, b"bullet": 25.0, b"point": 25.0, b"item": 20.0,
    b"line": 14.0, b"character": 0.25, b"page": 600.0, b"idea": 30.0, b"example": 45.0, b"question": 25.0,
    b"title": 14.0, b"name": 6.0, b"way": 45.0, b"tip": 40.0, b"step": 40.0, b"reason": 40.0, b"thing": 30.0,
    b"topic": 15.0, b"tweet": 45.0, b"headline": 14.0,
}  # fmt: skip
_UNITS = _UNIT_TOKENS | {unit + b"s": tokens for unit, tokens in _UNIT_TOKENS.items()}
_MOST_DIGITS = 5
_BETWEEN = 2
"""A number stands up to so many words before its unit: "500 words", "three short paragraphs", "a 500-word essay"."""


class Quantities(Struct, frozen=True):
    """What is counted. Lengths of answers are in tokens, reckoned from characters, the latest first.

    ``prompt`` is the head and the tail of the last prompt in lower case, ``words`` are its first 28 words and its
    last 12, ``lines`` how often a line ends in it. ``mean_answer`` is the mean of ``answers``, ``before`` the head of
    the prompt before it, ``tail`` the end of the last answer, ``system`` the head of the instructions. ``asked_tokens``
    is a length that the prompt itself asks for ("in two sentences"), 0 where it asks for none, and ``asked_unit`` its
    unit.
    """

    prompt: bytes
    words: list[bytes]
    lines: int
    prompt_chars: int
    context_tokens: float
    turns: int
    answers: list[float]
    mean_answer: float
    tail: str
    before: bytes
    system: bytes
    asked_tokens: float
    asked_unit: bytes


def measure(request: ChatRequest) -> Quantities:
    """The quantities of a request: its last prompt, and the answers that stand before it."""
    messages = request.messages
    prompts, answers, tail, turns = _last_turns(messages)
    if request.prompt is not None:
        prompts = [_first_text(request.prompt)]
    prompt = prompts[0] if prompts else ""
    whole = len(prompt) <= HEAD_CHARS + TAIL_CHARS
    ends = (prompt if whole else f"{prompt[:HEAD_CHARS]} {prompt[-TAIL_CHARS:]}").lower().encode(errors="replace")
    words = ends.translate(_SPACED).split()
    if len(words) > _HEAD_WORDS + _TAIL_WORDS:
        words = words[:_HEAD_WORDS] + words[-_TAIL_WORDS:]
    asked_tokens, asked_unit = _asked(words)
    before, system = b"", b""
    if len(prompts) > 1:
        before = prompts[1][:HEAD_CHARS].lower().encode(errors="replace")
    if messages and messages[0].role in SYSTEM_ROLES:
        system = messages[0].text()[:HEAD_CHARS].encode(errors="replace")
    return Quantities(
        ends,
        words,
        ends.count(b"\n"),
        len(prompt),
        request.prompt_bytes / CHARS_PER_TOKEN,
        turns,
        answers,
        sum(answers) / len(answers) if answers else 0.0,
        tail,
        before,
        system,
        asked_tokens,
        asked_unit,
    )


def _first_text(prompt: object) -> str:
    """The text of a completion's prompt, of the first of several; empty where it comes as numbers."""
    first = prompt[0] if isinstance(prompt, tuple) and prompt else prompt
    return first if isinstance(first, str) else ""


def _last_turns(messages: Sequence[Message]) -> tuple[list[str], list[float], str, int]:
    """The last two prompts, the last answers in tokens, the end of the last one, and how many answers there are.

    Both lists begin with the latest. Of a long conversation the last part is looked at, and the rest is reckoned.
    """
    prompts: list[str] = []
    answers: list[float] = []
    tail = ""
    for message in messages[: -_MESSAGES - 1 : -1]:
        role = message.role
        if role == "assistant":
            text = message.text()
            if not answers:
                tail = text[-TAIL_CHARS:]
            chars = len(text)
            if message.tool_calls:
                chars += sum(len(call.function.arguments) for call in message.tool_calls if call.function)
            answers.append(chars / CHARS_PER_TOKEN)
        elif len(prompts) < _PROMPTS and role not in SYSTEM_ROLES:
            prompts.append(message.text())
    turns = len(answers)
    if len(messages) > _MESSAGES:
        turns += (len(messages) - _MESSAGES) // 2
    return prompts, answers[:_TURNS], tail, turns


def _asked(words: Sequence[bytes]) -> tuple[float, bytes]:
    """The longest length that the prompt names, in tokens, and its unit."""
    longest, found = 0.0, b""
    if _UNITS.keys().isdisjoint(words):
        return longest, found
    for place, word in enumerate(words):
        unit_tokens = _UNITS.get(word)
        if unit_tokens is None:
            continue
        for number in words[max(place - _BETWEEN, 0) : place]:
            count = _NUMBERS.get(number) or (int(number) if number.isdigit() and len(number) <= _MOST_DIGITS else 0)
            if count * unit_tokens > longest:
                longest, found = count * unit_tokens, word
    return longest, found
