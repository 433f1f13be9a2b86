"""How an answer is drawn and read: what it may call, how long it may think, what holds it to its form."""

from dataclasses import dataclass
from typing import Protocol

from embedded_engine.errors import InvalidRequest
from embedded_engine.messages import Generate, GrammarText
from embedded_engine.prompt import Prompt, PromptReader
from embedded_engine.stops import StopStrings
from embedded_engine.thinking import ThinkingMarks, ThinkingPlace
from embedded_engine.thinking_budget import ThinkingBudget
from embedded_engine.tools.offer import Offer, make_offer
from embedded_engine.transcript import Transcript
from embedded_engine.turns import Reasoning
from embedded_engine.vocabulary import Vocabulary

__all__ = ["SHARES", "AnswerPlan", "AnswerPlanner"]

SHARES = {"none": 0.0, "minimal": 0.1, "low": 0.2, "medium": 0.5, "high": 0.8, "xhigh": 0.95}
"""By effort, the part of an answer's tokens that may be thought."""

_USUAL_SHARE = 0.5
_WAIT = "\nWait,"


class Grammars(Protocol):
    """What compiles grammars."""

    def compile(self, grammar: GrammarText, /) -> object:
        """The grammar, or `InvalidRequest`."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class AnswerPlan:
    """The plan of one request's answers.

    Attributes:
        vocabulary: The model's tokens.
        stop: Stop strings.
        grammar: What the answer must look like, after the thought.
        offer: What it may call.
        marks: How the model marks a thought; None where there can be none.
        opened: Whether the prompt ends inside a thought.
        reasoning: How to think.
        most_thinking_tokens: And how long.
        wait: The tokens that make the model think on.
    """

    vocabulary: Vocabulary
    stop: tuple[str, ...] = ()
    grammar: GrammarText | None = None
    offer: Offer | None = None
    marks: ThinkingMarks | None = None
    opened: bool = False
    reasoning: Reasoning = Reasoning()  # noqa: RUF009  # frozen
    most_thinking_tokens: int = 0
    wait: tuple[int, ...] = ()

    def transcript(self) -> Transcript:
        """What reads one choice."""
        marks = self.marks
        stops_there = marks is not None and self.reasoning.on_exceed == "stop"
        family_marks = self.offer.family.marks if self.offer is not None else frozenset()
        control = {token: text for token, text in self.vocabulary.control.items() if text in family_marks}
        return Transcript(
            self.vocabulary,
            StopStrings(self.stop),
            thinking=ThinkingPlace(marks, self.vocabulary, opened=self.opened) if marks is not None else None,
            stop_thinking_after=self.most_thinking_tokens if stops_there else None,
            calls=self.offer.reader() if self.offer is not None else None,
            marks={token: text.encode() for token, text in control.items() if token is not None},
        )

    def budget(self) -> ThinkingBudget | None:
        """What bounds the thought of one choice."""
        if self.marks is None:
            return None
        return ThinkingBudget(
            self.marks,
            self.vocabulary,
            opened=self.opened,
            max_tokens=self.most_thinking_tokens,
            min_tokens=self.reasoning.min_tokens,
            wait=self.wait,
            ends=self.reasoning.on_exceed == "answer",
        )


class AnswerPlanner:
    """Plans answers of one model; safe to use from several threads."""

    def __init__(self, reader: PromptReader, vocabulary: Vocabulary, grammars: Grammars) -> None:
        self._reader = reader
        self._vocabulary = vocabulary
        self._grammars = grammars
        self._control = {text: token for token, text in vocabulary.control.items() if token is not None}
        self._wait = tuple(vocabulary.tokenize_inside(_WAIT)) if reader.marks is not None else ()

    def plan(self, request: Generate, prompt: Prompt, *, max_tokens: int) -> AnswerPlan:
        """The plan of `request`.

        Args:
            request: What is asked for.
            prompt: Its prompt.
            max_tokens: So many tokens an answer may have, thought included.

        Raises:
            InvalidRequest: Its tools or its wishes about thinking are badly defined.
        """
        offer = make_offer(request, self._reader.family, control=self._control, compile_=self._grammars.compile)
        _check_reasoning(request.reasoning)
        marks = self._reader.marks if request.messages is not None and not request.continues else None
        return AnswerPlan(
            vocabulary=self._vocabulary,
            stop=request.stop,
            grammar=request.grammar if offer is None else offer.grammar,
            offer=offer,
            marks=marks,
            opened=prompt.thinking,
            reasoning=request.reasoning,
            most_thinking_tokens=_most_thinking_tokens(request.reasoning, marks, max_tokens),
            wait=self._wait,
        )


def _check_reasoning(reasoning: Reasoning) -> None:
    if reasoning.effort is not None and reasoning.effort not in SHARES:
        raise InvalidRequest(f"reasoning effort must be one of {', '.join(SHARES)}", param="reasoning_effort")
    if reasoning.max_tokens is not None and reasoning.max_tokens < 0:
        raise InvalidRequest("reasoning.max_tokens must not be negative", param="reasoning.max_tokens")
    if reasoning.min_tokens < 0:
        raise InvalidRequest("reasoning.min_tokens must not be negative", param="reasoning.min_tokens")


def _most_thinking_tokens(reasoning: Reasoning, marks: ThinkingMarks | None, max_tokens: int) -> int:
    """The number that was asked for, or the effort's share; in any case with room for the end mark and an answer."""
    if marks is None or reasoning.enabled is False:
        return 0
    share = _USUAL_SHARE if reasoning.effort is None else SHARES[reasoning.effort]
    wanted = int(share * max_tokens) if reasoning.max_tokens is None else reasoning.max_tokens
    return max(0, min(wanted, max_tokens - len(marks.end) - 1))
