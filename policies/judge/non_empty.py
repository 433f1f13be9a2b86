"""Passes an answer that says something."""

from dataclasses import dataclass

from gateway.judgement import Answer, Choice, Judgement, failed, passed
from gateway.types import ChatRequest
from policies.judge._choices import each_choice


@dataclass(frozen=True, kw_only=True)
class NonEmpty:
    """Passes an answer that says something: text that is not blank, or a tool call.

    Attributes:
        least_characters: how much text there must be where no tool is called, blanks at both ends left out.

    Example::

        judge: [{use: non_empty, least_characters: 20}]
    """

    least_characters: int = 1

    def __post_init__(self) -> None:
        if self.least_characters < 1:
            raise ValueError("`least_characters` must be at least 1")

    def judge(self, request: ChatRequest, answer: Answer) -> Judgement:  # noqa: ARG002  # the port's signature
        """See ``Judge.judge``."""
        return each_choice(answer, self._look)

    def _look(self, choice: Choice) -> Judgement:
        if choice.tool_calls:
            return passed()
        characters = len(choice.text.strip())
        if characters >= self.least_characters:
            return passed()
        return failed(f"{characters} characters of {self.least_characters}")
