"""Passes an answer that ended by itself."""

from dataclasses import dataclass

from gateway.judgement import Answer, Choice, Judgement, cannot_say, failed, passed
from gateway.types import ChatRequest
from policies.judge._choices import each_choice

_KNOWN = frozenset({"stop", "length", "tool_calls", "function_call", "content_filter"})


@dataclass(frozen=True, kw_only=True)
class FinishReason:
    """Passes an answer that ended by itself: not cut at ``max_tokens``, and not by a filter.

    Attributes:
        allow: the reasons, in OpenAI's words, that are good ends.

    Example::

        judge: [{use: finish_reason, allow: [stop, tool_calls, length]}]
    """

    allow: tuple[str, ...] = ("stop", "tool_calls", "function_call")

    def judge(self, request: ChatRequest, answer: Answer) -> Judgement:  # noqa: ARG002  # the port's signature
        """See ``Judge.judge``."""
        return each_choice(answer, self._look)

    def _look(self, choice: Choice) -> Judgement:
        reason = choice.finish_reason
        if not reason:
            return cannot_say("the answer says no finish reason")
        if reason in self.allow:
            return passed()
        return failed(f"it ended for `{reason}`" if reason in _KNOWN else "it ended for a reason of the provider's own")
