"""Passes an answer whose text is JSON."""

from dataclasses import dataclass

from gateway.judgement import Answer, Choice, Judgement, cannot_say, failed, passed
from gateway.types import ChatRequest
from policies.judge._choices import each_choice
from policies.judge._json_text import parse


@dataclass(frozen=True, kw_only=True)
class ValidJson:
    """Passes an answer whose text is JSON, from its first character to its last.

    A choice that only calls tools has no text to judge: it cannot say. NaN and Infinity are no JSON.

    Attributes:
        fenced: whether the JSON may stand in a Markdown fence, as many models write it.

    Example::

        judge: [{use: valid_json, fenced: true}]
    """

    fenced: bool = False

    def judge(self, request: ChatRequest, answer: Answer) -> Judgement:  # noqa: ARG002  # the port's signature
        """See ``Judge.judge``."""
        return each_choice(answer, self._look)

    def _look(self, choice: Choice) -> Judgement:
        if choice.tool_calls and not choice.text.strip():
            return cannot_say("tools are called, there is no text")
        fault = parse(choice.text, fenced=self.fenced).fault
        return failed(fault) if fault else passed()
