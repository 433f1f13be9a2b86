"""Fails an answer in which the model declines."""

import re
from dataclasses import dataclass

from gateway.judgement import Answer, Choice, Judgement, failed, passed
from gateway.types import ChatRequest
from policies.judge._choices import each_choice

_APOSTROPHES = str.maketrans({"\u2019": "'", "\u02bc": "'", "\u2018": "'"})
_CANNOT = (
    r"(?:can(?:no|')?t|can not|am unable to|'m unable to|am not able to|'m not able to|won't|will not|must decline)"
)
_HELP = (
    r"(?:help|assist|fulfil|fulfill|comply|provide|continue|answer|do that|do this|discuss|create|generate|write|"
    r"engage|support|share|give|offer|complete|participate|produce)"
)
_DECLINES = re.compile(
    rf"\A\W{{0,4}}(?:(?:i'm|i am|we're) (?:really |very |so )?sorry\b.{{0,60}}?\b(?:but )?i ?{_CANNOT}\b"
    rf"|(?:sorry|i apologi[sz]e|apologies|unfortunately)\b.{{0,60}}?\bi ?{_CANNOT}\b"
    rf"|i ?{_CANNOT} {_HELP}\b"
    rf"|as an ai\b.{{0,60}}?\bi ?(?:{_CANNOT}|do not|don't)\b"
    r"|es tut mir (?:sehr )?leid\b.{0,60}?\bkann ich\b|(?:tut mir leid|leider)\b.{0,40}?\bkann ich\b.{0,80}?\bnicht\b"
    r"|(?:je suis )?désolée?\b.{0,60}?\bje ne (?:peux|puis)\b"
    r"|lo siento\b.{0,60}?\bno puedo\b)",
    re.IGNORECASE | re.DOTALL,
)
_HEURISTIC_SCORE = 0.1


@dataclass(frozen=True, kw_only=True)
class Refusal:
    """Fails an answer in which the model declines, where that can be told.

    Certain: the answer has a ``refusal`` of its own, or was ended by a content filter. A **heuristic**: the first
    words, read in English, German, French and Spanish for sentences such as "I'm sorry, but I can't", "I cannot help",
    "As an AI, I do not". It misses refusals in other words and further on, and takes an answer for a refusal that
    begins like one; its reason says that it is a heuristic, and its score is 0.1 instead of 0.

    Attributes:
        first_characters: how much of the beginning is read.

    Example::

        judge: [{use: refusal, first_characters: 160}]
    """

    first_characters: int = 160

    def __post_init__(self) -> None:
        if not 1 <= self.first_characters <= 2000:  # noqa: PLR2004  # said in the message
            raise ValueError("`first_characters` must be 1 to 2000")

    def judge(self, request: ChatRequest, answer: Answer) -> Judgement:  # noqa: ARG002  # the port's signature
        """See ``Judge.judge``."""
        return each_choice(answer, self._look)

    def _look(self, choice: Choice) -> Judgement:
        if choice.refusal.strip():
            return failed("the answer says itself that it is a refusal")
        if choice.finish_reason == "content_filter":
            return failed("a content filter ended it")
        beginning = choice.text[: self.first_characters].translate(_APOSTROPHES)
        if _DECLINES.match(beginning):
            return Judgement(success=False, score=_HEURISTIC_SCORE, reason="its first words decline (a heuristic)")
        return passed()
