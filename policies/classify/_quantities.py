"""What of a request tells how long its answer will be: a handful of quantities.

Nothing here reads more than the ends of the last prompt and the last turns of the conversation, so that a prompt of a
megabyte costs what a short one does.
"""

import re
from collections.abc import Sequence

from msgspec import Struct

from gateway.conversation import Message
from gateway.types import ChatRequest

CHARS_PER_TOKEN = 4.0
"""Of English; enough to tell short from long, not to bill."""

HEAD_CHARS = 400
TAIL_CHARS = 200

_TURNS = 16
_PROMPTS = 2
_MESSAGES = 64
SYSTEM_ROLES = frozenset({"system", "developer"})

_NUMBERS = {
    word: number
    for number, word in enumerate(
        ("one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve"), start=1
    )
} | {"single": 1, "dozen": 12}
_UNIT_TOKENS = {
    "word": 1.35, "sentence": 25.0, "paragraph": 110.0, "bullet": 25.0, "point": 25.0, "item": 20.0, "line": 14.0,
    "character": 0.25, "page": 600.0, "idea": 30.0, "example": 45.0, "question": 25.0, "title": 14.0, "name": 6.0,
    "way": 45.0, "tip": 40.0, "step": 40.0, "reason": 40.0, "thing": 30.0, "topic": 15.0, "tweet": 45.0,
    "headline": 14.0,
}  # fmt: skip
_ASKED = re.compile(rf"\b(\d{{1,5}}|{'|'.join(_NUMBERS)})[\s-]+(?:\w+[\s-]+)?({'|'.join(_UNIT_TOKENS)})s?\b")


class Quantities(Struct, frozen=True):
    """What is counted. Lengths of answers are in tokens, reckoned from characters, the latest first.

    ``prompt`` is the head and the tail of the last prompt in lower case, ``before`` the head of the one before it,
    ``tail`` the end of the last answer, ``system`` the head of the instructions. ``asked_tokens`` is a length that the
    prompt itself asks for ("in two sentences"), 0 where it asks for none, and ``asked_unit`` its unit.
    """

    prompt: str
    prompt_chars: int
    context_tokens: float
    turns: int
    answers: tuple[float, ...]
    tail: str
    before: str
    system: str
    asked_tokens: float
    asked_unit: str


def measure(request: ChatRequest) -> Quantities:
    """The quantities of a request: its last prompt, and the answers that stand before it."""
    prompts, answers, tail, turns = _last_turns(request.messages)
    if request.prompt is not None:
        prompts = [_first_text(request.prompt)]
    prompt = prompts[0] if prompts else ""
    ends = (prompt if len(prompt) <= HEAD_CHARS + TAIL_CHARS else _ends(prompt)).lower()
    asked_tokens, asked_unit = _asked(ends)
    return Quantities(
        prompt=ends,
        prompt_chars=len(prompt),
        context_tokens=request.prompt_bytes / CHARS_PER_TOKEN,
        turns=turns,
        answers=tuple(answers),
        tail=tail,
        before=prompts[1][:HEAD_CHARS].lower() if len(prompts) > 1 else "",
        system=_system(request.messages),
        asked_tokens=asked_tokens,
        asked_unit=asked_unit,
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
        if message.role == "assistant":
            text = message.text()
            if not answers:
                tail = text[-TAIL_CHARS:]
            called = sum(len(call.function.arguments) for call in message.tool_calls or () if call.function)
            answers.append((len(text) + called) / CHARS_PER_TOKEN)
        elif len(prompts) < _PROMPTS and message.role not in SYSTEM_ROLES:
            prompts.append(message.text())
    turns = len(answers) + max(len(messages) - _MESSAGES, 0) // 2
    return prompts, answers[:_TURNS], tail, turns


def _system(messages: Sequence[Message]) -> str:
    return messages[0].text()[:HEAD_CHARS] if messages and messages[0].role in SYSTEM_ROLES else ""


def _ends(text: str) -> str:
    return f"{text[:HEAD_CHARS]} {text[-TAIL_CHARS:]}"


def _asked(prompt: str) -> tuple[float, str]:
    """The longest length that the prompt names, in tokens, and its unit."""
    longest, found = 0.0, ""
    for number, unit in _ASKED.findall(prompt):
        tokens = (_NUMBERS.get(number) or int(number)) * _UNIT_TOKENS[unit]
        if tokens > longest:
            longest, found = tokens, unit
    return longest, found
